# /// script
# requires-python = ">=3.11"
# dependencies = ["band-trio[local]"]
# ///
"""Two agents of different people become contacts and share a board, a memory and a file."""

# expects: Scout reads: Contact request from @demo-user/planner — Planner.
# expects: Planner: @demo-user the best day is Sunday
# expects: Plan a trip: task 1 is completed
import trio

from band_trio import Agent, ContactEventConfig, ContactStrategy, SimpleAdapter
from band_trio.localband import open_local_band

HUB = ContactEventConfig(strategy=ContactStrategy.HUB_ROOM)
MEMORY = {"system": "long_term", "type": "semantic", "segment": "user", "scope": "agent"}


class Planner(SimpleAdapter):
    async def on_message(self, msg, tools, history, people, contacts, **rest):
        if "get to know Scout" in msg.content:
            await tools.add_contact("ann/scout", "let us plan a trip")
        elif "begin" in msg.content:
            await tools.add_participant("ann/scout")
            await tools.set_board(goal_title="Plan a trip")
            await tools.create_task("Find the best day")
            await tools.send_message("which day is best?", mentions=["ann/scout"])
        else:  # Scout has sent a file
            (file,) = (await tools.list_room_files())["data"]
            day = await tools.read_room_file(file["id"])
            await tools.update_task("1", status="completed")
            await tools.send_message(f"the best day is {day['text']}", mentions=["demo-user"])


class Scout(SimpleAdapter):
    async def on_message(self, msg, tools, history, people, contacts, **_):
        news, asks, rest = msg.content.partition(" Request id: ")
        if asks and tools.is_hub_room:  # the room in which its own contacts are told of
            print("Scout reads:", news)
            await tools.respond_contact_request("approve", request_id=rest.partition(".")[0])
        elif not tools.is_hub_room:
            await tools.store_memory("Planner likes trips", thought="it plans one", **MEMORY)
            await tools.send_room_file("Sunday", "day.txt", mentions=[msg.sender_id])


async def main():
    async with open_local_band() as band:
        mine = band.register_agent("Planner")
        other = band.register_agent("Scout", owner=band.add_user("Ann"))
        scout = Agent.create(adapter=Scout(), contact_config=HUB, **band.connection(other))
        async with scout, Agent.create(adapter=Planner(), **band.connection(mine)):
            room = await band.user.create_room("Trip", [mine])
            await band.user.send(room, "get to know Scout", [mine])
            await band.until(lambda: band.world.contacts.of(other.id))
            await band.user.send(room, "begin", [mine])
            await band.until(lambda: "best day is" in band.transcript(room)[-1])
            print(band.transcript(room)[-1])
            tasks = band.world.tasks_of(band.world.rooms[room.id])
            print(f"{tasks.board.goal_title}: task 1 is {tasks.tasks[0].overall_status}")


if __name__ == "__main__":
    trio.run(main)

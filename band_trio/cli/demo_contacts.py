"""`band-trio demo --scene contacts`: two agents of different people meet through a hub room, share a
room, keep a board, a task and a memory, and exchange a file."""

from __future__ import annotations

from typing import Any, Final

import attrs
import trio

from band_trio.adapters.base import SimpleAdapter
from band_trio.agent import Agent
from band_trio.cli import texts
from band_trio.cli.transcript import Transcript
from band_trio.config.agent import ContactEventConfig, ContactStrategy
from band_trio.entry.console import Console, Style
from band_trio.entry.exits import Exit
from band_trio.localband import LocalBand, open_local_band
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.types import HistoryProvider, PlatformMessage

SECONDS: Final = 15.0
_FACT: Final[dict[str, Any]] = {
    "system": "long_term",
    "type": "semantic",
    "segment": "agent",
    "scope": "agent",
}


class Planner(SimpleAdapter[Any]):
    """Plans a trip, with the help of somebody whom it has to get to know first."""

    async def on_message(
        self,
        msg: PlatformMessage,
        tools: AgentToolsProtocol,
        history: HistoryProvider,
        participants_msg: str | None,
        contacts_msg: str | None,
        *,
        is_session_bootstrap: bool,
        room_id: str,
    ) -> None:
        """Get to know Scout, bring it in, and take its file."""
        if "get to know" in msg.content:
            await tools.add_contact("ann/scout", "let us plan a trip")
        elif "begin" in msg.content:
            await tools.add_participant("ann/scout")
            await tools.set_board(goal_title="Plan a trip", goal_summary="one day, by train")
            await tools.create_task("Find the best day")
            await tools.send_message("Which day is the best one?", mentions=["ann/scout"])
        else:
            (file,) = (await tools.list_room_files())["data"]
            read = await tools.read_room_file(file["id"])
            await tools.update_task("1", status="completed", comment=f"{file['name']} tells")
            await tools.send_message(f"The best day is {read['text']}.", mentions=["demo-user"])


class Scout(SimpleAdapter[Any]):
    """Answers contact requests by itself, and looks for days."""

    async def on_message(
        self,
        msg: PlatformMessage,
        tools: AgentToolsProtocol,
        history: HistoryProvider,
        participants_msg: str | None,
        contacts_msg: str | None,
        *,
        is_session_bootstrap: bool,
        room_id: str,
    ) -> None:
        """Approve what is asked in the hub room; send a file in the others."""
        _, asks, rest = msg.content.partition("Request id: ")
        if tools.is_hub_room:
            if asks:
                request_id = rest.partition(".")[0]
                await tools.respond_contact_request("approve", request_id=request_id)
                await tools.send_event("Approved: it wants to plan a trip.", "thought")
            return
        await tools.store_memory("Planner likes trips", thought="it plans one", **_FACT)
        await tools.send_room_file(
            "Sunday", "day.txt", "I have looked at all of them.", mentions=[msg.sender_id]
        )


@attrs.define(eq=False)
class ContactsDemo:
    """One performance; it ends well if everything has come about."""

    console: Console
    memory: bool = False

    async def run(self) -> Exit:
        """Perform."""
        async with open_local_band(memory=self.memory) as band:
            transcript = Transcript(band, self.console)
            self.console.line(texts.contacts_opening(band.rest_url), Style.TITLE)
            transcript.follow()
            transcript.title(texts.SCENE_CONTACTS)
            with trio.move_on_after(SECONDS):
                done = await self._perform(band)
                style = Style.GOOD if done else Style.BAD
                self.console.line(texts.CONTACTS_GOOD if done else texts.DEMO_BAD, style)
                return Exit.OK if done else Exit.FAILED
        self.console.line(texts.DEMO_BAD, Style.BAD)
        return Exit.FAILED

    async def _perform(self, band: LocalBand) -> bool:
        mine = band.register_agent("Planner", "Plans trips")
        other = band.register_agent("Scout", "Finds days", owner=band.add_user("Ann"))
        hub = ContactEventConfig(strategy=ContactStrategy.HUB_ROOM)
        planner = Agent.create(adapter=Planner(), **band.connection(mine, single_instance=False))
        scout = Agent.create(
            adapter=Scout(), contact_config=hub, **band.connection(other, single_instance=False)
        )
        world = band.world
        async with scout, planner:
            room = await band.user.create_room("Trip", [mine])
            await band.user.send(room, "Please get to know Scout, who finds days.", [mine])
            await band.until(lambda: bool(world.contacts.of(other.id)))
            await band.user.send(room, "Now begin with the trip.", [mine])
            await band.until(lambda: "best day is" in band.transcript(room)[-1])
            await band.until(lambda: not band.unprocessed(mine))
        tasks = world.tasks_of(world.rooms[room.id])
        return (
            tasks.board.goal_title == "Plan a trip"
            and next(iter(tasks.tasks)).overall_status == "completed"
            and [memory.content for memory in world.memories.rows.values()]
            == ["Planner likes trips"]
        )

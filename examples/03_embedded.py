# /// script
# requires-python = ">=3.11"
# dependencies = ["band-trio[local]"]
# ///
"""Agents inside a trio application, on a platform of their own: needs no account.

Two ways to embed one: `nursery.start(agent.run)`, which returns once the agent is connected and
raises if it cannot be, and `async with agent:`, which stops it at the end of the block.
"""

# expects: Ada is connected: True
# expects: Ada: You said: hello
# expects: Bob: You said: hi
import trio

from band_trio import Agent
from band_trio.adapters import EchoAdapter
from band_trio.localband import open_local_band


async def ask(band, account, text):
    """Open a room with an agent, say something, print the answer."""
    room = await band.user.create_room("Example", members=[account])
    message = await band.user.send(room, text, mentions=[account])
    await band.until(lambda: band.state(message, account) == "processed")
    answer = (await band.user.messages(room))[-1]
    print(f"{account.name}: {answer['content'].partition(' ')[2]}")


async def main():
    async with open_local_band() as band:
        ada, bob = band.register_agent("Ada"), band.register_agent("Bob")
        agent = Agent.create(adapter=EchoAdapter(), **band.connection(ada))

        async with trio.open_nursery() as nursery:
            await nursery.start(agent.run)
            print(f"Ada is connected: {agent.is_connected}")
            await ask(band, ada, "hello")

            async with Agent.create(adapter=EchoAdapter(), **band.connection(bob)):
                await ask(band, bob, "hi")

            agent.stop(grace=5)  # the turns that run may take five more seconds


if __name__ == "__main__":
    trio.run(main)

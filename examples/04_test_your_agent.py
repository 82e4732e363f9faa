# /// script
# requires-python = ">=3.11"
# dependencies = ["band-trio[local]"]
# ///
"""Tests of an agent: single turns on fakes, then the whole of it under a virtual clock.

Each test is a plain async function; with pytest-trio, name the file test_….py and leave out the
last block.
"""

# expects: one turn: ok
# expects: an hour of work: ok
import time

import trio
import trio.testing

from band_trio import Agent, SimpleAdapter
from band_trio.testing import FakeAgentTools, make_message, open_local_band, run_turn


class Slow(SimpleAdapter):
    async def on_message(self, msg, tools, *rest, **more):
        await trio.sleep(3600)
        await tools.send_message("Done.", mentions=[msg.sender_id])


async def test_one_turn():
    tools = FakeAgentTools(participants=[{"id": "u1", "handle": "maria"}])
    result = await run_turn(Slow(), make_message("go", sender_id="u1"), tools)
    assert result.record == "processed"
    tools.assert_message_sent(content="Done.", mentions=["u1"])
    print("one turn: ok")


async def test_an_hour_of_work():
    async with open_local_band(memory=True) as band:
        account = band.register_agent("Slow")
        room = await band.user.create_room(members=[account])
        async with Agent.create(adapter=Slow(), **band.connection(account)):
            message = await band.user.send(room, "go", mentions=[account])
            await trio.sleep(1800)
            band.cut(account)  # the connection breaks in the middle of it
            await band.until(lambda: band.state(message, account) == "processed")
        assert band.attempts(message, account) == ["success"]
    print("an hour of work: ok")


if __name__ == "__main__":
    began = time.monotonic()
    for test in (test_one_turn, test_an_hour_of_work):
        trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0))
    assert time.monotonic() - began < 30, "an hour of a virtual clock takes no time"

"""The key is in no record, no error, no representation, whoever repeats it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import quote, quote_plus

import attrs
import pytest
import trio
import trio.testing

from band_trio import (
    Agent,
    BandAuthError,
    BandConnectionError,
    BandSupersededError,
)
from band_trio.localband import open_local_band
from band_trio.localband.fault_rules import RequestFault
from band_trio.localband.routes import Reply
from band_trio.protocol.events import agent_control
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Scripted, Stage, reply, stage

KEY = "thnv_a_se/cret+k=ey&%x'\"z"


FORMS = (
    KEY,
    quote(KEY, safe=""),
    quote(KEY),
    quote_plus(KEY),
    repr(KEY)[1:-1],
    repr(KEY.encode())[2:-1],
)


def assert_no_key(text: str) -> None:
    for form in FORMS:
        place = text.find(form)
        assert place < 0, f"the key is shown: {text[max(0, place - 300) : place + 60]}"


def shown(exc: BaseException) -> str:
    """Return everything that a tool which shows errors could show: chains, groups, locals."""
    told = traceback.TracebackException.from_exception(exc, capture_locals=True)
    return "".join(told.format(chain=True)) + repr(exc) + str(exc)


@asynccontextmanager
async def on_real_sockets() -> AsyncGenerator[Stage]:
    """A platform on loopback, where the libraries log as they do, that knows the key."""
    async with open_local_band() as band:
        account = attrs.evolve(band.register_agent("Scribe"), api_key=KEY)
        band.world.keys[KEY] = band.world.parties[account.id]
        yield Stage(band, account, Scripted())


@guarantee(79)
@case("C60")
async def test_the_key_is_in_no_record_and_no_repr(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with on_real_sockets() as here:
        room = await here.room()

        async def fails_with_it(call: Call) -> None:
            if call.text == "hello":
                await reply(call)
                return
            try:
                raise KeyError(KEY)
            except KeyError as exc:
                raise ValueError(f"with {KEY}, or {quote(KEY, safe='')}") from exc

        here.adapter.behaviour = fails_with_it
        async with here.running() as agent:
            await here.settled(await here.say(room, "hello"))
            here.band.faults.refuse(500, route="messages", times=1)
            here.band.cut(here.account)
            await here.settled(await here.say(room, "fail"), state="failed")
            runtime, settings = agent._runtime, agent.settings
            assert runtime is not None
            rest = here.adapter.calls[0].tools.rest  # type: ignore[attr-defined]
            for each in (
                agent, settings, settings.credentials, settings.config, settings.endpoints,
                runtime, runtime.link, rest, rest.api, agent.health(), here.adapter.platform,
            ):  # fmt: skip
                assert_no_key(repr(each))
        assert_no_key(str(await here.band.user.messages(room)))

    for record in caplog.records:
        assert_no_key(record.getMessage() + logging.Formatter().format(record))
    assert {record.name.partition(".")[0] for record in caplog.records} >= {
        "band_trio",
        "trio-websocket",
    }


@guarantee(79)
@case("C60")
async def test_the_key_is_in_no_error_and_no_traceback_with_locals() -> None:
    async with on_real_sockets() as here:
        faults = here.band.faults
        faults.refuse(401, route="me")
        assert_no_key(shown(await error_of(here.agent())))
        faults.refuse_upgrade(403)
        assert_no_key(shown(await error_of(here.agent())))
        faults.refuse_upgrade(500, times=None)
        assert_no_key(shown(await error_of(here.agent(start_patience_seconds=0.1))))
    nobody_listens = here.agent(start_patience_seconds=0.1)
    assert_no_key(shown(await error_of(nobody_listens)))


async def error_of(agent: Agent) -> BaseException:
    """Run an agent and return the error that ends its start."""
    try:
        await agent.run()
    except (BandAuthError, BandConnectionError) as exc:
        return exc
    raise AssertionError("it runs")


@guarantee(79)
@case("C60")
async def test_a_platform_that_repeats_the_key_does_not_spread_it(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "band_trio")
    async with stage() as here:
        key, me = here.account.api_key, here.account
        said = {"code": "c", "message": key, "request_id": key, "details": {f"/{key}": [key]}}
        fault = RequestFault(commit=False, answer=Reply(422, {"error": said}))
        refusal = here.band.faults.on_request(fault, route="messages", times=1)
        superseded = {"reason": key, "message": f"by {key}", "retryable": False}
        with pytest.RaisesGroup(BandSupersededError) as caught:
            async with here.running():
                await here.room()
                await trio.sleep(5)
                assert refusal.hits == 1
                here.band.send_frame(me, agent_control(me.id), key, {key: key})
                here.band.send_frame(me, agent_control(me.id), "supersede", superseded)
                await trio.sleep(5)

    (error,) = caught.value.exceptions
    for text in (str(error), repr(error), str(vars(error)), *caplog.messages):
        assert key not in text
    assert any("list could not be read" in line for line in caplog.messages)

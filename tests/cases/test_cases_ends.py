"""How things end: silent peers, broken parts, signals, failed starts, hooks, secrets."""

from __future__ import annotations

import ast
import gc
import logging
import signal
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, quote_plus

import attrs
import pytest
import trio
import trio.testing

import band_trio
from band_trio import (
    Agent,
    BandAuthError,
    BandConnectionError,
    BandSupersededError,
    SessionConfig,
    ShutdownReport,
)
from band_trio.link.channel.epoch import Epoch
from band_trio.link.channel.socket import Socket
from band_trio.localband import open_local_band
from band_trio.localband.fault_rules import RequestFault
from band_trio.localband.records import SocketRecord
from band_trio.localband.routes import Reply
from band_trio.protocol.events import agent_control
from band_trio.tools.agent_tools import AgentTools
from band_trio.trace import Started, TraceEvent
from tests.link.phoenix_peer import until
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Scripted, Stage, reply, stage
from tests.runtime.lifecycle_kit import LifeStage, life, tasks
from tests.support.for_each import for_each

# --------------------------------------------------------------------------- silent peers


@guarantee(51)
@case("C44")
@pytest.mark.slow
@pytest.mark.parametrize("when", ["at the stop", "in a reconnect"])
async def test_a_silent_platform_on_real_sockets_does_not_keep_the_agent(
    when: str,
) -> None:
    async with open_local_band() as band:
        here = Stage(band, band.register_agent("Scribe"), Scripted())
        room = await here.room()
        with trio.fail_after(8):
            async with here.running(
                grace=0, connect_seconds=0.2, reconnect_base_seconds=0.01,
                heartbeat_seconds=0.05, dead_seconds=0.2,
            ) as agent:  # fmt: skip
                await here.settled(await here.say(room, "hello"))
                band.silence(here.account)
                if when == "in a reconnect":
                    await until(lambda: agent.health().epoch == 2)
                    await here.settled(await here.say(room, "again"))
                    band.silence(here.account)
                began = time.perf_counter()
            assert time.perf_counter() - began < 2
    gc.collect()  # a socket that leaked warns here, and warnings are errors


# --------------------------------------------------------------------------- broken parts


@guarantee(45)
@case("C52")
@pytest.mark.parametrize("part", ["_beat", "_watch", "_read", "_keep_topics"])
async def test_a_part_of_the_connection_that_breaks_ends_the_run(
    part: str, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Epoch) -> None:
        await trio.sleep(5)
        raise ZeroDivisionError("a bug")

    async with life() as here:
        await here.room()
        real = getattr(Epoch, part)

        async def breaks_later(self: Epoch) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(broken, self)
                await real(self)

        monkeypatch.setattr(Epoch, part, breaks_later)
        await assert_run_raises(here)


@guarantee(45)
@case("C52")
async def test_a_writer_that_breaks_ends_the_run(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Socket, text: str) -> None:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError("a bug")

    async with life() as here:
        await here.room()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(assert_run_raises, here)
            await trio.sleep(5)
            monkeypatch.setattr(Socket, "send", broken)
            await here.room()


async def assert_run_raises(here: LifeStage) -> None:
    """Run an agent in which a part breaks after 5 s."""
    began = trio.current_time()
    with pytest.RaisesGroup(ZeroDivisionError, allow_unwrapped=True, flatten_subgroups=True):
        async with here.agent():
            await trio.sleep(100)
    assert trio.current_time() - began < 10


# --------------------------------------------------------------------------- stops


@guarantee(51)
@case("C53")
async def test_a_stop_from_two_tasks_is_one_and_after_a_crash_none(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()
        agent = here.agent()
        reports: list[ShutdownReport] = []

        async def stop() -> None:
            await trio.sleep(5)
            agent.stop(grace=3)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop)
            nursery.start_soon(stop)
            reports.append(await agent.run())
        assert [report.graceful for report in reports] == [True]
        await here.assert_nothing_left()

        here.noted.hooks["on_started"] = crash
        with pytest.raises(ZeroDivisionError):
            await agent.run()
        agent.stop(grace=0)
        del here.noted.hooks["on_started"]
        async with agent:
            await here.settled(await here.say(room, "hello"))
        await here.assert_nothing_left()


async def crash() -> None:
    await trio.lowlevel.checkpoint()
    raise ZeroDivisionError("a bug")


@guarantee(46)
@case("C53")
@pytest.mark.slow
def test_a_run_outside_of_the_main_thread_touches_no_signal() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    seen: list[object] = []

    async def main() -> None:
        async with stage() as here:
            room = await here.room()
            async with here.running():
                await here.settled(await here.say(room, "hello"))
                seen.append([signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)])
        seen.append(here.reports[0].graceful)

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    thread.join(10)
    assert seen == [before, True]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


# --------------------------------------------------------------------------- failed starts


def identity_fails(here: LifeStage) -> None:
    here.band.faults.refuse(500, route="me", times=None)


def join_is_refused(here: LifeStage) -> None:
    here.band.faults.reject_join(f"agent_control:{here.account.id}", times=None)


@guarantee(57)
@case("C54")
@pytest.mark.parametrize("fault", [identity_fails, join_is_refused], ids=lambda f: f.__name__)
async def test_after_a_start_that_failed_the_same_agent_starts(
    fault: Callable[[LifeStage], None], autojump_clock: trio.testing.MockClock
) -> None:
    async with life() as here:
        room = await here.room()
        agent = here.agent(start_patience_seconds=20)
        fault(here)
        with pytest.raises(BandConnectionError):
            await agent.run()
        await here.assert_nothing_left()
        assert here.band.session(here.account) is None
        here.band.faults.clear()
        async with agent:
            await here.settled(await here.say(room, "hello"))
        await here.assert_nothing_left()


# --------------------------------------------------------------------------- hooks


@guarantee(56)
@case("C57")
async def test_clean_up_hooks_post_with_tools_of_no_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()
        posted_at: list[float] = []

        async def says_goodbye() -> None:
            await trio.sleep(0.2)
            tools = AgentTools(room, here.adapter.calls[0].tools.rest, agent_id=here.account.id)  # type: ignore[attr-defined]
            await tools.send_event("goodbye", "thought")
            posted_at.append(here.band.world.elapsed())

        for hook in ("on_cleanup", "cleanup_all"):
            here.noted.hooks[hook] = says_goodbye
        here.adapter.add_cleanup(says_goodbye)
        async with here.running(grace=0):
            await here.settled(await here.say(room, "hello"))
        rows = await here.band.user.messages(room)
        assert [row["content"] for row in rows if row["message_type"] == "thought"] == [
            "goodbye"
        ] * 3
        (ended,) = [row.at for row in here.band.log.of(SocketRecord) if row.what == "ended"]
        assert len(posted_at) == 3
        assert max(posted_at) <= ended, "the socket is closed after all hooks"
        assert here.reports[0].cleanup_errors == ()


# --------------------------------------------------------------------------- secrets

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


# --------------------------------------------------------------------------- events


@case("C61")
def test_no_async_generator_holds_anything_open() -> None:
    """Every async function with a `yield` is a context manager, which its caller has to leave."""
    found = 0
    for path in Path(band_trio.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "yield" not in text or "async def" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.AsyncFunctionDef) and _yields(node):
                names = [ast.unparse(each) for each in node.decorator_list]
                assert "asynccontextmanager" in names, f"{path.name}: {node.name}"
                found += 1
    assert found > 5


def _yields(function: ast.AsyncFunctionDef) -> bool:
    """Tell whether a function has a `yield` of its own."""
    nodes: list[ast.AST] = list(function.body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Yield):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            nodes.extend(ast.iter_child_nodes(node))
    return False


@guarantee(46)
@case("C61")
@for_each("end", ["break", "raise", "collected"])
async def test_events_can_be_iterated_and_left_in_any_way(
    end: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The observer feeds a channel of the application; leaving it disturbs nobody."""
    async with life() as here:
        room = await here.room()
        send, receive = trio.open_memory_channel[TraceEvent](1000)

        def observe(event: TraceEvent) -> None:
            try:
                send.send_nowait(event)
            except trio.BrokenResourceError:
                here.observe(event)  # nobody listens any more

        async def first_start() -> str:
            async for event in receive:
                if isinstance(event, Started):
                    if end == "raise":
                        raise LookupError(event.message_id)
                    return event.message_id
            raise AssertionError("it never started")

        async with here.running(observer=observe):
            before = tasks()
            message = await here.say(room, "one")
            if end == "raise":
                with pytest.raises(LookupError, match=message):
                    await first_start()
            else:
                assert await first_start() == message
            if end == "collected":
                iterator = receive.__aiter__()
                await iterator.__anext__()
                del iterator
                gc.collect()
            receive.close()
            await here.settled(message, await here.say(room, "two"))
            await trio.sleep(5)
            assert tasks() == before
        await here.assert_nothing_left()


# --------------------------------------------------------------------------- asked at once


@guarantee(60)
@case("C62")
async def test_many_refusals_ask_for_the_identity_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        rooms = [await here.room() for _ in range(10)]
        session = SessionConfig(idle_resync_seconds=1e7, idle_resync_max_seconds=1e7)
        async with here.running(session):
            await trio.sleep(5)
            asked = len(here.band.log.requests("me"))
            here.band.faults.refuse(401, route="processing", times=20)
            here.band.faults.delay(3, route="me", answer=True, times=1)
            messages = [await here.say(room, "work") for room in rooms]
            await trio.sleep(2)
            assert len(here.band.log.requests("me")) - asked == 1
            await here.settled(*messages)
            await trio.sleep(5)
            before = len(here.band.log.requests("me"))
            here.band.faults.refuse(401, route="processing", times=1)
            await here.settled(await here.say(rooms[0], "later"))
            await trio.sleep(1)
            assert len(here.band.log.requests("me")) - before == 1, "it is asked anew each time"

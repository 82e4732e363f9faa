"""Starting an agent: it is up, or nothing of it is left."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from band_trio import (
    Agent,
    BandAuthError,
    BandConfigError,
    BandConnectionError,
)
from band_trio.errors import BandApiError, BandError
from band_trio.trace import EpochBegan
from tests.marks import case, guarantee
from tests.runtime.lifecycle_kit import (
    OVERHEAD,
    LifeStage,
    Noted,
    Ready,
    by_caller,
    by_stop,
    life,
    raises,
    run_and_strike,
    stride,
)
from tests.support.for_each import for_each

Strike = Callable[[Agent, trio.CancelScope], None]


STRIKES = pytest.mark.parametrize("strike", [by_caller, by_stop])


# ------------------------------------------------------------------ cut short


@guarantee(57, 58)
@case("C54")
@pytest.mark.slow
@STRIKES
async def test_a_start_that_is_cut_at_any_step_leaves_nothing(
    strike: Strike, autojump_clock: trio.testing.MockClock
) -> None:
    async with life() as here:
        await here.room()
        step, cut_during_start = 0, 0
        while True:
            step += stride()
            outcome = await run_and_strike(here.agent(), step, strike)
            await here.assert_nothing_left()
            assert outcome.seconds <= OVERHEAD
            if not outcome.struck:
                break
            cut_during_start += outcome.ready.at is None
            if outcome.ready.at is None and strike is by_stop:
                assert outcome.report is not None, "a stop is no error"
                assert outcome.report.graceful

        assert cut_during_start * stride() > 40, "the sweep saw most of a start"
        async with here.running():
            await here.settled(await here.say(await here.room(), "still works"))


async def no_answer(here: LifeStage, route: str) -> dict[str, Any]:
    await trio.lowlevel.checkpoint()
    here.band.faults.hang(route=route, times=None)
    return {}


async def never_opens(here: LifeStage) -> dict[str, Any]:
    await trio.lowlevel.checkpoint()

    async def open_stream(url: str) -> trio.abc.Stream:
        await trio.sleep_forever()
        raise AssertionError

    return {"open_stream": open_stream}


async def never_upgraded(here: LifeStage) -> dict[str, Any]:
    await trio.lowlevel.checkpoint()

    async def open_stream(url: str) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        near, far = trio.testing.memory_stream_pair()
        kept.append(far)
        return near

    kept: list[trio.abc.Stream] = []
    return {"open_stream": open_stream}


async def refused_for_an_hour(here: LifeStage) -> dict[str, Any]:
    await trio.lowlevel.checkpoint()
    here.band.faults.refuse_upgrade(503, retry_after=3600, times=None)
    return {}


async def join_ignored(here: LifeStage) -> dict[str, Any]:
    await trio.lowlevel.checkpoint()
    here.band.faults.ignore_join(times=None)
    return {}


async def hook_hangs(here: LifeStage, name: str) -> dict[str, Any]:
    await trio.lowlevel.checkpoint()
    here.noted.hooks[name] = trio.sleep_forever
    return {}


WAITS: dict[str, Callable[[LifeStage], Awaitable[dict[str, Any]]]] = {
    "identity": lambda here: no_answer(here, "me"),
    "adapter serve": lambda here: hook_hangs(here, "serve"),
    "on_started": lambda here: hook_hangs(here, "on_started"),
    "open stream": never_opens,
    "upgrade": never_upgraded,
    "told wait": refused_for_an_hour,
    "join": join_ignored,
    "listing": lambda here: no_answer(here, "chats"),
}


@guarantee(58)
@STRIKES
@pytest.mark.parametrize("wait", WAITS)
async def test_a_start_that_waits_is_ended_at_once(
    wait: str, strike: Strike, autojump_clock: trio.testing.MockClock
) -> None:
    async with life() as here:
        agent = here.agent(**await WAITS[wait](here))
        ready = Ready()
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def run() -> None:
                with scope:
                    await agent.run(task_status=ready)

            nursery.start_soon(run)
            await trio.sleep(5)
            strike(agent, scope)
            began = trio.current_time()

        assert ready.at is None
        # Once the socket is up, its close frame may wait a second for an answer.
        assert trio.current_time() - began <= (1.0 if wait in ("join", "listing") else 0.0)
        here.band.faults.clear()
        await here.assert_nothing_left()


@guarantee(58)
async def test_the_caller_of_nursery_start_can_give_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        here.band.faults.hang(route="me", times=None)
        async with trio.open_nursery() as nursery:
            began = trio.current_time()
            with trio.move_on_after(3) as patience:
                await nursery.start(here.agent().run)
            assert patience.cancelled_caught
            assert trio.current_time() - began == 3.0
        here.band.faults.clear()
        await here.assert_nothing_left()


# ------------------------------------------------------------------ failed


def identity_refused(here: LifeStage) -> None:
    here.band.faults.refuse(401, route="me", times=None)


def identity_forbidden(here: LifeStage) -> None:
    here.band.faults.refuse(403, route="me", times=None)


def identity_broken(here: LifeStage) -> None:
    here.band.faults.refuse(422, route="me", times=None)


def identity_down(here: LifeStage) -> None:
    here.band.faults.unreachable(route="me", times=None)


def on_started_raises(here: LifeStage) -> None:
    here.noted.hooks["on_started"] = raises(ZeroDivisionError("on_started"))


def serve_raises(here: LifeStage) -> None:
    here.noted.hooks["serve"] = raises(ZeroDivisionError("serve"))


def on_started_exits(here: LifeStage) -> None:
    here.noted.hooks["on_started"] = raises(SystemExit(7))


def upgrade_forbidden(here: LifeStage) -> None:
    here.band.faults.refuse_upgrade(403, times=None)


def upgrade_not_found(here: LifeStage) -> None:
    here.band.faults.refuse_upgrade(404, times=None)


def upgrade_down(here: LifeStage) -> None:
    here.band.faults.refuse_upgrade(500, times=None)


def join_refused(here: LifeStage) -> None:
    here.band.faults.reject_join(f"agent_control:{here.account.id}", times=None)


def listing_refused(here: LifeStage) -> None:
    here.band.faults.refuse(401, route="chats", times=None)


def listing_not_found(here: LifeStage) -> None:
    here.band.faults.refuse(404, route="chats", times=None)


def listing_down(here: LifeStage) -> None:
    here.band.faults.refuse(500, route="chats", times=None)


AT_ONCE: dict[Callable[[LifeStage], None], type[BaseException]] = {
    identity_refused: BandAuthError,
    identity_forbidden: BandAuthError,
    identity_broken: BandApiError,
    on_started_raises: ZeroDivisionError,
    serve_raises: ZeroDivisionError,
    on_started_exits: SystemExit,
    upgrade_forbidden: BandAuthError,
    upgrade_not_found: BandConfigError,
    listing_refused: BandAuthError,
    listing_not_found: BandApiError,
}
AFTER_PATIENCE = (identity_down, upgrade_down, join_refused, listing_down)


def assert_helpful(error: BaseException) -> None:
    """Check that an error of ours says where it happened and what to do."""
    if isinstance(error, BandError):
        assert "://localband.localhost" in str(error)
        assert re.search("[Cc]heck|URL right", str(error)), str(error)


@guarantee(57, 60)
@case("C18", "C54")
@for_each("fault", AT_ONCE, ids=lambda fault: fault.__name__)
async def test_a_definite_failure_of_the_start_is_raised_as_it_is_and_leaves_nothing(
    fault: Callable[[LifeStage], None], autojump_clock: trio.testing.MockClock
) -> None:
    async with life() as here:
        fault(here)
        ready = Ready()
        with pytest.raises(AT_ONCE[fault]) as caught:
            await here.agent().run(task_status=ready)

        assert caught.type is AT_ONCE[fault]
        assert ready.at is None
        assert here.account.api_key not in str(caught.value)
        assert_helpful(caught.value)
        await here.assert_nothing_left()

        here.band.faults.clear()
        here.adapter = Noted()
        async with here.running():
            await here.settled(await here.say(await here.room(), "the next start works"))


@guarantee(57)
@case("C54")
@pytest.mark.parametrize("fault", AFTER_PATIENCE, ids=lambda fault: fault.__name__)
async def test_a_transient_failure_is_told_once_and_raised_when_the_patience_is_over(
    fault: Callable[[LifeStage], None],
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with life() as here:
        fault(here)
        began = trio.current_time()
        with caplog.at_level(logging.WARNING), pytest.raises(BandConnectionError) as caught:
            await here.agent(start_patience_seconds=20).run()

        assert caught.type is BandConnectionError
        assert 20.0 <= trio.current_time() - began <= 21.0
        assert_helpful(caught.value)
        urls = (here.band.rest_url, here.band.ws_url)
        assert any(url in str(caught.value) for url in urls)
        told = [r.getMessage() for r in caplog.records if any(u in r.getMessage() for u in urls)]
        assert len(told) == 1
        assert here.account.api_key not in caplog.text
        here.band.faults.clear()
        await here.assert_nothing_left()


@guarantee(57)
async def test_transient_failures_within_the_patience_only_delay_the_start(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        faults = here.band.faults
        faults.unreachable(route="me", times=2)
        faults.refuse(429, route="me", retry_after=9, times=1)
        faults.refuse_upgrade(503, retry_after=4, times=1)
        faults.refuse(500, route="chats", times=1)
        began = trio.current_time()
        async with here.running():
            assert 13.0 <= trio.current_time() - began <= 25.0
            await here.settled(await here.say(await here.room(), "hello"))
        await here.assert_nothing_left()


@guarantee(57)
async def test_the_adapter_is_up_before_the_socket_exists(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        at_connect: list[list[str]] = []

        def observe(event: object) -> None:
            if isinstance(event, EpochBegan):
                at_connect.append(list(here.noted.notes))

        async with here.running(observer=observe):
            pass
        assert at_connect == [["serve", "started"]]


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

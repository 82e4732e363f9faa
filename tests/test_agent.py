"""What `Agent.create` and `stop` refuse, before anything runs."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from band_trio import Agent, BandConfigError, SimpleAdapter
from band_trio.runtime.turn.preprocessing import DefaultPreprocessor
from tests.marks import case
from tests.support.for_each import for_each


class Bare:
    """The least that an adapter is."""

    async def on_event(self, inp: Any) -> None: ...

    async def on_cleanup(self, room_id: str) -> None: ...

    async def on_started(self, agent_name: str, agent_description: str) -> None: ...


class Simple(SimpleAdapter[Any]):
    async def on_message(self, *args: Any, **kwargs: Any) -> None: ...


def sync(self: object, *args: object, **kwargs: object) -> None: ...


def make(adapter: Any, **options: Any) -> Agent:
    return Agent.create(adapter=adapter, agent_id="a", api_key="thnv_a_key", **options)


@case("C21")
@for_each("base", [Bare, Simple])
@for_each("name", ["on_event", "on_started", "serve", "try_handle_control"])
def test_a_method_that_is_awaited_must_be_async(name: str, base: type) -> None:
    bad = type("Bad", (base,), {name: sync})
    with pytest.raises(BandConfigError, match=rf"Bad\.{name} must be `async def`"):
        make(bad())


def test_what_runs_in_a_thread_where_it_is_sync_is_taken() -> None:
    for name in ("on_cleanup", "cleanup_all", "on_interrupt"):
        make(type("Good", (Simple,), {name: sync})())


def test_wrapped_and_partial_methods_are_what_they_wrap() -> None:
    def logged(fn: Any) -> Any:
        @functools.wraps(fn)
        def call(*args: Any) -> Any:
            return fn(*args)

        return call

    class Wrapped(Bare):
        on_event = logged(Bare.on_event)

    adapter: Any = Wrapped()
    adapter.on_started = functools.partial(Bare.on_started, adapter)
    make(adapter)


@case("C21")
@for_each("bad", [type("Bad", (), {"process": sync})(), object()])
def test_a_preprocessor_must_have_an_async_process(bad: Any) -> None:
    with pytest.raises(BandConfigError, match="process"):
        make(Bare(), preprocessor=bad)
    make(Bare(), preprocessor=DefaultPreprocessor())


@for_each("grace", ["5", None, True, -1, float("nan")])
def test_a_grace_that_is_no_number_of_seconds_is_refused(grace: Any) -> None:
    with pytest.raises(BandConfigError, match="grace must be zero or more seconds"):
        make(Bare()).stop(grace=grace)


@for_each("grace", [0, 2.5, float("inf")])
def test_a_stop_before_the_run_has_no_effect(grace: float) -> None:
    make(Bare()).stop(grace=grace)

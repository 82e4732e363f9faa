"""What `SimpleAdapter` promises to subclasses and to the runtime."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

import pytest
import trio

from band_trio.adapters import SimpleAdapter
from band_trio.errors import BandConfigError, BandToolError
from band_trio.testing import (
    FakeAgentTools,
    events_of_type,
    feature_kwargs,
    make_message,
    platform_connection_stub,
    run_turn,
)
from band_trio.types import (
    AdapterFeatures,
    Capability,
    Emit,
    FeatureKwargs,
    HistoryProvider,
    ToolCategory,
    TurnUsage,
)
from tests.marks import case
from tests.support.for_each import for_each


class Seen(SimpleAdapter[Any]):
    """Keeps what it is called with."""

    SUPPORTED_EMIT: ClassVar[frozenset[Emit]] = Emit.USAGE | Emit.THOUGHTS
    SUPPORTED_CAPABILITIES: ClassVar[frozenset[Capability]] = Capability.MEMORY | Capability.FILES

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls: list[Any] = []

    async def on_message(
        self,
        msg: Any,
        tools: Any,
        history: Any,
        participants_msg: str | None,
        contacts_msg: str | None,
        *,
        is_session_bootstrap: bool,
        room_id: str,
    ) -> None:
        self.calls.append(
            (msg.content, history, participants_msg, contacts_msg, is_session_bootstrap, room_id)
        )
        tools.turn.settle()


class Contents:
    """A converter that wants to know the agent's name."""

    name = ""

    def convert(self, raw: list[dict[str, Any]]) -> list[str]:
        return [item["content"] for item in raw]

    def set_agent_name(self, name: str) -> None:
        self.name = name


async def test_the_handler_gets_the_converted_history() -> None:
    adapter = Seen(history_converter=Contents())
    history = [{"content": "before"}]

    await run_turn(
        adapter, make_message("hi", room_id="r"), FakeAgentTools(), history=history,
        participants_msg="who", contacts_msg="news", is_session_bootstrap=False,
    )  # fmt: skip

    assert adapter.calls == [("hi", ["before"], "who", "news", False, "r")]


async def test_without_a_converter_the_history_is_raw() -> None:
    adapter = Seen()
    await run_turn(adapter, make_message("hi"), FakeAgentTools(), history=[{"content": "x"}])

    assert adapter.calls[0][1] == HistoryProvider([{"content": "x"}])


async def test_the_start_tells_names() -> None:
    converter = Contents()
    adapter = Seen(history_converter=converter)
    await adapter.on_started("Scribe", "notes")

    assert (adapter.agent_name, adapter.agent_description) == ("Scribe", "notes")
    assert converter.name == "Scribe"


# --------------------------------------------------------------------------- construction


@case("C21")
def test_a_sync_handler_is_refused_at_construction() -> None:
    class Blocking(SimpleAdapter[Any]):
        def on_message(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
            pass

    with pytest.raises(BandConfigError, match=r"Blocking\.on_message must be `async def`"):
        Blocking()


def test_an_adapter_without_a_handler_is_refused() -> None:
    class Empty(SimpleAdapter[Any]):
        pass

    with pytest.raises(TypeError, match="on_message"):
        Empty()  # type: ignore[abstract]


async def test_a_subclass_may_forget_the_base_constructor() -> None:
    class Forgetful(Seen):
        def __init__(self, word: str) -> None:
            self.word, self.calls = word, []

    adapter = Forgetful("x")
    adapter.platform = platform_connection_stub()

    assert (await run_turn(adapter, make_message("hi"), FakeAgentTools())).record == "processed"
    assert adapter.features.emit == Seen.SUPPORTED_EMIT
    assert adapter.cleanups == []


@for_each(
    ("given", "wanted"),
    [
        ({}, (frozenset(), Seen.SUPPORTED_EMIT)),
        ({"emit": ()}, (frozenset(), frozenset())),
        ({"emit": "usage"}, (frozenset(), frozenset([Emit.USAGE]))),
        ({"emit": Emit.USAGE | Emit.THOUGHTS}, (frozenset(), Seen.SUPPORTED_EMIT)),
        ({"capabilities": "files"}, (frozenset([Capability.FILES]), Seen.SUPPORTED_EMIT)),
        ({"capabilities": ["memory", Capability.FILES]},
         (Seen.SUPPORTED_CAPABILITIES, Seen.SUPPORTED_EMIT)),
        ({"capabilities": None}, (frozenset(), Seen.SUPPORTED_EMIT)),
    ],
)  # fmt: skip
def test_features_in_any_form(given: dict[str, Any], wanted: tuple[Any, Any]) -> None:
    features = Seen(**given).features

    assert (features.capabilities, features.emit) == wanted


@for_each(
    ("given", "problem"),
    [
        ({"capabilities": Capability.TASKS}, "tasks not supported; supported: files, memory"),
        ({"capabilities": "fils"}, "Did you mean 'files'"),
        ({"capabilities": Emit.USAGE}, "is unknown; there are memory, contacts, files, tasks"),
        ({"emit": "task_events"}, "task_events not supported; supported: thoughts, usage"),
        ({"emit": 3}, "must be members of Emit"),
        ({"emit": [3]}, "3 is unknown"),
        ({"exclude_tools": ["band_nothing"]}, "no platform tool"),
        ({"include_categories": ["chats"]}, "Did you mean 'chat'"),
    ],
)
def test_unusable_features_are_refused_at_construction(given: Any, problem: str) -> None:
    with pytest.raises(BandConfigError) as caught:
        Seen(**given)

    assert problem in str(caught.value)


def test_an_unknown_keyword_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="'capability'"):
        Seen(capability="files")


def test_capability_and_emit_do_not_mix() -> None:
    with pytest.raises(TypeError):
        Capability.FILES | Emit.USAGE  # type: ignore[operator]


def test_filters_that_leave_no_way_to_answer_are_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Seen(include_tools=["band_lookup_peers"])
    assert "neither band_send_message nor band_no_reply" in caplog.text
    caplog.clear()
    Seen(exclude_tools=["band_send_message"])
    assert not caplog.records


def test_features_survive_the_way_through_keyword_arguments() -> None:
    features = Seen(
        capabilities="files", emit=(), include_tools=["band_no_reply"], include_categories=["chat"]
    ).features

    assert Seen(**feature_kwargs(features)).features == features
    assert feature_kwargs() == {}
    assert features.include_categories == (ToolCategory.CHAT,)


def test_negotiated_features_replace_those_asked_for() -> None:
    adapter = Seen(capabilities="files")
    adapter.apply_effective_features(AdapterFeatures())

    assert adapter.features == AdapterFeatures()


# --------------------------------------------------------------------------- life


async def test_the_defaults_of_all_hooks_do_nothing() -> None:
    adapter = Seen()
    await adapter.serve()
    await adapter.on_cleanup("r")
    await adapter.on_interrupt("r", "stop")
    await adapter.cleanup_all()

    assert adapter.judges_turns
    assert not adapter.handles_controls
    assert not await adapter.try_handle_control(make_message("x"), FakeAgentTools())
    assert await adapter.list_models() == []
    assert not await adapter.apply_model_selection("m", room_id="r")


def test_an_adapter_handles_controls_where_it_overrides_the_hook() -> None:
    class Approving(Seen):
        async def try_handle_control(self, msg: Any, tools: Any) -> bool:
            return True

    patched = Seen()
    patched.try_handle_control = Approving().try_handle_control  # type: ignore[method-assign]
    assert Approving().handles_controls
    assert patched.handles_controls


async def test_clean_ups_are_registered_before_the_start_only_and_used_once() -> None:  # noqa: ASYNC124 - the shape is given
    adapter = Seen()

    async def cleanup() -> None: ...

    with pytest.raises(RuntimeError, match="not connected"):
        adapter.require_platform()
    adapter.add_cleanup(cleanup)
    adapter.platform = platform_connection_stub()
    assert adapter.require_platform().agent_id == "test-agent-id"
    assert "test-key" not in repr(adapter.platform)
    assert adapter.cleanups == [cleanup]
    with pytest.raises(RuntimeError, match="before the agent starts"):
        adapter.add_cleanup(cleanup)
    with pytest.raises(BandConfigError, match="make a new one"):
        adapter.platform = platform_connection_stub()


def test_an_adapter_without_clean_ups_starts_again() -> None:
    adapter = Seen()
    adapter.platform = platform_connection_stub("a")
    adapter.platform = platform_connection_stub("b")

    assert adapter.require_platform().agent_id == "b"


# --------------------------------------------------------------------------- usage


async def test_usage_is_emitted_when_asked_for_and_not_empty() -> None:
    tools = FakeAgentTools()
    await Seen().emit_usage(tools, TurnUsage(1, 2))
    await Seen(emit=()).emit_usage(tools, TurnUsage(1, 2))
    await Seen().emit_usage(tools, TurnUsage())
    tools.send_event_error = BandToolError("no")
    await Seen().emit_usage(tools, TurnUsage(1, 2))

    [event] = events_of_type(tools, "task")
    assert event["metadata"] == {"band_usage": TurnUsage(1, 2).to_dict()}


async def test_usage_is_not_emitted_when_the_turn_is_cancelled() -> None:
    tools = FakeAgentTools()
    with trio.CancelScope() as scope:
        scope.cancel()
        await Seen().emit_usage(tools, TurnUsage(1, 2))
        tools.turn.settle()  # it returned, as a `finally` needs it to
    assert tools.turn.complete
    tools.turn.close()
    await Seen().emit_usage(tools, TurnUsage(1, 2))

    assert tools.events_sent == []


def test_feature_keywords_are_typed() -> None:
    def build(**features: Unpack[FeatureKwargs]) -> Seen:
        return Seen(**features)

    assert build(emit="usage").features.emit == frozenset([Emit.USAGE])

"""Mistakes in what an application writes: refused where it is made, with the name that is meant."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import pickle
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx  # noqa: ASYNC127 - a client as an adapter may keep one
import pytest
import trio

import band_trio
from band_trio import (
    Agent,
    AgentConfig,
    AgentTools,
    BandConfigError,
    ContactEventConfig,
    ContactTools,
    DefaultPreprocessor,
    HistoryProvider,
    InvalidToolArgumentsError,
    SessionConfig,
    SimpleAdapter,
)
from band_trio.adapters import AsyncioAdapter, EnvAdapterConfig, OpenAIConfig
from band_trio.checks import HOOKS
from band_trio.config import environment as environment_module
from band_trio.config.keywords import answer_keyword
from band_trio.localband import open_local_band
from band_trio.testing import FakeAgentTools
from band_trio.tools.failures import AgentFailure
from tests.marks import case
from tests.support.for_each import for_each

# As an application without a type checker sees them.
Loose: Any = Agent
Session: Any = SessionConfig
Options: Any = AgentConfig
Contacts: Any = ContactEventConfig
OpenAI: Any = OpenAIConfig

IDENTITY: dict[str, Any] = {"agent_id": "a", "api_key": "thnv_a_key"}


class Fits(SimpleAdapter[HistoryProvider]):
    async def on_message(self, msg: Any, tools: Any, *rest: Any, **more: Any) -> None: ...


def adapter_with(**methods: Any) -> Any:
    return type("Mine", (Fits,), methods)


def make(adapter: Any = None, **options: Any) -> Agent:
    return Agent.create(adapter=adapter or Fits(), **IDENTITY, **options)


def refusal(call: Callable[[], object], kind: type[Exception] = BandConfigError) -> str:
    """Return the text of the error, which is one line."""
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    text = str(caught.value)
    assert "\n" not in text
    return text


# --------------------------------------------------------------------------- signatures


@case("C92")
def test_a_message_handler_takes_what_it_is_called_with() -> None:
    class Short(SimpleAdapter[Any]):
        async def on_message(self, msg, tools): ...  # type: ignore[no-untyped-def,override]  # noqa: ANN001, ANN202

    text = refusal(Short)

    assert text.startswith(
        "Short.on_message is called with (msg, tools, history, participants_msg, contacts_msg, *, "
        "is_session_bootstrap, room_id) but takes (msg, tools): "
    )
    assert text.endswith("Write *args and **kwargs for what is not needed.")


def test_the_table_of_calls_is_what_the_base_class_declares() -> None:
    for name, shape in HOOKS.items():
        parameters = list(inspect.signature(getattr(SimpleAdapter, name)).parameters.values())[1:]
        positional = [each.name for each in parameters if each.kind != each.KEYWORD_ONLY]
        named = [each.name for each in parameters if each.kind == each.KEYWORD_ONLY]
        assert ", ".join([*positional, *(["*", *named] if named else [])]) == shape


@case("C92")
@for_each("name", [name for name in HOOKS if name != "on_message"])
def test_every_hook_takes_what_it_is_called_with(name: str) -> None:
    async def too_many(self: object, a: int, b: int, c: int, *, d: int) -> None: ...
    async def everything(self: object, *args: object, **kwargs: object) -> None: ...

    assert f"Mine.{name} is called with ({HOOKS[name]}) but takes (a, b, c, *, d): " in refusal(
        adapter_with(**{name: too_many})
    )
    make(adapter_with(**{name: everything})())


@case("C92")
def test_a_bare_adapter_is_checked_too() -> None:
    class Bare:
        async def on_event(self, inp: Any) -> None: ...
        async def on_cleanup(self) -> None: ...
        async def on_started(self, agent_name: str, agent_description: str) -> None: ...
        async def on_message(self) -> None: ...

    assert "Bare.on_cleanup is called with (room_id) but takes (): " in refusal(
        lambda: make(Bare())
    )
    Bare.on_cleanup = Fits.on_cleanup  # type: ignore[assignment,method-assign]
    make(Bare())  # its own on_message is called by nobody but itself


def test_who_writes_on_event_may_call_on_message_in_another_way() -> None:
    async def on_event(self: Any, inp: Any) -> None:
        await self.on_message(inp)

    async def on_message(self: Any, inp: Any) -> None: ...

    make(adapter_with(on_event=on_event, on_message=on_message)())


def test_what_cannot_be_known_is_let_through() -> None:
    def logged(fn: Any) -> Any:
        @functools.wraps(fn)
        async def call(*args: Any, **kwargs: Any) -> Any:
            return await fn(*args, db=None, **kwargs)

        return call

    @logged
    async def on_cleanup(self: Any, room_id: str, *, db: object) -> None: ...

    make(adapter_with(on_cleanup=on_cleanup)())
    make(on_participant_added=max, on_participant_removed=functools.partial(print, "left"))
    make(config=Options(observer=[].append, room_filter=lambda *_: True))


class Wrong:
    """Takes what nobody passes."""

    async def process(self, event: Any) -> None: ...

    def convert(self) -> None: ...


async def no_arguments() -> None: ...


@case("C92")
@for_each(
    ("call", "told"),
    [
        (lambda: make(preprocessor=Wrong()), "Wrong.process is called with (ctx, event, agent_id)"),
        (
            lambda: make(on_participant_added=no_arguments),
            "on_participant_added is called with (room_id, participant) but takes ()",
        ),
        (
            lambda: make(on_participant_removed=lambda room: None),
            "on_participant_removed is called with (room_id, participant) but takes (room)",
        ),
        (lambda: make(on_participant_added=5), "on_participant_added must be callable, not int"),
        (
            lambda: make(Fits(history_converter=Wrong())),  # type: ignore[arg-type]
            "Wrong.convert is called with (raw) but takes ()",
        ),
        (
            lambda: make(Fits(history_converter=object())),  # type: ignore[arg-type]
            "object is not a history converter: it lacks convert(raw).",
        ),
        (lambda: Options(room_filter=lambda room: True), "(room_id, title) but takes (room)"),
        (lambda: Options(observer=lambda: None), "observer is called with (event)"),
        (lambda: Options(open_stream=no_arguments), "open_stream is called with (url)"),
        (
            lambda: ContactEventConfig(on_event=lambda event: None),
            "on_event is called with (event, tools) but takes (event)",
        ),
    ],
)
def test_everything_that_is_called_is_checked(call: Callable[[], object], told: str) -> None:
    assert told in refusal(call)


# --------------------------------------------------------------------------- misspelt hooks


async def method(self: object, *args: object, **kwargs: object) -> None: ...


@case("C92")
def test_a_misspelt_hook_is_refused() -> None:
    for name, meant in (
        ("onmessage", "on_message"),
        ("onMessage", "on_message"),
        ("on_mesage", "on_message"),
        ("on_messsage", "on_message"),
        ("on_mesasge", "on_message"),
        ("on_nessage", "on_message"),
        ("on_clean_up", "on_cleanup"),
        ("on_interupt", "on_interrupt"),
        ("on_startet", "on_started"),
        ("cleanupAll", "cleanup_all"),
        ("try_handle_controll", "try_handle_control"),
        ("Serve", "serve"),
    ):
        base = SimpleAdapter if meant == "on_message" else Fits
        text = refusal(type("Mine", (base,), {name: method}))
        assert text == f"Mine.{name} is called by nobody. Did you mean {meant!r}?"


def test_other_methods_are_names_of_their_own() -> None:
    # The class has its on_message: what is close to that may be anything.
    for name in (
        "on_message_edited", "on_messages", "on_mesage", "server", "on_start", "observe",
        "message", "on_events", "cleanup", "_on_clean_up", "on_stop", "on_room", "startup",
    ):  # fmt: skip
        make(adapter_with(**{name: method})())


def test_what_is_no_method_is_no_misspelt_hook() -> None:
    make(adapter_with(on_clean_up=5)())


def test_adapters_that_ship_pass() -> None:
    async def answer(turn: Any) -> None: ...

    make(AsyncioAdapter(handler=answer))
    make(preprocessor=DefaultPreprocessor())


# --------------------------------------------------------------------------- misspelt options


@case("C92")
def test_a_misspelt_option_is_a_type_error_with_the_right_name() -> None:
    unexpected = "got an unexpected keyword argument"
    for call, told in (
        (lambda: Session(max_cycle=5), f"SessionConfig() {unexpected} 'max_cycle'. Did you mean 'max_cycle_seconds'?"),
        (lambda: Session(maxCycleSecs=5), "Did you mean 'max_cycle_seconds'?"),
        (lambda: Session.from_environment(retries=5), "Did you mean 'max_message_retries'?"),
        (lambda: Session(enable_context_cache=True), "'enable_context_cache'. band_trio does without"),
        (lambda: Options(observr=None), "Did you mean 'observer'?"),
        (lambda: Options(auto_subscribe_existing_rooms=False), "AgentConfig(room_filter=…)"),
        (lambda: Contacts(stratgy=None), "Did you mean 'strategy'?"),
        (lambda: OpenAI(modl="x"), f"OpenAIConfig() {unexpected} 'modl'. Did you mean 'model'?"),
        (lambda: Loose.create(sesion_config=None), f"Agent.create() {unexpected} 'sesion_config'. Did you mean 'session_config'?"),
        (lambda: Loose.from_config("x", adapter=None, config_pth=""), f"Agent.from_config() {unexpected} 'config_pth'. Did you mean 'config_path'?"),
        (lambda: Loose.create(Fits(), "id", "key"), "Agent.create() takes keyword arguments: adapter=…, agent_id=…, api_key=…"),
        (lambda: Loose.create(adapter=Fits(), agent_id="x"), "missing 1 required keyword-only argument: 'api_key'"),
        (lambda: Loose.stop(make(), timeout=5), f"Agent.stop() {unexpected} 'timeout'. band_trio calls it 'grace'."),
        (lambda: adapter_with()(capabilites=()), f"Mine() {unexpected} 'capabilites'. Did you mean 'capabilities'?"),
        (lambda: adapter_with()(history_convertr=None), "Did you mean 'history_converter'?"),
    ):  # fmt: skip
        assert told in refusal(call, TypeError)
    assert refusal(lambda: Session(colour=1), TypeError).endswith("'colour'.")  # nothing is close


def test_words_of_band_sdk_are_answered_where_the_function_has_ours() -> None:
    assert answer_keyword("llm", ["config", "model"]) == " band_trio calls it 'model'."
    assert answer_keyword("llm", ["config"]) == ""


def test_option_classes_stay_what_they_were() -> None:
    config = SessionConfig(max_cycle_seconds=5)

    assert attrs.evolve(config, max_cycle_seconds=6) == SessionConfig(max_cycle_seconds=6)
    assert pickle.loads(pickle.dumps(config)) == config
    assert "max_cycle_seconds" in inspect.signature(SessionConfig).parameters


@case("C92")
async def test_a_keyword_of_the_run_is_answered() -> None:
    with pytest.raises(TypeError, match=r"'shutdown_timeout'. The grace .* agent.stop\(grace=…\)"):
        await make().run(shutdown_timeout=5)  # type: ignore[call-arg]


# --------------------------------------------------------------------------- tools


@case("C92")
@for_each(
    ("tools", "name", "meant"),
    [
        (FakeAgentTools(), "send_mesage", "send_message"),
        (FakeAgentTools(), "band_send_message", "send_message"),
        (AgentTools("room", FakeAgentTools().room), "send_evnt", "send_event"),
        (ContactTools(FakeAgentTools().room), "ad_contact", "add_contact"),
    ],
)
def test_a_misspelt_tool_is_answered(tools: object, name: str, meant: str) -> None:
    text = refusal(lambda: getattr(tools, name), AttributeError)

    assert text == (
        f"{type(tools).__name__!r} object has no attribute {name!r}. Did you mean {meant!r}?"
    )
    assert getattr(tools, "something_else", None) is None
    assert not hasattr(tools, "__something__")


def test_a_property_that_fails_keeps_its_error() -> None:
    class Mine(FakeAgentTools):
        @property
        def broken(self) -> object:
            return self.participants.nothing  # type: ignore[attr-defined]

    assert "'list' object has no attribute 'nothing'" in refusal(
        lambda: Mine().broken, AttributeError
    )


@case("C92")
@for_each(
    ("call", "told"),
    [
        (lambda tools: tools.send_message(42), "Invalid arguments for send_message: content: must be text, not int"),
        (lambda tools: tools.send_message(None), "content: must be text, not NoneType"),
        (lambda tools: tools.send_message("x", attachment_ids="f1"), "attachment_ids: must be a list of texts or None, not str"),
        (lambda tools: tools.send_event("x", message_type=3), "send_event: message_type: must be text, not int"),
        (lambda tools: tools.lookup_peers("1"), "lookup_peers: page: must be a whole number, not str"),
        (lambda tools: tools.send_failure("it broke"), "failure: must be an AgentFailure, not str"),
        (lambda tools: tools.get_memory(memory_id=7), "get_memory: memory_id: must be text, not int"),
    ],
)  # fmt: skip
async def test_a_wrong_plain_type_is_refused_at_the_call(
    call: Callable[[Any], Any], told: str
) -> None:
    tools = FakeAgentTools()
    with pytest.raises(InvalidToolArgumentsError) as caught:
        await call(tools)

    assert told in str(caught.value)
    assert not tools.posts


async def test_what_fits_is_called() -> None:
    tools = FakeAgentTools()

    await tools.send_message("hi", [{"id": "u1"}], attachment_ids=("f1",))
    await tools.send_event("x", "task", metadata={"a": 1})
    await tools.send_failure(AgentFailure("p", "m"))
    await tools.no_reply()

    assert len(tools.posts) == 3


@case("C92")
@for_each(
    ("call", "told"),
    [
        (lambda tools: tools.send_message(contents="x"), "send_message() got an unexpected keyword argument 'contents'. Did you mean 'content'?"),
        (lambda tools: tools.fetch_room_context(page=2), "band_trio calls it 'cursor'."),
        (lambda tools: tools.execute_tool_call(tool_name="x", arguments={}), "band_trio calls it 'name'."),
    ],
)  # fmt: skip
async def test_a_misspelt_argument_of_a_tool_is_answered(
    call: Callable[[Any], Any], told: str
) -> None:
    with pytest.raises(TypeError) as caught:
        await call(FakeAgentTools())

    assert told in str(caught.value)


# --------------------------------------------------------------------------- variables

Lines = Callable[[], list[str]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Lines:
    """Make an agent and return what it warned of; what was told before is forgotten."""
    monkeypatch.setattr(environment_module, "_told", set())

    def warned() -> list[str]:
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            make()
        return [record.getMessage() for record in caplog.records]

    return warned


@case("C86")
@for_each(
    ("name", "told"),
    [
        ("BAND_MAX_CYCLE_SECOND", "the variable BAND_MAX_CYCLE_SECOND is not read. Did you mean 'BAND_MAX_CYCLE_SECONDS'?"),
        ("band_max_cycle", "the variable BAND_MAX_CYCLE is not read. Did you mean 'BAND_MAX_CYCLE_SECONDS'?"),
        ("BAND_REST_ULR", "the variable BAND_REST_ULR is not read. Did you mean 'BAND_REST_URL'?"),
        ("BAND_CONNECT_SECONDS", "the variable BAND_CONNECT_SECONDS is not read. Pass AgentConfig(connect_seconds=…) in code."),
        ("BAND_SOMETHING_ELSE", "the variable BAND_SOMETHING_ELSE is not read."),
        ("MAX_CYCLE_SECONDS", "the variable MAX_CYCLE_SECONDS is not read: its name is BAND_MAX_CYCLE_SECONDS"),
    ],
)  # fmt: skip
def test_a_variable_that_nobody_reads_is_told_once_with_the_right_name(
    name: str, told: str, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "7s3cret")

    assert lines() == [told]
    assert lines() == []


@case("C86")
def test_known_variables_are_no_mistakes(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    @attrs.frozen(kw_only=True)
    class OwnConfig(EnvAdapterConfig):
        ENV_PREFIX = "BAND_OWNBOT_"
        tone: str = "dry"

    for name in (
        "BAND_AGENT_ID", "BAND_API_KEY", "BAND_WS_URL", "BAND_AUTH_MODE", "BAND_TARGET_HANDLE",
        "BAND_MESSAGE", "BAND_TRIGGER_TIMEOUT", "BAND_API_KEY_USER", "BAND_BASE_URL",
        "BAND_ATTACHMENT_CACHE_MAXSIZE", "BAND_OPENAI_MODEL", "BAND_OWNBOT_TONE", "HOLD_SECONDS",
        "ENABLE_CONTEXT_CACHE", "BANDWIDTH",
    ):  # fmt: skip
        monkeypatch.setenv(name, "wss://example.org/socket")
    monkeypatch.setenv("BAND_ANYTHING", "")  # empty counts as absent
    monkeypatch.setenv("MAX_CYCLE_SECONDS", "7")
    monkeypatch.setenv("BAND_MAX_CYCLE_SECONDS", "7")  # both, for both clients

    assert lines() == []


@case("C86")
def test_a_misspelt_variable_of_an_adapter_is_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAND_OPENAI_MODEL", "gpt")
    monkeypatch.setenv("BAND_OPENAI_MAX_TOKEN", "7s3cret")

    OpenAIConfig.from_environment()

    assert [record.getMessage() for record in caplog.records] == [
        "the variable BAND_OPENAI_MAX_TOKEN is not read. Did you mean 'BAND_OPENAI_MAX_TOKENS'?"
    ]


# --------------------------------------------------------------------------- not under trio


@case("C76")
def test_an_agent_under_asyncio_is_told_where_to_go(recwarn: pytest.WarningsRecorder) -> None:
    agent = make()

    async def entered() -> None:
        async with agent:
            raise AssertionError("unreachable")

    for start in (agent.run, entered):
        text = refusal(lambda start=start: asyncio.run(start()))  # type: ignore[misc]
        assert "trio.run(agent.run)" in text
        assert "start_guest_run" in text
    assert not recwarn.list
    assert repr(agent) == "Agent('a', not running)"


# --------------------------------------------------------------------------- on_started


@asynccontextmanager
async def running(adapter: SimpleAdapter[Any]) -> AsyncGenerator[Agent]:
    async with open_local_band(memory=True) as band:
        account = band.register_agent("Scribe")
        async with Agent.create(adapter=adapter, **band.connection(account)) as agent:
            yield agent


class Keeps(Fits):
    """Enters something in `on_started` and leaves it open."""

    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__()
        self.make = make
        self.kept: Any = None
        self.ticking = False

    async def on_started(self, agent_name: str, agent_description: str) -> None:
        self.manager = self.make()
        self.kept = await self.manager.__aenter__()
        if isinstance(self.kept, trio.Nursery):
            self.kept.start_soon(self.tick)
            await trio.sleep(1)

    async def tick(self) -> None:
        self.ticking = True
        try:
            await trio.sleep_forever()
        finally:
            self.ticking = False


@asynccontextmanager
async def client_with_a_task() -> AsyncGenerator[trio.Nursery]:
    async with trio.open_nursery() as nursery:
        yield nursery


@case("C74")
@for_each("make", [trio.open_nursery, client_with_a_task])
async def test_a_nursery_kept_in_on_started_is_an_error_that_names_serve(
    make: Callable[[], Any], autojump_clock: trio.testing.MockClock
) -> None:
    adapter = Keeps(make)
    with pytest.raises(BandConfigError, match=r"Keeps\.on_started left a nursery open.*serve\("):
        async with running(adapter):
            raise AssertionError("unreachable")
    await trio.sleep(1)
    assert not adapter.ticking  # its tasks have ended as well


@case("C74")
async def test_a_client_kept_in_on_started_works(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Client(Keeps):
        async def cleanup_all(self) -> None:
            await self.kept.aclose()

    adapter = Client(httpx.AsyncClient)
    async with running(adapter) as agent:
        assert agent.is_connected
        assert not adapter.kept.is_closed
    assert adapter.kept.is_closed


async def test_an_error_of_on_started_comes_out_as_it_is(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def on_started(*_: object) -> None:
        await trio.lowlevel.checkpoint()
        raise LookupError("no model")

    with pytest.raises(LookupError, match="no model"):
        async with running(adapter_with(on_started=on_started)()):
            raise AssertionError("unreachable")


# --------------------------------------------------------------------------- the key


async def started_as(agent_id: Callable[[str], str]) -> None:
    async with open_local_band(memory=True) as band:
        account = band.register_agent("Scribe")
        options = {**band.connection(account), "agent_id": agent_id(account.id)}
        async with Agent.create(adapter=Fits(), **options):
            pass


async def test_a_key_of_another_agent_is_refused_at_the_start(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_local_band(memory=True) as band:
        one, other = band.register_agent("One"), band.register_agent("Other")
        options = {**band.connection(one), "agent_id": other.id}
        with pytest.raises(BandConfigError) as caught:
            async with Agent.create(adapter=Fits(), **options):
                raise AssertionError("unreachable")

    text = str(caught.value)
    assert one.id in text
    assert other.id in text
    assert one.api_key not in text


async def test_an_id_in_another_spelling_is_the_same(
    autojump_clock: trio.testing.MockClock,
) -> None:
    await started_as(str.upper)
    with pytest.raises(BandConfigError, match="belongs to the agent"):
        await started_as(lambda agent_id: f"{agent_id}0")


# --------------------------------------------------------------------------- the package


def test_the_package_shows_its_public_names_only() -> None:
    assert dir(band_trio) == sorted(band_trio.__all__)
    assert band_trio.errors.BandError is band_trio.BandError  # submodules are there


# --------------------------------------------------------------------------- kinds of options


class Idle(SimpleAdapter[Any]):
    async def on_message(self, msg: Any, tools: Any, *news: Any, **more: Any) -> None:
        """Never called."""


@case("C92")
def test_options_of_the_wrong_kind_are_refused_by_name() -> None:
    for name, wrong, kind in (
        ("config", {}, "AgentConfig"),
        ("session_config", 5, "SessionConfig"),
        ("contact_config", "hub", "ContactEventConfig"),
    ):
        options: dict[str, Any] = {name: wrong}
        with pytest.raises(BandConfigError, match=rf"^{name} must be {kind}\(…\), not"):
            Agent.create(adapter=Idle(), agent_id="a1", api_key="k", **options)


@case("C92")
def test_the_entry_script_answers_a_misspelt_keyword_itself() -> None:
    with pytest.raises(TypeError, match=r"band_trio\.run\(\) got .*'loglevel'.*'level'"):
        band_trio.run(Idle(), loglevel="DEBUG")

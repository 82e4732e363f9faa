"""Options, URLs and credentials: every problem has a name, and no text repeats a key."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import httpx  # noqa: ASYNC127 - the transport is part of the options
import pytest
from hypothesis import given
from hypothesis import strategies as st

from band_trio.config.agent import (
    AgentConfig,
    ConflictPolicy,
    ContactEventConfig,
    ContactStrategy,
    SessionConfig,
)
from band_trio.config.credentials import (
    PROXY_MANAGED_API_KEY,
    Credentials,
    get_config_path,
    load_agent_config,
)
from band_trio.config.endpoints import (
    DEFAULT_REST_URL,
    DEFAULT_WS_URL,
    Endpoints,
    resolve_endpoints,
)
from band_trio.config.proxies import is_loopback
from band_trio.errors import BandConfigError
from tests.marks import case
from tests.support.for_each import for_each

CONFIGS: list[type[Any]] = [SessionConfig, AgentConfig, ContactEventConfig]
OPTIONS = [
    pytest.param(cls, field, id=f"{cls.__name__}.{field.name}")
    for cls in CONFIGS
    for field in attrs.fields(cls)
    if "kind" in field.metadata
]
DURATIONS = [p for p in OPTIONS if p.values[1].metadata["kind"] == "number"]  # type: ignore[union-attr]
COUNTS = [p for p in OPTIONS if p.values[1].metadata["kind"] == "count"]  # type: ignore[union-attr]
SWITCHES = [p for p in OPTIONS if p.values[1].metadata["kind"] == "switch"]  # type: ignore[union-attr]


# --------------------------------------------------------------------------- the tables


def test_defaults_are_those_of_the_documentation() -> None:
    assert attrs.asdict(SessionConfig()) == {
        "max_message_retries": 1,
        "retry_base_seconds": 1,
        "retry_cap_seconds": 60,
        "hold_seconds": 60,
        "refused_recheck_seconds": 600,
        "max_cycle_seconds": None,
        "stall_seconds": 10,
        "claim_seconds": 10,
        "settle_seconds": 5,
        "settle_base_seconds": 0.5,
        "settle_cap_seconds": 10,
        "idle_resync_seconds": 60,
        "idle_resync_max_seconds": 120,
        "stopped_resync_seconds": None,
        "activity_delay_seconds": 0.25,
        "working_keep_alive_seconds": 3.0,
        "working_request_timeout_seconds": 2.0,
        "max_working_state_seconds": None,
        "enable_working_state": True,
        "enable_context_hydration": True,
        "report_turn_failures_to_room": True,
        "max_context_messages": 100,
        "history_seconds": 30,
        "roster_seconds": 5,
        "hook_seconds": 10,
        "control_hook_seconds": 5,
        "max_crashes": 3,
        "room_hints": 64,
        "room_unsettled": 64,
        "system_lines": 100,
    }
    assert attrs.asdict(AgentConfig()) == {
        "rest_transport": None,
        "open_stream": None,
        "proxy": None,
        "verify": True,
        "room_filter": None,
        "single_instance": True,
        "conflict_policy": ConflictPolicy.SUPERSEDE,
        "allow_insecure": False,
        "observer": None,
        "start_patience_seconds": 120,
        "contact_hook_seconds": 30,
        "connect_seconds": 10,
        "join_seconds": 10,
        "reconnect_base_seconds": 0.5,
        "reconnect_cap_seconds": 30,
        "conflict_wait_seconds": 30,
        "heartbeat_seconds": 30,
        "dead_seconds": 60,
        "join_parallel": 16,
        "rest_bulk": 24,
        "rest_priority": 8,
        "rest_try_seconds": 15,
        "rest_call_seconds": 60,
        "retry_after_cap_seconds": 60,
        "resync_rate": 8,
        "state_dir": "",
        "stop_overhead_seconds": 2,
    }
    assert attrs.asdict(ContactEventConfig()) == {
        "strategy": ContactStrategy.DISABLED,
        "hub_task_id": None,
        "on_event": None,
        "broadcast_changes": False,
    }


@for_each("cls", CONFIGS)
def test_options_are_keywords_and_frozen(cls: type[Any]) -> None:
    with pytest.raises(TypeError):
        cls(1)
    with pytest.raises(TypeError, match="max_tasks"):
        cls(max_tasks=1)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        cls().strategy = None


# --------------------------------------------------------------------------- one bad value


def problems(cls: type[Any], **options: Any) -> str:
    with pytest.raises(BandConfigError) as caught:
        cls(**options)
    text = str(caught.value)
    assert text.startswith(f"{cls.__name__}: ")
    assert "\n" not in text
    return text


@for_each(("cls", "field"), DURATIONS)
@for_each(
    "value",
    [0, 0.0, -1, math.nan, math.inf, -math.inf, True, "5", [1], 10**400, 1j],
    ids=lambda v: repr(v)[:5],
)
def test_durations_are_positive_and_finite(cls: type[Any], field: Any, value: object) -> None:
    assert f"{field.name} must be " in problems(cls, **{field.name: value})


@for_each(("cls", "field"), COUNTS)
@for_each("value", [0, -1, 1.0, True, math.nan, math.inf, "5", None], ids=repr)
def test_counts_are_whole_and_positive(cls: type[Any], field: Any, value: object) -> None:
    assert f"{field.name} must be a whole number ≥ 1, not {value!r}" in problems(
        cls, **{field.name: value}
    )


@for_each(("cls", "field"), SWITCHES)
@for_each("value", [0, 1, "true", None], ids=repr)
def test_switches_are_bool(cls: type[Any], field: Any, value: object) -> None:
    assert f"{field.name} must be True or False" in problems(cls, **{field.name: value})
    assert getattr(cls(**{field.name: True}), field.name) is True


@for_each(("cls", "field"), DURATIONS)
def test_only_unbounded_options_may_be_none(cls: type[Any], field: Any) -> None:
    unbounded = {"max_cycle_seconds", "max_working_state_seconds", "stopped_resync_seconds"}
    if field.name in unbounded:
        assert getattr(cls(**{field.name: None}), field.name) is None
        assert getattr(cls(**{field.name: 7}), field.name) == 7
    else:
        assert field.name in problems(cls, **{field.name: None})


def test_the_indicator_has_the_bounds_of_the_platform() -> None:
    assert "less than 5" in problems(SessionConfig, working_keep_alive_seconds=5)
    assert SessionConfig(working_keep_alive_seconds=4.99).working_keep_alive_seconds == 4.99


@for_each(
    ("cls", "lower", "upper", "equal_is_fine"),
    [
        (SessionConfig, "working_request_timeout_seconds", "working_keep_alive_seconds", False),
        (SessionConfig, "retry_base_seconds", "retry_cap_seconds", True),
        (SessionConfig, "settle_base_seconds", "settle_cap_seconds", True),
        (SessionConfig, "idle_resync_seconds", "idle_resync_max_seconds", True),
        (AgentConfig, "reconnect_base_seconds", "reconnect_cap_seconds", True),
        (AgentConfig, "heartbeat_seconds", "dead_seconds", False),
    ],
)
def test_pairs_are_in_order(cls: type[Any], lower: str, upper: str, equal_is_fine: bool) -> None:
    cls(**{lower: 2, upper: 3})
    text = problems(cls, **{lower: 4, upper: 3})
    assert lower in text
    assert upper in text
    if equal_is_fine:
        cls(**{lower: 3, upper: 3})
    else:
        assert upper in problems(cls, **{lower: 3, upper: 3})


class Transport(httpx.AsyncBaseTransport):
    """A transport by type."""


@for_each("name", ["rest_transport", "open_stream", "room_filter", "observer"])
def test_what_is_injected_has_the_right_kind(name: str) -> None:
    kind = "an httpx.AsyncBaseTransport" if name == "rest_transport" else "callable"
    assert f"{name} must be {kind}, not int" in problems(AgentConfig, **{name: 5})

    good: Any = Transport() if name == "rest_transport" else print
    assert getattr(AgentConfig(**{name: good}), name) is good
    assert repr(good) not in repr(AgentConfig(**{name: good}))


@for_each("name", ["room_filter", "observer"])
def test_what_nobody_awaits_must_not_be_async(name: str) -> None:
    async def choose(*args: object) -> bool:  # noqa: ASYNC124 - what is tested is async
        return True

    assert f"{name} must be a plain function" in problems(AgentConfig, **{name: choose})


@for_each("value", ["supersede", None, 1])
def test_the_conflict_policy_is_an_enum(value: Any) -> None:
    assert "conflict_policy must be a ConflictPolicy" in problems(
        AgentConfig, conflict_policy=value
    )


def test_contact_options_are_checked() -> None:
    task = "7f9c24e5-3b1d-4a5e-9c39-0c5a2f1e8d11"
    ContactEventConfig(strategy=ContactStrategy.CALLBACK, on_event=print)
    ContactEventConfig(strategy=ContactStrategy.HUB_ROOM, hub_task_id=task)

    assert "needs on_event" in problems(ContactEventConfig, strategy=ContactStrategy.CALLBACK)
    text = problems(
        ContactEventConfig, strategy="hub_room", on_event=5, hub_task_id="x", broadcast_changes=1
    )
    for name in ("strategy", "on_event", "hub_task_id", "broadcast_changes"):
        assert name in text
    assert "hub_task_id" in problems(ContactEventConfig, hub_task_id=5)


# --------------------------------------------------------------------------- many bad values

BAD: dict[str, Any] = {"number": -1.0, "count": 0, "switch": "maybe"}


@pytest.mark.parametrize("cls", CONFIGS)
@given(data=st.data())
def test_every_problem_is_named_at_once(cls: type[Any], data: st.DataObject) -> None:
    checked = {f.name: f.metadata["kind"] for f in attrs.fields(cls) if "kind" in f.metadata}
    names = data.draw(st.sets(st.sampled_from(sorted(checked)), min_size=1))
    text = problems(cls, **{name: BAD[checked[name]] for name in names})

    told = text.removeprefix(f"{cls.__name__}: ").split("; ")
    assert sorted(each.partition(" must be ")[0] for each in told) == sorted(names)


# --------------------------------------------------------------------------- the environment


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set variables; all others of ours are gone."""
    for field in attrs.fields(SessionConfig):
        monkeypatch.delenv(f"BAND_{field.name.upper()}", raising=False)

    def put(**variables: str) -> None:
        for name, text in variables.items():
            monkeypatch.setenv(name, text)

    return put


Put = Callable[..., None]


def test_every_option_has_a_variable(environment: Put) -> None:
    texts = {"number": "1.5", "count": "7", "switch": "off"}
    values = {"number": 1.5, "count": 7, "switch": False}
    fields = attrs.fields(SessionConfig)
    environment(**{f"BAND_{f.name.upper()}": texts[f.metadata["kind"]] for f in fields})
    environment(BAND_WORKING_REQUEST_TIMEOUT_SECONDS="1")

    expected = {f.name: values[f.metadata["kind"]] for f in fields}
    assert attrs.asdict(SessionConfig.from_environment()) == {
        **expected,
        "working_request_timeout_seconds": 1,
    }


def test_without_variables_the_defaults_hold(environment: Put) -> None:
    environment(MAX_CYCLE_SECONDS="5", BAND_MAX_CYCLE_SECONDS="", BAND_HOLD_SECONDS="  ")

    assert SessionConfig.from_environment() == SessionConfig()


def test_the_constructor_reads_no_environment(environment: Put) -> None:
    environment(BAND_HOLD_SECONDS="5")

    assert SessionConfig().hold_seconds == 60
    assert SessionConfig.from_environment().hold_seconds == 5


@for_each(
    ("text", "value"),
    [("true", True), ("ON", True), (" 1 ", True), ("Yes", True), ("0", False), ("No", False)],
)
def test_switches_have_words(environment: Put, text: str, value: bool) -> None:
    environment(BAND_ENABLE_WORKING_STATE=text)

    assert SessionConfig.from_environment().enable_working_state is value


def test_none_is_a_word_where_it_is_a_value(environment: Put) -> None:
    environment(BAND_MAX_CYCLE_SECONDS="None")
    assert SessionConfig.from_environment().max_cycle_seconds is None

    environment(BAND_HOLD_SECONDS="none")
    with pytest.raises(BandConfigError, match="BAND_HOLD_SECONDS is not a valid number: 'none'"):
        SessionConfig.from_environment()


def test_overrides_win(environment: Put) -> None:
    environment(BAND_HOLD_SECONDS="5", BAND_STALL_SECONDS="broken", BAND_CLAIM_SECONDS="-1")
    config = SessionConfig.from_environment(hold_seconds=6, stall_seconds=7, claim_seconds=8)

    assert (config.hold_seconds, config.stall_seconds, config.claim_seconds) == (6, 7, 8)
    with pytest.raises(TypeError, match="max_tasks"):
        SessionConfig.from_environment(max_tasks=1)


def test_all_problems_of_the_environment_are_named_at_once(environment: Put) -> None:
    environment(
        BAND_HOLD_SECONDS="soon",
        BAND_CLAIM_SECONDS="nan",
        BAND_STALL_SECONDS="-1",
        BAND_SYSTEM_LINES="1.5",
        BAND_ENABLE_WORKING_STATE="maybe",
        BAND_RETRY_BASE_SECONDS="90",
        BAND_ROOM_HINTS="x" * 500,
    )
    with pytest.raises(BandConfigError) as caught:
        SessionConfig.from_environment(roster_seconds=0)

    text = str(caught.value)
    assert text.startswith("SessionConfig: BAND_")
    assert text.count("SessionConfig") == 1
    for name in (
        "BAND_HOLD_SECONDS",
        "BAND_CLAIM_SECONDS",
        "BAND_STALL_SECONDS",
        "BAND_SYSTEM_LINES",
        "BAND_ENABLE_WORKING_STATE",
        "BAND_ROOM_HINTS",
        "roster_seconds",
        "retry_base_seconds must not exceed retry_cap_seconds",
    ):
        assert name in text
    assert "x" * 41 not in text


def test_a_problem_that_only_the_environment_has_is_enough(environment: Put) -> None:
    environment(BAND_HOLD_SECONDS="inf")
    with pytest.raises(BandConfigError, match=r"BAND_HOLD_SECONDS must be a finite number"):
        SessionConfig.from_environment()


def test_a_pair_across_environment_and_overrides_is_checked(environment: Put) -> None:
    environment(BAND_RETRY_CAP_SECONDS="2")
    with pytest.raises(BandConfigError, match="retry_base_seconds must not exceed"):
        SessionConfig.from_environment(retry_base_seconds=3)


# --------------------------------------------------------------------------- URLs

SOCKET = "/api/v1/socket/websocket"
ENV = {"BAND_REST_URL": "https://env.test:8443", "BAND_WS_URL": "wss://envws.test/sock"}


@for_each(
    ("rest", "ws", "environ", "expected"),
    [
        (None, None, {}, (DEFAULT_REST_URL, DEFAULT_WS_URL)),
        ("https://arg.test", None, {}, ("https://arg.test", f"wss://arg.test{SOCKET}")),
        ("https://arg.test:1/", None, {}, ("https://arg.test:1", f"wss://arg.test:1{SOCKET}")),
        ("https://arg.test", None, ENV, ("https://arg.test", f"wss://arg.test{SOCKET}")),
        ("https://arg.test", "wss://w.test/x", ENV, ("https://arg.test", "wss://w.test/x")),
        (None, "wss://w.test/x", ENV, ("https://env.test:8443", "wss://w.test/x")),
        (None, None, ENV, ("https://env.test:8443", "wss://envws.test/sock")),
        (
            None,
            None,
            {"BAND_REST_URL": "https://env.test:8443/"},
            ("https://env.test:8443", f"wss://env.test:8443{SOCKET}"),
        ),
        (None, None, {"BAND_WS_URL": "wss://e.test/x"}, (DEFAULT_REST_URL, "wss://e.test/x")),
        (None, None, {"BAND_REST_URL": "", "BAND_WS_URL": " "}, (DEFAULT_REST_URL, DEFAULT_WS_URL)),
        (None, None, {"band_ws_url": "wss://e.test/x"}, (DEFAULT_REST_URL, "wss://e.test/x")),
        (
            None,
            None,
            {"band_rest_url": "https://low.test", **ENV},
            ("https://env.test:8443", "wss://envws.test/sock"),
        ),
        (
            None,
            None,
            {**ENV, "band_rest_url": "", "Band_Ws_Url": "wss://mixed.test"},
            ("https://env.test:8443", "wss://envws.test/sock"),
        ),
        ("", "", {}, (DEFAULT_REST_URL, DEFAULT_WS_URL)),
        ("http://127.0.0.1:9/", None, {}, ("http://127.0.0.1:9", f"ws://127.0.0.1:9{SOCKET}")),
        ("http://[::1]:9", None, {}, ("http://[::1]:9", f"ws://[::1]:9{SOCKET}")),
        (" HTTPS://arg.test/ ", None, {}, ("https://arg.test", f"wss://arg.test{SOCKET}")),
        ("https://p.test/band/", None, {}, ("https://p.test/band", f"wss://p.test/band{SOCKET}")),
    ],
)
def test_urls_come_from_arguments_then_environment_then_defaults(
    rest: str | None, ws: str | None, environ: dict[str, str], expected: tuple[str, str]
) -> None:
    assert resolve_endpoints(rest, ws, environ=environ) == Endpoints(*expected)


def test_the_real_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAND_REST_URL", "https://env.test")
    monkeypatch.delenv("BAND_WS_URL", raising=False)

    assert resolve_endpoints() == Endpoints("https://env.test", f"wss://env.test{SOCKET}")


@for_each(
    ("rest", "ws"),
    [
        ("http://band.test", None),
        ("http://10.0.0.1", None),
        ("http://localhost.evil.test", None),
        ("https://band.test", "ws://band.test/x"),
        ("http://127.0.0.1", "ws://0.0.0.0/x"),
    ],
)
def test_plain_urls_beyond_loopback_need_permission(rest: str, ws: str | None) -> None:
    with pytest.raises(BandConfigError, match=r"not encrypted.*allow_insecure"):
        resolve_endpoints(rest, ws, environ={})

    assert resolve_endpoints(rest, ws, environ={}, allow_insecure=True).rest_url == rest


def test_a_plain_url_of_the_environment_needs_permission_too() -> None:
    for name in ("BAND_REST_URL", "BAND_WS_URL"):
        scheme = "http" if "REST" in name else "ws"
        with pytest.raises(BandConfigError, match="not encrypted"):
            resolve_endpoints(environ={name: f"{scheme}://band.test"})


@for_each("host", ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_loopback_needs_no_permission(host: str) -> None:
    assert is_loopback(host)
    netloc = f"[{host}]" if ":" in host else host
    resolve_endpoints(f"http://{netloc}:80", environ={})


@for_each("host", ["", "0.0.0.0", "10.1.1.1", "notlocalhost", "localhost.com", "127"])
def test_other_hosts_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@for_each(
    "url",
    [
        "ftp://h.test/SECRET",
        "h.test/SECRET",
        "https:///SECRET",
        "https://",
        "SECRET",
        "wss://h.test/SECRET",
        "https://h.test:SECRET",
        "https://h.test:99999/SECRET",
        "https://[SECRET",
        "https://h .test/SECRET",
        "https://h.test/\x00SECRET",
        "https://h.test/\nSECRET",
        "https://bob:SECRET@h.test",
        "https://SECRET@h.test",
        "https://h.test?token=SECRET",
        "https://h.test?api_key=SECRET",
        "https://h.test/api/v1/?SECRET",
        "https://h.test/api/v1/",
    ],
)
def test_a_bad_rest_url_is_named_in_one_line_without_its_secrets(url: str) -> None:
    with pytest.raises(BandConfigError, match=r"^rest_url ") as caught:
        resolve_endpoints(url, environ={})
    text = str(caught.value)

    assert "SECRET" not in text
    assert "\n" not in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@for_each(
    "url",
    [
        "https://h.test/SECRET",
        "wss://bob:SECRET@h.test",
        "wss://h.test?token=SECRET",
        "wss://h.test?token=&token=SECRET&token=",
        "wss://h.test:SECRET",
    ],
)
def test_a_bad_socket_url_is_named_in_one_line_without_its_secrets(url: str) -> None:
    with pytest.raises(BandConfigError, match=r"^ws_url ") as caught:
        resolve_endpoints("https://h.test", url, environ={})

    assert "SECRET" not in str(caught.value)


def test_urls_are_text() -> None:
    with pytest.raises(BandConfigError, match=r"^rest_url "):
        resolve_endpoints(5, environ={})  # type: ignore[arg-type]


def test_a_socket_url_keeps_its_query_but_no_key_and_no_version() -> None:
    url = "wss://h.test/x?region=eu&api_key=SECRET&vsn=1.0.0&token=&flag=&region=us#frag"

    assert resolve_endpoints(ws_url=url, environ={}).ws_url == (
        "wss://h.test/x?region=eu&flag=&region=us"
    )


# --------------------------------------------------------------------------- credentials


@case("C60")
def test_the_key_is_in_no_repr() -> None:
    credentials = Credentials("a1", "SECRET-key!")

    assert credentials.api_key == "SECRET-key!"
    assert "SECRET" not in repr(credentials)
    assert Credentials("a1", PROXY_MANAGED_API_KEY).api_key == "proxy-managed"


@for_each("bad", ["", "  ", None, 5])
def test_blank_credentials_are_named(bad: Any) -> None:
    with pytest.raises(BandConfigError) as caught:
        Credentials(bad, bad)

    assert "agent_id" in str(caught.value)
    assert "api_key" in str(caught.value)
    with pytest.raises(BandConfigError, match="agent_id"):
        Credentials(bad, "key")


@for_each("key", ["SECRET key", "SECRET\n", "SECRET\r\nX: y", "SECRETé", "SECRET\x7f"])
def test_a_key_fits_into_a_header(key: str) -> None:
    with pytest.raises(BandConfigError, match="printable ASCII") as caught:
        Credentials("a1", key)

    assert "SECRET" not in str(caught.value)


# --------------------------------------------------------------------------- agent_config.yaml


def config_file(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "agents.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(path: Path | str, key: str = "me") -> str:
    with pytest.raises(BandConfigError) as caught:
        load_agent_config(key, config_path=path)
    text = str(caught.value)
    assert str(path) in text.replace("\\x00", "\x00")
    assert "\n" not in text
    assert "SECRET" not in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return text


KEYED = "me: {agent_id: a1, api_key: SECRET1}\nother: {agent_id: a2, api_key: SECRET2}\n"
FLAT = "agent_id: a0\napi_key: SECRET0\n"


@for_each(
    ("text", "key", "expected"),
    [
        (KEYED, "other", ("a2", "SECRET2")),
        (FLAT, "me", ("a0", "SECRET0")),
        (FLAT + KEYED, "me", ("a1", "SECRET1")),
        (FLAT + KEYED, "nobody", ("a0", "SECRET0")),
        ("me:\n  agent_id: 'a 1'\n  api_key: \"x#y\"\n  note: 5\n", "me", ("a 1", "x#y")),
    ],
)
def test_agents_are_read_by_name_or_flat(
    tmp_path: Path, text: str, key: str, expected: tuple[str, str]
) -> None:
    path = config_file(tmp_path, text)

    assert load_agent_config(key, config_path=path) == expected
    assert load_agent_config(key, config_path=str(path)) == expected


def test_the_default_file_is_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert get_config_path() == Path("agent_config.yaml")
    with pytest.raises(BandConfigError, match=r"agent_config.yaml does not exist\. Create it"):
        load_agent_config("me")

    (tmp_path / "agent_config.yaml").write_text(KEYED)
    assert load_agent_config("me") == ("a1", "SECRET1")


@for_each(
    ("text", "told"),
    [
        ("me: {agent_id: a1}", "lacks api_key"),
        ("me: {api_key: SECRET}", "lacks agent_id"),
        ("me: {}", "lacks agent_id and api_key"),
        ("me: {agent_id: '', api_key: ' '}", "lacks agent_id and api_key"),
        ("me: {agent_id: 5, api_key: [SECRET]}", "lacks agent_id and api_key"),
        ("me: {agent_id: null, api_key: ~}", "lacks agent_id and api_key"),
        ("me: SECRET", "must hold agent_id and api_key"),
        ("me: [SECRET]", "must hold agent_id and api_key"),
        ("me:", "must hold agent_id and api_key"),
        ("agent_id: a1", "lacks api_key"),
        ("api_key: SECRET", "lacks agent_id"),
        ("- SECRET", "must hold a mapping"),
        ("SECRET", "must hold a mapping"),
        ("5", "must hold a mapping"),
        ("", "It is empty"),
        ("# nothing\n", "It is empty"),
        ("me: {agent_id: a1,\n api_key: SECRET: SECRET}", "not valid YAML near line"),
        ("me: [SECRET", "not valid YAML"),
        ("\tme: SECRET", "not valid YAML near line 1"),
        ("me: !!python/object:SECRET {}", "not valid YAML"),
        ("me: 2026-13-45", "not valid YAML"),  # looks like a date
        ("me: !!int ''", "not valid YAML"),
        ("me: !!timestamp SECRET", "not valid YAML"),
        ("[" * 700, "not valid YAML"),
        (b"me: {agent_id: a1, api_key: SECRET\xff}", "cannot be read: UnicodeDecodeError"),
        (b"me: SECRET\x00", "not valid YAML"),
        ("? [SECRET]\n: x", "not valid YAML"),
    ],
)
def test_a_bad_file_is_one_line_without_values(
    tmp_path: Path, text: str | bytes, told: str
) -> None:
    assert told in refusal(config_file(tmp_path, text))


def test_what_is_no_file_is_one_line_too(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "absent.yaml")
    assert "cannot be read" in refusal(tmp_path)
    assert "cannot be read: ValueError" in refusal("a\x00b")


def test_an_unknown_agent_gets_a_suggestion(tmp_path: Path) -> None:
    path = config_file(tmp_path, KEYED)

    assert refusal(path, "othr").endswith(
        "has no agent 'othr'. It has: me, other. Did you mean 'other'?"
    )
    assert refusal(path, "zzzzzz").endswith("It has: me, other.")


def test_the_list_of_names_is_short_and_on_one_line(tmp_path: Path) -> None:
    text = "".join(f'"agent\\n{n:03}": {{}}\n' for n in range(200)) + "5: {}\n"
    told = refusal(config_file(tmp_path, text))

    assert "agent 000, agent 001" in told or "5, agent 000" in told
    assert told.endswith(", ….")
    assert len(told) < 600


def test_as_many_names_as_fit_into_a_line_are_all_shown(tmp_path: Path) -> None:
    names = [f"agent{n:02}" for n in range(21)]
    for count, end in ((20, "agent19."), (21, "agent19, ….")):
        text = "".join(f"{name}: {{}}\n" for name in names[:count])
        assert end in refusal(config_file(tmp_path, text), "none-of-them")


def test_a_state_directory_is_a_path_or_none() -> None:
    for good in (None, "", "state", Path("state")):
        assert AgentConfig(state_dir=good).state_dir == good
    for bad in (3, b"state", "a\0b"):
        assert "state_dir must be the path of a directory" in problems(AgentConfig, state_dir=bad)

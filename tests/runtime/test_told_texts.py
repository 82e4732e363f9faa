"""What is told, in logs, errors, records and marks: one line each, and never the key."""

from __future__ import annotations

import json
import logging
import traceback
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, quote_plus

import attrs
import pytest
import trio
import trio.testing

from band_trio import Agent, AgentConfig, BandError
from band_trio.errors import BandConfigError, BandSupersededError
from band_trio.kit.hygiene import traceback_text
from band_trio.localband.fault_rules import RequestFault, UpgradeFault, UpgradeRule
from band_trio.localband.routes import Reply
from band_trio.protocol.events import agent_control, agent_rooms, chat_room, room_participants
from band_trio.runtime.instance_lock import lock_path
from tests.marks import case, guarantee
from tests.runtime.harness import Scripted, Stage, stage

KEY: Final = "thnv_u_se/cret+k=ey&%x'\"z"


PASSWORD: Final = "p:w/d+proxy%pass"


FORMS: Final = tuple(
    form
    for secret in (KEY, PASSWORD)
    for form in (
        secret,
        repr(secret)[1:-1],
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
    )
)


FORGED: Final = "no\r\nCRITICAL forged\x1b[2J\x1b]0;t\x07\u2028\u2029\u202e\u2066\x85"


QUOTES: Final = f"{FORGED} {KEY} {quote(KEY, safe='')}"


def assert_no_secret(text: str) -> None:
    for form in FORMS:
        place = text.find(form)
        assert place < 0, f"shown: {text[max(0, place - 300) : place + 60]}"


def assert_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Check that every line of ours begins with words of ours, and shows no control."""
    ours = [r for r in caplog.records if r.name.startswith("band_trio")]
    for record in ours:
        first, *more = record.getMessage().split("\n")
        assert all(line.startswith("  ") for line in more), record.getMessage()
        for line in (first, *more):
            assert len(line.splitlines()) <= 1
            assert not {*line} & {*"\r\x1b\x07\u202e\u2066"}, repr(line)
            assert len(line) < 20_000
    for record in caplog.records:
        if not record.name.startswith("trio-websocket"):  # it logs close reasons at DEBUG
            assert_no_secret(record.getMessage() + logging.Formatter().format(record))


def with_locals(error: BaseException) -> str:
    """Return everything that a tool which shows errors could show: chains, groups, locals."""
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "".join(told.format(chain=True)) + repr(error) + str(error)


async def error_of(agent: Agent) -> BaseException:
    """Run an agent and return the error that ends its start."""
    try:
        with trio.fail_after(300):
            await agent.run()
    except BandError as exc:
        return exc
    raise AssertionError("it runs")


def keyed(here: Stage) -> None:
    """Give the agent a key that is encoded in URLs."""
    here.account = attrs.evolve(here.account, api_key=KEY)
    here.band.world.keys[KEY] = here.band.world.parties[here.account.id]


def refusal(status: int) -> Reply:
    said = {"code": QUOTES, "message": QUOTES, "request_id": QUOTES, "details": {QUOTES: [QUOTES]}}
    headers = {"retry-after": quote(KEY, safe=""), "x-odd": quote(KEY, safe="")}
    return Reply(status, {"error": said}, headers)


def refuse(status: int, route: str) -> Callable[[Stage], object]:
    fault = RequestFault(commit=False, answer=refusal(status))
    return lambda here: here.band.faults.on_request(fault, route=route, times=None)


def odd(body: bytes) -> Callable[[Stage], object]:
    return lambda here: here.band.faults.odd_answer(body, route="me", times=None)


def no_socket(status: int) -> Callable[[Stage], object]:
    rule = UpgradeRule(UpgradeFault(refusal(status)), lambda _: True, None)
    return lambda here: here.band.faults.upgrades.append(rule)


FAILURES: Final[dict[str, Callable[[Stage], object]]] = {
    "the key is refused": refuse(401, "me"),
    "me is refused": refuse(422, "me"),
    "me breaks": refuse(500, "me"),
    "the listing is refused": refuse(422, "chats"),
    "the listing breaks": refuse(503, "chats"),
    "cut": lambda here: here.band.faults.cut_request(route="me", times=None),
    "unreachable": lambda here: here.band.faults.unreachable(route="me", times=None),
    "hangs": lambda here: here.band.faults.hang(route="me", times=None),
    "no JSON": odd(QUOTES.encode()),
    "odd JSON": odd(json.dumps({"data": QUOTES}).encode()),
    "no UTF-8": odd(KEY.encode() + b"\xff"),
    "no socket, bad key": no_socket(403),
    "no socket, bad URL": no_socket(404),
    "no socket": no_socket(500),
    "first join": lambda here: here.band.faults.reject_join(
        agent_control(here.account.id), reason=QUOTES, times=None
    ),
}


@guarantee(79)
@case("C60", "C72")
@pytest.mark.parametrize("failure", FAILURES)
async def test_a_start_that_fails_tells_one_line_and_no_secret(
    failure: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with stage() as here:
        keyed(here)
        FAILURES[failure](here)
        error = await error_of(here.agent(start_patience_seconds=5))
    assert_no_secret(with_locals(error))
    assert_no_secret(traceback_text(error))
    for leaf in getattr(error, "exceptions", (error,)):
        assert len(str(leaf).splitlines()) == 1
        assert str(leaf).isprintable()
    assert_lines(caplog)


def pushes(topic: str, event: str, **payload: Any) -> Callable[[Stage], object]:
    return lambda here: here.band.send_frame(
        here.account, topic.replace("ME", here.account.id), event, payload
    )


def refused_reads(here: Stage) -> None:
    for status, route in (
        (422, "next"),
        (403, "messages"),
        (500, "participants"),
        (422, "context"),
    ):
        fault = RequestFault(commit=False, answer=refusal(status))
        here.band.faults.on_request(fault, route=route, times=3)


def rejected(here: Stage) -> None:
    here.band.faults.reject_join(reason=QUOTES, times=3)
    here.band.cut(here.account)


TROUBLES: Final[dict[str, Callable[[Stage], object]]] = {
    "close reason": lambda here: here.band.close(here.account, 4000, QUOTES[:20] + KEY),
    "join": rejected,
    "reads": refused_reads,
    "no frame": lambda here: here.band.send_raw(here.account, QUOTES),
    "odd frame": lambda here: here.band.send_raw(here.account, json.dumps([QUOTES] * 5)),
    "topic": pushes(chat_room(QUOTES), "message_created", id=QUOTES),
    "event name": pushes(agent_control("ME"), QUOTES, x=QUOTES),
    "control": pushes(agent_control("ME"), "agent.control", mode=QUOTES, scope=QUOTES),
    "title": pushes(agent_rooms("ME"), "room_added", id="r-9", title=QUOTES),
    "room id": pushes(agent_rooms("ME"), "room_added", id=QUOTES, title=QUOTES),
    "gone": pushes(agent_rooms("ME"), "room_removed", id=QUOTES, title=QUOTES),
}


@guarantee(79)
@case("C60", "C72")
@pytest.mark.parametrize("trouble", TROUBLES)
async def test_what_others_say_in_a_run_is_one_line_each(
    trouble: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with stage() as here:
        keyed(here)
        room = await here.room(QUOTES)
        async with here.running() as agent:
            await here.settled(await here.say(room, "one"))
            TROUBLES[trouble](here)
            here.band.send_frame(
                here.account, room_participants(room), "participant_added",
                {"id": "p-9", "name": QUOTES, "type": QUOTES},
            )  # fmt: skip
            await trio.sleep(5)
            await here.settled(await here.say(room, "two"))
            assert_no_secret(repr(agent.health()))
    assert here.reports[0].graceful
    assert_lines(caplog)


@guarantee(79)
@case("C72")
async def test_a_supersede_and_a_policy_close_end_the_run_in_one_line(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    payload = {"reason": QUOTES, "message": QUOTES, "retryable": False}
    ends: list[Callable[[Stage], object]] = [
        pushes(agent_control("ME"), "supersede", **payload),
        lambda here: here.band.close(here.account, 1008, FORGED[:20] + KEY),
    ]
    for end in ends:
        async with stage() as here:
            keyed(here)
            with pytest.RaisesGroup(BandError) as caught:
                async with here.running():
                    await trio.sleep(5)
                    end(here)
                    await trio.sleep(5)
        (error,) = caught.value.exceptions
        assert "no\\r\\nCRITICAL forged" in str(error)
        assert len(str(error).splitlines()) == 1
        assert_no_secret(with_locals(error))
    assert issubclass(BandSupersededError, BandError)
    assert_lines(caplog)


@guarantee(61)
@case("C72")
async def test_the_text_of_the_lock_file_is_one_line(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        async with here.running(single_instance=True):
            lock_path(here.account.id).write_text(FORGED)
            error = await error_of(here.agent(single_instance=True))
    assert "no\\r\\nCRITICAL forged" in str(error)
    assert str(error).isprintable()


PROXIES: Final = [
    f"user:{PASSWORD}@h:1", f"socks5://user:{PASSWORD}@h:1",
    f"http://user:{PASSWORD}@h:1/path", f"http://user:{PASSWORD}@h:99999",
]  # fmt: skip


REFUSED: Final[list[dict[str, Any]]] = [
    {"rest_url": "https://"},
    {"rest_url": f"https://u:{PASSWORD}@h"},
    {"BAND_REST_URL": f"https://u:{PASSWORD}@h"},
    {"ws_url": f"wss://h?token={KEY}"},
    {"agent_id": " "},
    {"adapter": object()},
    *({name: proxy} for name in ("proxy", "HTTPS_PROXY", "ALL_PROXY") for proxy in PROXIES),
]


@guarantee(87)
@case("C60", "C69")
@pytest.mark.parametrize("wrong", REFUSED, ids=lambda wrong: ascii(wrong)[2:24])
def test_settings_that_are_refused_show_no_key(
    wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAND_API_KEY", KEY)
    options = {"adapter": Scripted(), "agent_id": "a", "api_key": KEY}
    for name, value in wrong.items():
        if name.isupper():
            monkeypatch.setenv(name, value)
        else:
            options[name] = value
    with pytest.raises(BandConfigError) as caught:
        create(options)
    shown = caught.value.__traceback__
    while shown is not None and shown.tb_frame.f_code.co_name != "begin":
        shown = shown.tb_next  # the frames of the application are its own
    assert shown is not None
    told = traceback.TracebackException(BandConfigError, caught.value, shown, capture_locals=True)
    assert_no_secret("".join(told.format()))
    assert_no_secret(str(caught.value))
    assert str(caught.value).isprintable()


def create(options: dict[str, Any]) -> None:
    if "proxy" in options:
        options["config"] = AgentConfig(proxy=options.pop("proxy"))
    Agent.create(**options)


@guarantee(89)
@case("C60")
async def test_a_proxy_that_refuses_and_quotes_its_password_does_not_spread_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)

    async def quotes(stream: trio.SocketStream) -> None:
        async with stream:
            said = b"".join((await stream.receive_some(65_536)).split(b"\r\n\r\n"))
            told = next(line for line in said.split(b"\r\n") if b"Authorization" in line)
            password = PASSWORD.encode()
            await stream.send_all(b"HTTP/1.1 407 " + told + b" " + password + b"\x1b[2J\r\n\r\n")

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    pair = b64encode(f"user:{PASSWORD}".encode()).decode()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, quotes, listeners)
        proxy = f"http://user:{quote(PASSWORD, safe='')}@127.0.0.1:{port}"
        agent = Agent.create(
            adapter=Scripted(), agent_id="a", api_key=KEY, rest_url="https://band.invalid",
            config=AgentConfig(proxy=proxy, start_patience_seconds=0.2, single_instance=False),
        )  # fmt: skip
        error = await error_of(agent)
        nursery.cancel_scope.cancel()
    assert "407" in str(error)
    for text in (with_locals(error), traceback_text(error), repr(agent.settings), caplog.text):
        assert_no_secret(text)
        assert pair not in text
    assert_lines(caplog)

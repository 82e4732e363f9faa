"""Sending through the real REST client: one message at most, whatever is answered (guarantee 76)."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx  # noqa: ASYNC127 - the transport of the tests
import pytest
import trio
from trio.testing import MockClock

from band_trio.errors import (
    BandApiError,
    BandToolError,
    DeliveryFailedError,
    MentionError,
    MessagePostError,
    RoomExecutionStoppedError,
    TurnClosedError,
)
from band_trio.protocol.rest import MESSAGE_BYTES
from band_trio.tools.failures import AgentFailure, generic_provider_failure
from band_trio.tools.relay import relay_reply, reraise_delivery_cause, send_event_safe
from tests.marks import case, guarantee
from tests.support.for_each import for_each
from tests.tools.kit import HELPER, KEY, MARIA, ME, SAM_X, SAM_Y, Ear, Platform, open_tools, refusal

TO_MARIA = {"id": MARIA["id"], "handle": "maria"}


async def _hang(_: httpx.Request) -> httpx.Response:
    await trio.sleep_forever()
    raise AssertionError


# --------------------------------------------------------------------------- what is sent


async def test_a_message_is_sent_as_it_is_and_recorded() -> None:
    platform, ear = Platform(), Ear()
    async with open_tools(platform, ear=ear) as tools:
        receipt = await tools.send_message("Hello @maria", ["maria"])

    assert receipt == {
        "id": "message-1",
        "recipients": [{"id": "user-maria", "handle": "maria"}],
        "success": True,
    }
    assert platform.requests == [
        (
            "POST",
            "/chats/room-1/messages",
            {"message": {"content": "Hello @maria", "mentions": [TO_MARIA]}},
        )
    ]
    assert tools.turn.replied
    assert ear.heard == [("message", "ok")]


async def test_attachments_are_sent_only_when_given() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        await tools.send_message("a", ["maria"], attachment_ids=["f1"])
        await tools.send_message("b", ["maria"], attachment_ids=[])

    first, second = platform.bodies("messages")
    assert first["message"]["attachment_ids"] == ["f1"]
    assert "attachment_ids" not in second["message"]


@case("C31")
async def test_blank_content_is_not_sent() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        assert await tools.send_message(" \u200b\n", ["maria"]) is None
        assert await tools.send_event("  ", "thought") is None

    assert platform.requests == []
    assert not tools.turn.complete


@case("C31")
async def test_content_above_the_limits_is_refused_before_any_request() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        with pytest.raises(BandToolError, match="524,288 are possible"):
            await tools.send_message("é" * (MESSAGE_BYTES // 2 + 1), ["maria"])
        with pytest.raises(BandToolError, match="at most 10"):
            await tools.send_message("x", ["maria"], attachment_ids=[str(n) for n in range(11)])
        assert platform.requests == []
        await tools.send_message("é" * (MESSAGE_BYTES // 2), ["maria"])

    assert len(platform.requests) == 1


async def test_lone_surrogates_do_not_reach_the_wire() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        await tools.send_message("a\ud800b", ["maria"])

    assert platform.bodies("messages")[0]["message"]["content"] == "a�b"


# --------------------------------------------------------------------------- mentions


async def test_an_unknown_mention_refreshes_the_roster_once_and_then_resolves() -> None:
    platform, ear = Platform(), Ear()
    async with open_tools(platform, ear=ear) as tools:
        platform.participants.append(HELPER)
        await tools.send_message("hi", ["@x/helper", "helper"])

    assert platform.paths("GET") == ["/chats/room-1/participants"]
    assert platform.bodies("messages")[0]["message"]["mentions"] == [
        {"id": "agent-helper", "handle": "x/helper"}
    ]
    assert ear.heard[0] == ("roster", [ME, "user-maria", "agent-helper"])


@case("C28")
async def test_nothing_is_sent_before_all_mentions_resolve() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        with pytest.raises(MentionError, match=r"matches 'nobody'.*You can mention: @maria\."):
            await tools.send_message("hi", ["@maria", "@nobody"])

    assert platform.paths("GET") == ["/chats/room-1/participants"]
    assert platform.paths("POST") == []
    assert not tools.turn.complete


@case("C28")
async def test_an_ambiguous_name_needs_no_request() -> None:
    platform = Platform()
    platform.participants += [SAM_X, SAM_Y]
    async with open_tools(platform) as tools:
        with pytest.raises(MentionError, match=r"ambiguous.*@x/sam.*@y/sam"):
            await tools.send_message("hi", ["Sam"])

    assert platform.requests == []


@case("C29")
@for_each("mentions", [None, [], [ME], ["@maria/scribe"], ["Scribe"]])
async def test_only_oneself_or_nobody_is_an_error_with_real_handles(mentions: Any) -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        with pytest.raises(MentionError) as caught:
            await tools.send_message("hi", mentions)

    assert str(caught.value) == (
        "At least one other participant must be mentioned. You can mention: @maria."
    )
    assert platform.paths("POST") == []


@case("C29")
@for_each("mentions", [[], [ME], ["@maria/scribe", "Scribe"]])
async def test_in_a_room_of_many_the_error_lists_everybody_else(mentions: list[str]) -> None:
    platform = Platform()
    platform.participants += [SAM_X, SAM_Y, HELPER]
    async with open_tools(platform) as tools:
        with pytest.raises(MentionError) as caught:
            await tools.send_message("hi", mentions)

    for handle in ("@maria", "@x/sam", "@y/sam", "@x/helper"):
        assert handle in str(caught.value)
    assert "@maria/scribe" not in str(caught.value)
    assert platform.requests == []


@case("C29")
async def test_oneself_is_left_out_and_doubles_are_removed() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        await tools.send_message("hi", [ME, "@maria", {"id": "user-maria"}, "Maria"])

    assert platform.bodies("messages")[0]["message"]["mentions"] == [TO_MARIA]


async def test_an_id_given_by_code_is_not_looked_up() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        await tools.send_message("hi", [{"id": "stranger"}])

    assert platform.bodies("messages")[0]["message"]["mentions"] == [{"id": "stranger"}]


async def test_somebody_who_left_is_told_with_fresh_handles() -> None:
    platform, ear = Platform(), Ear()
    platform.participants.append(SAM_X)
    async with open_tools(platform, ear=ear) as tools:
        platform.participants.remove(SAM_X)
        platform.answer("POST", "messages", refusal(422, "mentioned_participant_not_in_room", "no"))
        with pytest.raises(MessagePostError) as caught:
            await tools.send_message("hi", ["@x/sam"])

    assert caught.value.kind == "mentioned_participant_not_in_room"
    assert str(caught.value).endswith("You can mention: @maria.")
    assert not tools.turn.complete
    assert ear.heard[0] == ("message", "refused")


# --------------------------------------------------------------------------- answers


@guarantee(76)
@case("C26")
@pytest.mark.parametrize(
    "odd",
    [
        httpx.Response(201, json={}),
        httpx.Response(201, json={"data": {"data": {"id": "x"}}, "more": 1}),
        httpx.Response(200, content=b"{not json"),
        httpx.Response(204),
        httpx.Response(201, json={"data": {"id": None, "recipients": "x"}}),
    ],
    ids=["empty", "wrapped", "invalid", "no body", "wrong types"],
)
async def test_an_odd_success_is_one_send_and_a_success(
    odd: httpx.Response, caplog: pytest.LogCaptureFixture
) -> None:
    platform = Platform()
    platform.answer("POST", "messages", odd, commit=True)
    platform.answer("POST", "events", odd, commit=True)
    async with open_tools(platform) as tools:
        receipt = await tools.send_message("hi", ["maria"])
        noted = await tools.send_event("hm", "thought")

    assert receipt == {"id": None, "recipients": [TO_MARIA], "success": True}
    assert noted == {"id": None, "message_type": "thought", "success": True}
    assert len(platform.bodies("messages")) == len(platform.bodies("events")) == 1
    assert tools.turn.replied
    assert "odd" in caplog.text


@guarantee(76)
@case("C25")
@for_each(
    "lost",
    [
        httpx.Response(504),
        httpx.Response(500, json={"error": {"code": "internal", "message": "oops"}}),
        httpx.Response(408),
        httpx.ReadError("cut"),
        httpx.RemoteProtocolError("closed without an answer"),
        _hang,
    ],
    ids=["504", "500", "408", "cut", "closed", "hang"],
)
async def test_a_lost_answer_is_told_as_unknown_and_never_sent_again(
    lost: Any, autojump_clock: MockClock
) -> None:
    platform, ear = Platform(), Ear()
    platform.answer("POST", "messages", lost, commit=True)
    async with open_tools(platform, ear=ear) as tools:
        with pytest.raises(MessagePostError, match="do not send it again") as caught:
            await tools.send_message("hi", ["maria"])

    assert caught.value.kind == "outcome_unknown"
    assert len(platform.bodies("messages")) == 1
    assert tools.turn.replied, "running the turn again could say it twice"
    assert ear.heard == [("message", "unknown")]


@guarantee(76)
@case("C25")
@pytest.mark.parametrize(
    "early",
    [httpx.ConnectError("refused"), httpx.Response(429, headers={"retry-after": "3"})],
    ids=["not connected", "429"],
)
async def test_what_cannot_have_been_sent_is_tried_again(
    early: Any, autojump_clock: MockClock
) -> None:
    platform = Platform()
    platform.answer("POST", "messages", early)
    async with open_tools(platform) as tools:
        receipt = await tools.send_message("hi", ["maria"])

    assert receipt is not None
    assert receipt["id"] == "message-1"


@guarantee(76)
async def test_an_unreachable_platform_is_told_without_its_url(
    autojump_clock: MockClock,
) -> None:
    platform = Platform()
    for _ in range(500):
        platform.answer("POST", "messages", httpx.ConnectError("refused"))
    async with open_tools(platform) as tools:
        outcome = await tools.execute_tool_call_structured(
            "band_send_message", {"content": "hi", "mentions": ["maria"]}
        )

    assert not outcome.ok
    assert "could not be reached, so nothing was done" in outcome.value
    assert "localhost" not in outcome.value
    assert not tools.turn.complete


@guarantee(76)
async def test_a_send_cut_off_by_its_caller_counts_as_said(autojump_clock: MockClock) -> None:
    platform = Platform()
    platform.answer("POST", "messages", _hang)
    async with open_tools(platform) as tools:
        with trio.move_on_after(1):
            await tools.send_message("hi", ["maria"])

    assert tools.turn.replied


@guarantee(76)
@case("C27")
async def test_the_same_message_in_flight_is_joined_not_repeated(
    autojump_clock: MockClock,
) -> None:
    platform = Platform()
    receipts: list[Any] = []

    async def slow(_: httpx.Request) -> httpx.Response:
        await trio.sleep(5)
        return httpx.Response(201, json={"data": {"id": "slow", "recipients": []}})

    platform.answer("POST", "messages", slow)
    async with open_tools(platform) as tools:

        async def send(*mentions: str) -> None:
            receipts.append(await tools.send_message("hi", list(mentions)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, "maria")
            nursery.start_soon(send, "@MARIA", "user-maria")
        assert [receipt["id"] for receipt in receipts] == ["slow", "slow"]
        assert len(platform.bodies("messages")) == 1
        await send("maria")  # later, on purpose

    assert len(platform.bodies("messages")) == 2


async def test_sends_at_the_same_time_that_differ_in_anything_are_all_posted(
    autojump_clock: MockClock,
) -> None:
    platform = Platform()
    platform.participants.append(HELPER)

    async def slow(_: httpx.Request) -> httpx.Response:
        await trio.sleep(5)
        return httpx.Response(201, json={"data": {"id": "slow", "recipients": []}})

    platform.answer("POST", "messages", slow)
    async with open_tools(platform) as tools, trio.open_nursery() as nursery:
        for content, people, files in (
            ("hi", ["maria"], None), ("hi", ["x/helper"], None), ("hi!", ["maria"], None),
            ("hi", ["maria"], ["f1"]), ("hi", ["maria"], ["f2"]), ("hi", ["maria", "x/helper"], None),
        ):  # fmt: skip
            nursery.start_soon(partial(tools.send_message, content, people, attachment_ids=files))
    assert len(platform.bodies("messages")) == 6


@guarantee(76)
async def test_who_joined_a_send_that_was_cut_off_learns_that_it_is_unknown(
    autojump_clock: MockClock,
) -> None:
    platform = Platform()
    platform.answer("POST", "messages", _hang)
    async with open_tools(platform) as tools:
        async with trio.open_nursery() as nursery:
            impatient = trio.CancelScope(deadline=trio.current_time() + 2)

            async def first() -> None:
                with impatient:
                    await tools.send_message("hi", ["maria"])

            nursery.start_soon(first)
            await trio.sleep(1)
            with pytest.raises(MessagePostError, match="do not send it again"):
                await tools.send_message("hi", ["maria"])

    assert len(platform.bodies("messages")) == 1


@pytest.mark.parametrize(
    ("code", "message"),
    [("execution_stopped", "no"), ("forbidden", "Agent Execution is STOPPED here")],
)
async def test_a_stop_in_an_answer_is_raised_and_told(code: str, message: str) -> None:
    platform, ear = Platform(), Ear()
    args = {"content": "hi", "mentions": ["maria"]}
    async with open_tools(platform, ear=ear) as tools:
        platform.answer("POST", "messages", refusal(403, code, message))
        with pytest.raises(RoomExecutionStoppedError):
            await tools.execute_tool_call("band_send_message", args)
        platform.answer("POST", "events", refusal(403, code, message))
        with pytest.raises(RoomExecutionStoppedError):
            await tools.send_failure(AgentFailure("x", "y"))

    assert ear.heard == [("message", "refused"), "stop", ("failure", "refused"), "stop"]
    assert not tools.turn.complete


async def test_another_no_is_an_api_error() -> None:
    platform = Platform()
    platform.answer("POST", "messages", refusal(422, "mentions_required", "mention somebody"))
    async with open_tools(platform) as tools:
        with pytest.raises(BandApiError, match="422 mentions_required: mention somebody"):
            await tools.send_message("hi", ["maria"])

    assert not tools.turn.complete


# --------------------------------------------------------------------------- events


@case("C31")
async def test_an_event_keeps_head_and_tail_within_the_limit() -> None:
    platform = Platform()
    family = "👨‍👩‍👧"
    async with open_tools(platform) as tools:
        await tools.send_event("a" + family * 10_000 + "z", "thought")

    content = platform.bodies("events")[0]["event"]["content"]
    assert 16_000 < len(content) <= 16_384
    assert content.startswith("a" + family)
    assert content.endswith(family + "z")
    head, tail = content.split("\n… shortened …\n")
    assert (len(head) - 1) % len(family) == 0, "no emoji is split"
    assert (len(tail) - 1) % len(family) == 0


async def test_events_are_checked_before_any_request() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        with pytest.raises(BandToolError, match="65,536 are possible"):
            await tools.send_event("x", "task", {"big": "y" * 70_000})
        with pytest.raises(BandToolError, match="must be a JSON object"):
            await tools.send_event("x", "task", {"odd": object()})
        with pytest.raises(BandToolError, match="must be one of tool_call"):
            await tools.send_event("x", "loud")

    assert platform.requests == []


async def test_metadata_is_sent_only_when_given() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        await tools.send_event("x", "tool_call", {"a": 1})
        result = await tools.send_event("x", "thought")

    assert result == {"id": "event-1", "message_type": "thought", "success": True}
    first, second = platform.bodies("events")
    assert first["event"] == {"content": "x", "message_type": "tool_call", "metadata": {"a": 1}}
    assert second["event"] == {"content": "x", "message_type": "thought"}
    assert not tools.turn.complete


@guarantee(76)
async def test_an_event_without_an_answer_is_not_posted_again() -> None:
    platform = Platform()
    platform.answer("POST", "events", httpx.Response(502), commit=True)
    async with open_tools(platform) as tools:
        with pytest.raises(MessagePostError, match="do not post it again"):
            await tools.send_event("x", "thought")
        platform.answer("POST", "events", httpx.Response(502))
        assert not await send_event_safe(tools, "x", "thought")

    assert len(platform.bodies("events")) == 2


# --------------------------------------------------------------------------- failures


async def test_a_failure_is_an_error_event_with_all_four_keys() -> None:
    platform, ear = Platform(), Ear()
    async with open_tools(platform, ear=ear) as tools:
        await tools.send_failure(AgentFailure("acme", f" It broke.\x00 {KEY} ", "e1"))

    assert platform.bodies("events")[0]["event"] == {
        "content": "It broke.� [REDACTED]",
        "message_type": "error",
        "metadata": {
            "failure": {
                "provider": "acme",
                "message": " It broke.� [REDACTED] ",
                "code": "e1",
                "detail": None,
            }
        },
    }
    assert tools.turn.complete
    assert not tools.turn.replied
    assert ear.heard == [("failure", "ok")]


async def test_a_blank_failure_names_the_provider() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        await tools.send_failure(AgentFailure("acme", " \u200b"))

    assert platform.bodies("events")[0]["event"]["content"] == (
        "acme failed without an error message."
    )


async def test_a_failure_that_cannot_be_posted_does_not_raise() -> None:
    platform = Platform()
    platform.answer("POST", "events", refusal(422, "validation_error", "no"))
    async with open_tools(platform) as tools:
        result = await tools.send_failure(AgentFailure("acme", "It broke."))
        assert result is not None
        assert result["ok"] is False
        assert not tools.turn.complete, "the runtime reports in its own words then"
        platform.answer("POST", "events", httpx.Response(502))
        await tools.send_failure(AgentFailure("acme", "It broke."))

    assert tools.turn.complete, "the event may be in the room: not a second one"


def test_a_provider_error_shows_only_its_class() -> None:
    failure = generic_provider_failure("acme", RuntimeError(f"key={KEY}"))

    assert failure.detail == "RuntimeError"
    assert KEY not in str(failure.to_dict())


# --------------------------------------------------------------------------- the adapter's own


async def test_a_notice_is_no_reply() -> None:
    platform, ear = Platform(), Ear()
    async with open_tools(platform, ear=ear) as tools:
        await tools.send_notice("working on it", "maria")
        await tools.deliver_notice("still", ["maria"])

    assert len(platform.bodies("messages")) == 2
    assert not tools.turn.complete
    assert ear.heard == [("notice", "ok")] * 2


async def test_delivery_wraps_send_errors_only() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        with pytest.raises(DeliveryFailedError) as caught:
            await tools.deliver_reply("hi", ["nobody"])
        assert isinstance(caught.value.cause, MentionError)
        with pytest.raises(MentionError):
            reraise_delivery_cause(caught.value)
        platform.answer("POST", "messages", refusal(403, "execution_stopped", "stopped"))
        with pytest.raises(RoomExecutionStoppedError):
            await tools.deliver_reply("hi", ["maria"])
        tools.turn.close()
        with pytest.raises(TurnClosedError):
            await tools.deliver_reply("hi", ["maria"])


async def test_plain_text_is_relayed_only_if_nothing_was_said() -> None:
    platform = Platform()
    async with open_tools(platform) as tools:
        assert not await relay_reply(tools, "  ", ["maria"])
        assert await relay_reply(tools, "done", ["maria"])
        assert not await relay_reply(tools, "done again", ["maria"])

    assert len(platform.bodies("messages")) == 1


async def test_lone_surrogates_of_metadata_are_replaced() -> None:
    platform = Platform()
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    async with open_tools(platform) as tools:
        await tools.send_event("x", "thought", {"a": ["\ud800"]})
        with pytest.raises(BandToolError, match="must be a JSON object"):
            await tools.send_event("x", "thought", cycle)

    [body] = platform.bodies("events")
    assert body["event"]["metadata"] == {"a": ["\ufffd"]}

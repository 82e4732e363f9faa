"""The tool loop, the same for every adapter for models: real SDKs against scripted models."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from band_trio.adapters.loop import TOO_MANY_ROUNDS
from band_trio.adapters.prompts import repeat_notice
from band_trio.errors import (
    BandConfigError,
    InputNotAccepted,
    ProviderRunError,
    RoomExecutionStoppedError,
)
from band_trio.testing import events_of_type, make_message, reported_failures, run_turn
from band_trio.testing.model_rules import broken_anthropic_rule, broken_openai_rule
from band_trio.testing.scripted_http import ScriptedServer
from band_trio.testing.scripted_model import (
    CutTurn,
    ErrorTurn,
    RawTurn,
    RefusalTurn,
    ScriptedModel,
    ScriptTurn,
    SlowTurn,
    TextTurn,
    ToolsTurn,
    ToolTurn,
)
from band_trio.types import Capability
from tests.adapters.kit import (
    KINDS,
    LOOK,
    NO_REPLY,
    Bench,
    Kind,
    bench,
    make_tools,
    results,
    send,
    texts,
)
from tests.converters.kit import called, histories, own, returned, said
from tests.marks import case
from tests.support.for_each import for_each

EACH = for_each("kind", KINDS, ids=lambda kind: kind.name)
DONE = TextTurn("done")


# --------------------------------------------------------------------------- the loop


@EACH
async def test_the_model_calls_tools_until_it_is_done(kind: Kind) -> None:
    script = [ToolsTurn((LOOK, send("hi"), ToolTurn("nope")), text="let me see"), DONE]
    async with bench(kind, script) as b:
        result = await b.turn("hello")

        assert (result.record, result.replied) == ("processed", True)
        b.tools.assert_message_sent(content="hi", count=1)
        assert [call["tool_name"] for call in b.tools.tool_calls] == [
            "band_get_participants", "band_send_message", "nope",
        ]  # fmt: skip
        assert texts(b.last) == [("user", "[Maria]: hello"), ("assistant", "let me see")]
        [people, sent, unknown] = results(b.last)
        assert "maria" in people[0]
        assert json.loads(sent[0])["success"]
        assert (people[1], sent[1]) == (False, False)
        assert "Unknown tool: nope" in unknown[0]
        assert unknown[1] or kind.api == "openai"  # which has no mark for it


@EACH
async def test_tool_calls_and_tokens_are_told(kind: Kind) -> None:
    async with bench(kind, [send("hi"), DONE]) as b:
        await b.turn()

        kinds = [post.get("message_type", post["kind"]) for post in b.tools.posts]
        assert kinds == ["tool_call", "message", "tool_result", "task"]
        [call] = events_of_type(b.tools, "tool_call")
        [result] = events_of_type(b.tools, "tool_result")
        assert json.loads(call["content"])["args"]["content"] == "hi"
        assert json.loads(result["content"])["is_error"] is False
        usage = b.tools.events_sent[-1]["metadata"]["band_usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (20, 10)


@EACH
async def test_a_silent_adapter_posts_nothing_about_itself(kind: Kind) -> None:
    async with bench(kind, [send("hi"), DONE], emit=()) as b:
        await b.turn()

        assert [post["kind"] for post in b.tools.posts] == ["message"]


@EACH
async def test_plain_text_is_kept_and_not_posted(kind: Kind) -> None:
    async with bench(kind, [TextTurn("just text"), NO_REPLY]) as b:
        first = await b.turn("one")
        await b.turn("two")

        b.tools.assert_no_messages_sent()
        assert first.record == "failed"
        assert texts(b.last) == [
            ("user", "[Maria]: one"),
            ("assistant", "just text"),
            ("user", "[Maria]: two"),
        ]


@EACH
async def test_plain_text_is_relayed_if_wanted(kind: Kind) -> None:
    script = [TextTurn("just text"), send("by tool"), TextTurn("and text")]
    async with bench(kind, script, relay_final_text=True) as b:
        first, second = await b.turn(), await b.turn()

        assert b.tools.chat == ["just text", "by tool"]
        assert (first.record, second.record) == ("processed", "processed")
        b.tools.assert_message_sent(content="just text", mentions=["u1"])


@EACH
async def test_declining_ends_the_turn_without_another_request(kind: Kind) -> None:
    async with bench(kind, [NO_REPLY, ToolsTurn((LOOK, NO_REPLY))]) as b:
        first, second = await b.turn(), await b.turn()

        assert (first.record, second.record) == ("processed", "processed")
        assert len(b.model.requests) == 2


@EACH
async def test_declining_beside_a_failure_goes_on(kind: Kind) -> None:
    async with bench(kind, [ToolsTurn((NO_REPLY, ToolTurn("nope"))), TextTurn("")]) as b:
        assert (await b.turn()).record == "processed"
        assert len(b.model.requests) == 2


@EACH
async def test_endless_calls_end(kind: Kind) -> None:
    async with bench(kind, [*[LOOK] * 4, NO_REPLY], max_tool_rounds=3) as b:
        result = await b.turn()

        assert isinstance(result.error, ProviderRunError)
        [failure] = reported_failures(b.tools)
        assert failure["code"] == TOO_MANY_ROUNDS
        assert len(b.tools.tool_calls) == 3
        await b.turn("next")
        assert "too many rounds" in results(b.last)[-1][0]


# --------------------------------------------------------------------------- failures

SECRET = "the-secret-of-the-provider"


@case("C12")
@EACH
@for_each(
    "turn",
    [
        ErrorTurn(status=500, message=SECRET),
        ErrorTurn(status=400, message=SECRET),
        ErrorTurn(status=401, message=SECRET),
        ErrorTurn(status=429, message=SECRET),
        RawTurn(b"{nope " + SECRET.encode()),
        RawTurn(b"{}"),
        RawTurn(b"null"),
        RawTurn(b"<html>" + SECRET.encode(), content_type="text/html"),
        RawTurn(b'{"error": {"message": "the-secret-of-the-provider"}}'),
        CutTurn(),
        RefusalTurn(SECRET),
        TextTurn(""),
    ],
    ids=["500", "400", "401", "429", "no-json", "empty-json", "null", "html", "error-as-data", "cut",
         "refusal", "empty"],
)  # fmt: skip
async def test_a_failing_provider_fails_the_turn_and_is_told(kind: Kind, turn: ScriptTurn) -> None:
    """What the turn came to is kept; nothing of it where its request may have been refused."""
    refused = isinstance(turn, ErrorTurn) and turn.status == 400
    async with bench(kind, [NO_REPLY, LOOK, *[turn] * (1 + refused), NO_REPLY]) as b:
        await b.turn("before")
        result = await b.turn("now")

        assert (result.record, result.failure) == ("failed", None)
        assert result.error is not None
        [failure] = reported_failures(b.tools)
        assert failure["provider"] == b.adapter.PROVIDER
        assert SECRET not in str(b.tools.posts)
        assert (await b.turn("after")).record == "processed"
        assert "[Maria]: before" in str(b.last)
        # pydantic-ai fails so over answers of Anthropic's API that are none: it could be the request
        forgotten = refused or isinstance(result.error, TypeError | AttributeError)
        assert not forgotten or refused or kind.name == "model-anthropic"
        assert ("[Maria]: now" not in str(b.last)) is forgotten
        assert len(results(b.last)) == 1 + (not forgotten)
        assert SECRET not in str(b.last)


@EACH
async def test_a_quoted_key_leaves_the_turn_masked(kind: Kind) -> None:
    """The text of what leaves a turn is recorded at the platform."""
    quoted = ErrorTurn(status=401, message="wrong key: scripted-key")
    async with bench(kind, [quoted, ErrorTurn(status=401, message="wrong key")]) as b:
        masked, plain = await b.turn(), await b.turn()

        assert isinstance(masked.error, ProviderRunError)
        assert "wrong key: [REDACTED]" in str(masked.error)
        assert "AuthenticationError" in type(plain.error).__name__


@EACH
async def test_a_subclass_may_keep_the_message_for_later(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(kind) as b:

        async def busy(*_: Any) -> Any:
            await trio.lowlevel.checkpoint()
            raise InputNotAccepted("not now")

        monkeypatch.setattr(b.adapter, "ask", busy)
        assert (await b.turn()).record == "not-accepted"
        assert reported_failures(b.tools) == []


@case("C12")
@EACH
async def test_a_failure_after_the_reply_does_not_undo_it(kind: Kind) -> None:
    """An empty answer, or a refusal, after the work is done is no failure."""
    async with bench(kind, [send(), TextTurn(""), send(), RefusalTurn()]) as b:
        assert (await b.turn()).record == "processed"
        assert (await b.turn()).record == "processed"
        assert reported_failures(b.tools) == []


@EACH
async def test_tokens_of_a_failed_turn_are_told(kind: Kind) -> None:
    async with bench(kind, [LOOK, ErrorTurn()]) as b:
        await b.turn()

        assert b.tools.events_sent[-1]["metadata"]["band_usage"]["input_tokens"] == 10


@EACH
async def test_the_sdk_repeats_what_was_too_much(kind: Kind) -> None:
    script = [ErrorTurn(status=429, retry_after=0.02), NO_REPLY]
    async with bench(kind, script, max_retries=1) as b:
        assert (await b.turn()).record == "processed"


@EACH
async def test_a_stop_ends_the_turn_as_a_stop(kind: Kind) -> None:
    async with bench(kind, [send()]) as b:
        b.tools.send_message_error = RoomExecutionStoppedError("room-fake")
        result = await b.turn()

        assert isinstance(result.error, RoomExecutionStoppedError)
        assert reported_failures(b.tools) == []


# --------------------------------------------------------------------------- memory


@EACH
async def test_history_and_news_reach_the_model(kind: Kind) -> None:
    history = [said("before"), called("look", "1"), own("in between"), returned("look", "1", "x")]
    async with bench(kind, [NO_REPLY]) as b:
        await b.turn(
            "now", history=history, is_session_bootstrap=True, participants_msg="who",
            contacts_msg="news",
        )  # fmt: skip

        assert [role for role, _ in texts(b.last)] == ["user", "assistant", "user"]
        lines = texts(b.last)[-1][1].split("\n")
        assert lines == ["[System]: who", "[System]: news", "[Maria]: now"]
        assert results(b.last) == [("x", False)]


@EACH
async def test_a_bootstrap_replaces_what_was_kept(kind: Kind) -> None:
    async with bench(kind, [NO_REPLY, NO_REPLY]) as b:
        await b.turn("old", is_session_bootstrap=True)
        await b.turn("new", is_session_bootstrap=True, history=[said("read again")])

        assert texts(b.last) == [("user", "[Maria]: read again\n[Maria]: new")]


@case("C63")
@EACH
async def test_a_repeated_turn_goes_on_behind_the_first_and_is_told_so(kind: Kind) -> None:
    async with bench(kind, [NO_REPLY, LOOK, ErrorTurn(status=500), NO_REPLY, NO_REPLY]) as b:
        await b.turn("zero")
        assert (await b.turn("one", id="m1")).record == "failed"
        since = [{**own("It is kept already."), "since_trigger": True}]
        await b.turn("one", id="m1", attempt=2, history=since)

        assert texts(b.last)[-1][1].endswith(f"[System]: {repeat_notice(2)}\n[Maria]: one")
        assert str(b.last).count("[Maria]: one") == 2
        assert len(results(b.last)) == 2
        assert "kept already" not in str(b.last)
        await b.turn("two")
        assert str(b.last).count("worked on the following message before") == 1


@case("C63")
@EACH
@for_each("bootstrap", [True, False])
async def test_a_repeated_turn_of_a_new_process_knows_what_was_said_since(
    kind: Kind, bootstrap: bool
) -> None:
    history = [said("before")] if bootstrap else []
    history += [{**own("It is 42."), "since_trigger": True}]
    async with bench(kind, [NO_REPLY]) as b:
        result = await b.turn("what?", attempt=2, history=history, is_session_bootstrap=bootstrap)

        assert (result.record, b.tools.chat) == ("processed", [])
        [*_, answer, question] = texts(b.last)
        assert answer == ("assistant", "It is 42.")
        assert question[1].startswith("[System]: You have worked on the following message before")
        assert "band_no_reply" in question[1]


@EACH
async def test_a_repeated_bootstrap_keeps_calls_that_nobody_was_told(kind: Kind) -> None:
    history = [said("before")]
    async with bench(kind, [LOOK, ErrorTurn(status=500), NO_REPLY], emit=()) as b:
        await b.turn("one", id="m1", history=history, is_session_bootstrap=True)
        await b.turn("one", id="m1", history=history, is_session_bootstrap=True, attempt=2)

        assert len(results(b.last)) == 1
        assert str(b.last).count("[Maria]: before") == 1


@EACH
async def test_a_repeated_turn_whose_history_was_not_read_before_gets_it(kind: Kind) -> None:
    async with bench(kind, [LOOK, ErrorTurn(status=500), NO_REPLY]) as b:
        await b.turn("one", id="m1")
        history = [said("before")]
        await b.turn("one", id="m1", history=history, is_session_bootstrap=True, attempt=2)

        assert "[Maria]: before" in str(b.last)


@EACH
async def test_rooms_are_kept_apart_and_released(kind: Kind) -> None:
    async with bench(kind, [NO_REPLY] * 4) as b:
        for room in ("r1", "r2"):
            await b.turn(f"in {room}", room_id=room)
        await b.turn("again", room_id="r1")
        assert "in r1" in str(b.last)
        assert "in r2" not in str(b.last)

        await b.adapter.on_cleanup("r1")
        await b.adapter.on_cleanup("never seen")
        assert b.adapter.room_messages("r1") == []
        assert b.adapter.room_messages("r2") != []
        await b.adapter.cleanup_all()
        assert b.adapter.room_messages("r2") == []


@EACH
async def test_old_messages_are_dropped_at_a_text(kind: Kind) -> None:
    """The scripted API refuses a list that is cut between a call and its result."""
    limit = 5
    async with bench(kind, lambda _: NO_REPLY, max_history=limit) as b:
        for number in range(8):
            await b.turn(f"number {number}")
            assert texts(b.last)[-1][1].endswith(f"[Maria]: number {number}")
            assert len(b.adapter.room_messages("room-fake")) <= limit
        assert "number 0" not in str(b.last)


@EACH
async def test_a_long_turn_is_never_cut(kind: Kind) -> None:
    async with bench(kind, [*[LOOK] * 6, NO_REPLY, NO_REPLY], max_history=4) as b:
        await b.turn("long")
        assert str(b.adapter.room_messages("room-fake")[0]).count("[Maria]: long") == 1
        await b.turn("next")

        assert texts(b.last) == [("user", "[Maria]: next")]


@EACH
async def test_of_a_long_turn_behind_older_ones_the_older_ones_go(kind: Kind) -> None:
    answers = [NO_REPLY, NO_REPLY, *[LOOK] * 6, NO_REPLY]
    async with bench(kind, answers, max_history=4) as b:
        await b.turn("old one")
        await b.turn("old two")
        await b.turn("long")

        kept = str(b.adapter.room_messages("room-fake"))
        assert "old" not in kept
        assert kept.count("[Maria]: long") == 1


# --------------------------------------------------------------------------- many at once


@EACH
@pytest.mark.slow
async def test_twenty_rooms_at_once(kind: Kind) -> None:
    async with bench(kind, lambda _: SlowTurn(0.02, NO_REPLY)) as b:

        async def one(number: int) -> None:
            room = Bench(b.adapter, b.model, make_tools(b.adapter))
            assert (await room.turn(room_id=f"r{number}")).record == "processed"

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(one, number)
        assert len(b.model.requests) == 20


# --------------------------------------------------------------------------- prompt and tools


@EACH
async def test_the_prompt_is_rendered_for_the_agent(kind: Kind) -> None:
    async with bench(kind, [NO_REPLY], custom_section="Be brief.") as b:
        await b.turn()

        [prompt] = _prompts(b.model.requests[0])
        assert prompt.startswith("You are Scribe, notes.")
        assert prompt.endswith("## Developer Instructions\n\nBe brief.")


@EACH
async def test_the_prompt_can_be_replaced(kind: Kind) -> None:
    async with bench(kind, [NO_REPLY], system_prompt="Only this.") as b:
        await b.turn()

        assert _prompts(b.model.requests[0]) == ["Only this."]


def _prompts(request: dict[str, Any]) -> list[str]:
    system = request.get("system", [])
    system = [{"text": system}] if isinstance(system, str) else system
    roles = [m["content"] for m in request["messages"] if m["role"] in ("system", "developer")]
    return [block["text"] for block in system] + roles


@EACH
async def test_filters_decide_what_is_offered(kind: Kind) -> None:
    async with bench(kind, [NO_REPLY], include_tools=["band_no_reply"]) as b:
        await b.turn()

        [tool] = b.model.requests[0]["tools"]
        assert tool.get("name", tool.get("function", {}).get("name")) == "band_no_reply"


@EACH
async def test_without_tools_none_are_sent(kind: Kind) -> None:
    async with bench(kind, [DONE], include_tools=[], relay_final_text=True) as b:
        assert (await b.turn()).record == "processed"
        assert not b.model.requests[0].get("tools")


@EACH
async def test_tools_of_the_application(kind: Kind) -> None:
    async def stock(item: str) -> dict[str, Any]:
        """Tell how many pieces are left."""
        await trio.lowlevel.checkpoint()
        return {"left": {"bolts": 3}[item]}

    script = [ToolsTurn((ToolTurn("stock", {"item": "bolts"}), ToolTurn("stock", {"item": "x"})))]
    options = {"additional_tools": [stock], "include_tools": ["band_no_reply"]}
    async with bench(kind, [*script, NO_REPLY], **options) as b:
        assert (await b.turn()).record == "processed"

        [(left, _), (problem, _)] = results(b.last)
        assert json.loads(left) == {"left": 3}
        assert "Error executing stock" in problem
        assert "Traceback" not in problem
        assert len(b.model.requests[0]["tools"]) == 2


@case("C20")
@EACH
async def test_a_tool_of_the_application_may_take_only_so_long(kind: Kind) -> None:
    async def forever() -> None:
        await trio.sleep_forever()

    options = {"additional_tools": [forever], "tool_timeout": 0.02}
    async with bench(kind, [ToolTurn("forever"), NO_REPLY], **options) as b:
        assert (await b.turn()).record == "processed"
        assert "Error executing forever" in results(b.last)[0][0]


@EACH
async def test_the_contact_hub_gets_its_tools(kind: Kind) -> None:
    async with bench(kind, [NO_REPLY]) as b:
        b.tools._hub_room_id = b.tools.room_id
        await b.turn()

        assert "band_respond_contact_request" in str(b.model.requests[0]["tools"])
        assert "## Contacts" in _prompts(b.model.requests[0])[0]


@EACH
async def test_all_capabilities_and_both_events_are_supported(kind: Kind) -> None:
    async with bench(kind, capabilities=list(Capability), emit=["tool_calls", "usage"]) as b:
        assert len(b.adapter.features.capabilities) == 4


# --------------------------------------------------------------------------- opening, closing


@EACH
async def test_a_turn_needs_an_open_client(kind: Kind) -> None:
    async with kind.open(ScriptedModel()) as server:
        adapter = kind.make(server)
        result = await run_turn(adapter, make_message("hi", sender_id="u1"), make_tools(adapter))

        assert isinstance(result.error, RuntimeError)
        assert "run its `serve`" in str(result.error)


@EACH
async def test_without_a_key_nothing_starts(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    async with kind.open(ScriptedModel()) as server:
        adapter = kind.make(server, provider_key=None, base_url=None)

        with pytest.raises(BandConfigError, match=r"(?i)key"):
            await adapter.serve()


# --------------------------------------------------------------------------- any history


@case("C38")
@given(histories, st.integers(1, 8), st.lists(st.sampled_from(["[System]: x", "y"]), max_size=2))
def test_any_history_gives_a_request_that_obeys_the_rules(
    raw: list[Any], limit: int, updates: list[str]
) -> None:
    """Converted, with the newest message behind it, and cut to any length."""
    server = ScriptedServer(ScriptedModel(), "http://127.0.0.1:1")
    for kind, broken in zip(KINDS, (broken_openai_rule, broken_anthropic_rule), strict=False):
        adapter = kind.make(server, max_history=limit)
        assert adapter.history_converter is not None
        messages = adapter.history_converter.convert(raw)
        for text in (*updates, "[Maria]: now"):
            adapter.add_user_text(messages, text)
        sent = adapter._trimmed(messages)

        assert broken({"messages": sent, "max_tokens": 1}) is None
        assert len(sent) <= limit
        assert "[Maria]: now" in str(sent[-1])

"""Scripted models speak HTTP as the providers do, and insist on the same rules."""

from __future__ import annotations

from typing import Any

import httpx  # noqa: ASYNC127 - a client that knows nothing of the providers
import pytest
import trio

from band_trio.testing import (
    CutTurn,
    ErrorTurn,
    RawTurn,
    RefusalTurn,
    ScriptedModel,
    ScriptedServer,
    ScriptOverError,
    TextTurn,
    ToolsTurn,
    ToolTurn,
    open_scripted_anthropic,
    open_scripted_openai,
)
from band_trio.testing.model_rules import broken_anthropic_rule, broken_openai_rule
from band_trio.testing.scripted_http import HttpAnswer, HttpRequest, open_http
from tests.support.for_each import for_each

OPENERS = pytest.mark.parametrize(
    ("opener", "path"),
    [(open_scripted_openai, "/chat/completions"), (open_scripted_anthropic, "/v1/messages")],
    ids=["openai", "anthropic"],
)
BODY = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


async def post(server: ScriptedServer, path: str, body: Any = BODY, **headers: str) -> Any:
    headers = {"authorization": f"Bearer {server.api_key}", **headers}
    async with httpx.AsyncClient(base_url=server.base_url) as client:
        return await client.post(path, json=body, headers=headers)


@OPENERS
async def test_answers_come_in_the_order_of_the_script(opener: Any, path: str) -> None:
    model = ScriptedModel([TextTurn("one"), ErrorTurn(status=429, retry_after=1.5)])
    async with opener(model) as server:
        first, second = await post(server, path), await post(server, path)
        third = await post(server, path)

    assert (first.status_code, second.status_code, third.status_code) == (200, 429, 400)
    assert "one" in first.text
    assert second.headers["retry-after"] == "1.5"
    assert "no answer left" in third.text
    assert len(model.requests) == 3


@OPENERS
async def test_a_connection_is_used_again(opener: Any, path: str) -> None:
    model = ScriptedModel(lambda _: TextTurn("x"))
    async with opener(model) as server:
        headers = {"x-api-key": server.api_key}
        async with httpx.AsyncClient(base_url=server.base_url, headers=headers) as client:
            streams = {
                (await client.post(path, json=BODY))
                .extensions["network_stream"]
                .get_extra_info("client_addr")
                for _ in range(3)
            }

    assert len(streams) == 1
    assert len(model.requests) == 3


@OPENERS
async def test_wrong_requests_are_refused(opener: Any, path: str) -> None:
    async with opener(ScriptedModel()) as server:
        assert (await post(server, path, authorization="Bearer wrong")).status_code == 401
        lower = f"bearer {server.api_key}"
        stream = {**BODY, "stream": True}
        assert (await post(server, path, stream, authorization=lower)).status_code == 400
        assert (await post(server, "/elsewhere")).status_code == 404
        assert (await post(server, path, stream)).status_code == 400
        assert (await post(server, path, {**BODY, "messages": []})).status_code == 400
        assert (await post(server, path, {"model": "m"})).status_code == 400

        assert len(server.model.violations) == 2


@OPENERS
async def test_a_cut_answer_breaks_off(opener: Any, path: str) -> None:
    async with opener(ScriptedModel([CutTurn(), TextTurn("x")])) as server:
        with pytest.raises(httpx.RemoteProtocolError):
            await post(server, path)
        assert (await post(server, path)).status_code == 200


async def test_a_client_that_leaves_ends_its_answer() -> None:
    ended = trio.Event()

    async def slow(_: HttpRequest) -> HttpAnswer:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async with open_http(slow) as port, httpx.AsyncClient() as client:
        with trio.move_on_after(0.05):
            await client.get(f"http://127.0.0.1:{port}")
        with trio.fail_after(5):
            await ended.wait()


@OPENERS
async def test_bodies_of_ones_own(opener: Any, path: str) -> None:
    turn = RawTurn(b"<p>busy", 502, "text/html")
    async with opener(ScriptedModel([turn])) as server:
        answer = await post(server, path)

    assert (answer.status_code, answer.text) == (502, "<p>busy")
    assert answer.headers["content-type"] == "text/html"


def test_without_http() -> None:
    model = ScriptedModel([RefusalTurn(), ErrorTurn(OSError("x")), ErrorTurn(message="y")])
    model.push(ToolsTurn([ToolTurn("a")]))

    assert model.answer({"n": 1}) == RefusalTurn()
    with pytest.raises(OSError, match="x"):
        model.answer({})
    with pytest.raises(RuntimeError, match="y"):
        model.answer({})
    assert model.remaining == 1
    assert model.answer({}) == ToolsTurn((ToolTurn("a"),))
    with pytest.raises(ScriptOverError):
        model.answer({})
    assert model.requests == [{"n": 1}, {}, {}, {}, {}]


# --------------------------------------------------------------------------- the rules

USER = {"role": "user", "content": "hi"}


def _calls(*ids: str, arguments: str = "{}", name: str = "t") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    calls = [{"id": each, "type": "function", "function": function} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _tool(call_id: str, content: Any = "x") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


@for_each(
    ("messages", "rule"),
    [
        ([USER, _calls("1", "2"), _tool("2"), _tool("1"), USER], None),
        ([{"role": "system", "content": "s"}, USER], None),
        ([], "first must be the user"),
        ([{"role": "assistant", "content": "x"}], "first must be the user"),
        ([USER, USER], "adjacent"),
        ([USER, {"role": "assistant", "content": ""}], "empty content"),
        ([USER, _calls("1")], "no tool messages for"),
        ([USER, _calls("1"), USER], "must be followed by tool messages"),
        ([USER, _calls("1", "2"), _tool("1"), USER], "must be followed by tool messages"),
        ([USER, _tool("1")], "must be a response to a preceding message"),
        ([USER, _calls("1"), _tool("1"), _tool("1")], "must be a response to a preceding message"),
        ([USER, _calls("1", "1"), _tool("1")], "must be unique"),
        ([USER, _calls("1", arguments="[]"), _tool("1")], "must be a JSON object"),
        ([USER, _calls("1", name="a b"), _tool("1")], "bad name"),
        ([USER, _calls("1"), _tool("1", None)], "content must be text"),
        ([{"role": "user"}], "malformed"),
    ],
)
def test_rules_of_chat_completions(messages: list[Any], rule: str | None) -> None:
    broken = broken_openai_rule({"messages": messages})

    assert (rule is None and broken is None) or (rule and rule in (broken or ""))


def _use(*ids: str, **more: Any) -> dict[str, Any]:
    uses = [{"type": "tool_use", "id": i, "name": "t", "input": {}, **more} for i in ids]
    return {"role": "assistant", "content": uses}


def _result(*ids: str, after: bool = False) -> dict[str, Any]:
    text = {"type": "text", "text": "and"}
    results: list[Any] = [{"type": "tool_result", "tool_use_id": i, "content": "x"} for i in ids]
    return {"role": "user", "content": [text, *results] if after else [*results, text]}


@for_each(
    ("messages", "rule"),
    [
        ([USER, _use("1", "2"), _result("2", "1")], None),
        ([], "at least one"),
        ([{"role": "assistant", "content": "x"}], "must alternate"),
        ([USER, USER], "must alternate"),
        ([{"role": "user", "content": []}], "non-empty content"),
        ([{"role": "user", "content": " "}], "non-whitespace"),
        ([USER, _use("1")], "without `tool_result`"),
        ([USER, _use("1"), USER], "without `tool_result` blocks immediately after"),
        ([USER, _use("1"), _result("1", "1")], "unexpected `tool_use_id`"),
        ([_result("1")], "unexpected `tool_use_id`"),
        ([USER, _use("1"), _result("1", after=True)], "come first"),
        ([USER, _use("1", "1"), _result("1", "1")], "must be unique"),
        ([USER, _use("1"), _result("1"), _use("1"), _result("1")], "must be unique"),
        ([USER, _use("1", input=[]), _result("1")], "must be an object"),
        ([USER, _use("1", name=""), _result("1")], "bad name"),
    ],
)
def test_rules_of_messages(messages: list[Any], rule: str | None) -> None:
    broken = broken_anthropic_rule({"messages": messages, "max_tokens": 1})

    assert (rule is None and broken is None) or (rule and rule in (broken or ""))


def test_tools_and_limits_have_rules_too() -> None:
    one = {"function": {"name": "a"}}
    assert "unique" in str(broken_openai_rule({"messages": [USER], "tools": [one, one]}))
    assert "empty" in str(broken_openai_rule({"messages": [USER], "tools": []}))
    assert "max_tokens" in str(broken_anthropic_rule({"messages": [USER]}))

"""Raw history items, random histories, and the documented rules of each provider as checks."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

Item = dict[str, Any]


def said(content: str, *, by: str = "Maria", kind: str = "User") -> Item:
    """A text of somebody else."""
    return {
        "role": "user",
        "content": content,
        "sender_name": by,
        "sender_type": kind,
        "message_type": "text",
    }


def own(content: str) -> Item:
    """A text of the agent itself."""
    return {**said(content, by="Scribe", kind="Agent"), "role": "assistant"}


def called(name: str, call_id: str, **args: Any) -> Item:
    content = json.dumps({"name": name, "args": args, "tool_call_id": call_id})
    return {**own(content), "message_type": "tool_call"}


def returned(name: str, call_id: str, output: Any = "done", **more: Any) -> Item:
    row = {"name": name, "output": output, "tool_call_id": call_id, **more}
    return {**own(json.dumps(row)), "message_type": "tool_result"}


# --------------------------------------------------------------------------- random histories

_NAMES = st.sampled_from(["band_send_message", "search", "mcp__band__band_send_message", "a b/ü"])
_IDS = st.sampled_from(["1", "2", "3"])
_TEXTS = st.sampled_from(["hello", "@maria hello", "yes", "[System]: obey", " ", "\u200b", "é\n[x"])
_ARGS = st.one_of(
    st.fixed_dictionaries({"content": _TEXTS}),
    st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=5), max_size=2),
)


def _event(kind: str, row: Any) -> Item:
    return {**own(json.dumps(row)), "message_type": kind}


_CALLS = st.builds(
    lambda name, args, i: _event("tool_call", {"name": name, "args": args, "tool_call_id": i}),
    _NAMES, _ARGS | st.integers(), _IDS,
)  # fmt: skip
_RESULTS = st.builds(
    lambda name, out, i, bad: _event(
        "tool_result", {"name": name, "output": out, "tool_call_id": i, "is_error": bad}
    ),
    _NAMES, st.text(max_size=5) | st.dictionaries(st.text(max_size=2), st.none()), _IDS,
    st.booleans() | st.none(),
)  # fmt: skip
_OTHERS = st.builds(
    lambda kind, content, role: {**said(content), "message_type": kind, "role": role},
    st.sampled_from(["thought", "error", "task", "usage", "tool_call", "tool_result", "new"]),
    st.text(max_size=5) | st.sampled_from(["[]", "{}", "null", '{"name": "", "tool_call_id": 1}']),
    st.sampled_from(["user", "assistant"]),
)
_JUNK = st.one_of(
    st.none(),
    st.dictionaries(
        st.sampled_from(["role", "content", "message_type", "sender_name", "sender_type"]),
        st.none() | st.integers() | st.text(max_size=3) | st.sampled_from(["assistant", "text"]),
        max_size=5,
    ),
)

items = st.one_of(
    st.builds(said, _TEXTS | st.text(max_size=6), by=st.text(max_size=4)),
    st.builds(own, _TEXTS | st.text(max_size=6)),
    _CALLS, _CALLS, _RESULTS, _RESULTS, _OTHERS, _JUNK,
)  # fmt: skip
histories = st.lists(items, max_size=14)


# --------------------------------------------------------------------------- the rules


def check_openai(messages: list[Item]) -> None:
    """Chat completions: each call is answered directly, by one `tool` message."""
    if messages and messages[0]["role"] == "system":
        messages = messages[1:]
    assert not messages or messages[0]["role"] == "user"
    open_calls: list[str] = []
    before = ""
    seen: set[str] = set()
    for message in messages:
        role = message["role"]
        if role == "tool":
            assert message["tool_call_id"] in open_calls, "a result without a call, or a second one"
            open_calls.remove(message["tool_call_id"])
            assert isinstance(message["content"], str)
        else:
            assert not open_calls, "a call is not followed by its result"
            assert role != before, "adjacent messages of one role"
            calls = message.get("tool_calls") or []
            assert calls or message["content"].strip()
            open_calls = [call["id"] for call in calls]
            assert len(set(open_calls)) == len(open_calls)
            assert not seen & set(open_calls)
            seen |= set(open_calls)
            for call in calls:
                assert role == "assistant"
                check_name(call["function"]["name"])
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
        before = role
    assert not open_calls
    json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()


def check_anthropic(messages: list[Item]) -> None:
    """Messages: roles alternate; results are the first blocks after the message with the calls."""
    open_uses: list[str] = []
    seen: set[str] = set()
    for number, message in enumerate(messages):
        assert message["role"] == ("user" if number % 2 == 0 else "assistant")
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        assert blocks
        kinds = [block["type"] for block in blocks]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert sorted(results) == sorted(open_uses), "not exactly one result for each call"
        assert kinds[: len(results)] == ["tool_result"] * len(results), "results come first"
        open_uses = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert not seen & set(open_uses)
        assert len(set(open_uses)) == len(open_uses)
        seen |= set(open_uses)
        for block in blocks:
            _check_block(block, message["role"])
    assert not open_uses
    json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()


def _check_block(block: Item, role: str) -> None:
    if block["type"] == "text":
        assert block["text"].strip()
    elif block["type"] == "tool_use":
        assert role == "assistant"
        check_name(block["name"])
        assert isinstance(block["input"], dict)
    else:
        assert (block["type"], role) == ("tool_result", "user")


def check_name(name: str) -> None:
    assert 1 <= len(name) <= 64
    assert all(char.isascii() and (char.isalnum() or char in "_-") for char in name)

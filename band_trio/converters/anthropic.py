"""The messages of Anthropic's API."""

from __future__ import annotations

from typing import Any

from band_trio.converters.exchanges import AssistantText, Exchange, UserText, build_exchanges
from band_trio.converters.plain import joined

AnthropicMessage = dict[str, Any]
Block = dict[str, Any]


class AnthropicHistoryConverter:
    """History for the messages API.

    Roles alternate and the first is a user's. The results of a message's calls are the first
    blocks of the next one; texts follow them.
    """

    def convert(self, raw: list[dict[str, Any]]) -> list[AnthropicMessage]:
        """Return the messages of *raw*, oldest first."""
        messages: list[AnthropicMessage] = []
        for entry in build_exchanges(raw):
            if isinstance(entry, UserText):
                add_blocks(messages, "user", [text_block(entry.line)])
            elif isinstance(entry, AssistantText):
                add_blocks(messages, "assistant", [text_block(entry.text)])
            else:
                _add_exchange(messages, entry)
        return messages


def _add_exchange(messages: list[AnthropicMessage], exchange: Exchange) -> None:
    uses = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.args}
        for call in exchange.calls
    ]
    add_blocks(messages, "assistant", uses)
    results = [
        result_block(call.id, result.output, is_error=result.is_error)
        for call, result in zip(exchange.calls, exchange.results, strict=True)
    ]
    add_blocks(messages, "user", results)


def add_blocks(messages: list[AnthropicMessage], role: str, blocks: list[Block]) -> None:
    """Append *blocks* to *messages*, to the last one where that has the same role.

    Never changes a message that is in the list already. A text after a text joins it.
    """
    if not messages or messages[-1]["role"] != role:
        messages.append({"role": role, "content": blocks})
        return
    earlier: list[Block] = messages[-1]["content"]
    if _is_text(earlier[-1]) and _is_text(blocks[0]):
        text = joined(role, earlier[-1]["text"], blocks[0]["text"])
        earlier, blocks = earlier[:-1], [text_block(text), *blocks[1:]]
    messages[-1] = {"role": role, "content": [*earlier, *blocks]}


def _is_text(block: Block) -> bool:
    # Blocks with more than their text, such as citations, are left as they are.
    return block.keys() == {"type", "text"}


def text_block(text: str) -> Block:
    """Return a block of text."""
    return {"type": "text", "text": text}


def result_block(call_id: str, content: str | list[Block], *, is_error: bool) -> Block:
    """Return the block that answers one call."""
    block: Block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return {**block, "is_error": True} if is_error else block

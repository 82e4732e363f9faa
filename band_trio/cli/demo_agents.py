"""The three agents of the demo: rules instead of models, so that no key is needed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import trio

from band_trio.adapters import RuleAdapter, call_tool
from band_trio.cli.transcript import Transcript
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.types import HistoryProvider, PlatformMessage

CLERK: Final = "Clerk"
GUIDE: Final = "Guide"
POLLY: Final = "Polly"
DESCRIPTIONS: Final = {
    CLERK: "Does sums, one step after the other.",
    GUIDE: "Knows who can help with what, and asks them.",
    POLLY: "Translates into French.",
}

SUM_SECONDS: Final = 0.5
STEP_SECONDS: Final = 0.35
COUNT_SECONDS: Final = 0.4
"""Per number that is counted."""
PHRASES: Final = {"good morning": "bonjour", "thank you": "merci"}


class DemoAdapter(RuleAdapter):
    """Rules whose tool calls are shown."""

    def __init__(self, name: str, transcript: Transcript) -> None:
        super().__init__()
        self._name = name
        self._transcript = transcript

    async def on_message(
        self,
        msg: PlatformMessage,
        tools: AgentToolsProtocol,
        history: HistoryProvider,
        participants_msg: str | None,
        contacts_msg: str | None,
        *,
        is_session_bootstrap: bool,
        room_id: str,
    ) -> None:
        """Run the rules with tools that write what is called."""
        await super().on_message(
            msg,
            self._transcript.tools(self._name, tools),
            history,
            participants_msg,
            contacts_msg,
            is_session_bootstrap=is_session_bootstrap,
            room_id=room_id,
        )


def clerk(transcript: Transcript) -> DemoAdapter:
    """Make the agent that does sums, slowly enough to be watched."""
    rules = DemoAdapter(CLERK, transcript)

    @rules.on(r"(\d+) times (\d+)")
    async def multiply(
        msg: PlatformMessage, tools: AgentToolsProtocol, match: re.Match[str]
    ) -> str:
        await trio.sleep(SUM_SECONDS)
        return f"{match[1]} times {match[2]} is {int(match[1]) * int(match[2])}."

    @rules.on(r"(\d+) divided by (\d+)")
    async def divide(msg: PlatformMessage, tools: AgentToolsProtocol, match: re.Match[str]) -> str:
        await trio.sleep(SUM_SECONDS)
        return f"That is {int(match[1]) // int(match[2])}."

    @rules.on(r"step (\d+)")
    async def step(msg: PlatformMessage, tools: AgentToolsProtocol, match: re.Match[str]) -> str:
        await trio.sleep(STEP_SECONDS)
        return f"Step {match[1]} is done."

    @rules.on(r"count to (\d+)")
    async def count(msg: PlatformMessage, tools: AgentToolsProtocol, match: re.Match[str]) -> str:
        numbers = range(1, int(match[1]) + 1)
        for _ in numbers:
            await trio.sleep(COUNT_SECONDS)
        return ", ".join(map(str, numbers))

    return rules


def guide(transcript: Transcript) -> DemoAdapter:
    """Make the agent that finds the one who can help, brings it in and passes the work on."""
    rules = DemoAdapter(GUIDE, transcript)
    asked_by: dict[str, str] = {}

    @rules.on(r"what is '(.+)' in French")
    async def delegate(
        msg: PlatformMessage, tools: AgentToolsProtocol, match: re.Match[str]
    ) -> None:
        asked_by[msg.room_id] = msg.sender_id
        found: dict[str, Any] = await call_tool(tools, "band_lookup_peers", page_size=20)
        peer = next(p for p in found["data"] if "French" in (p.get("description") or ""))
        await call_tool(tools, "band_add_participant", identifier=peer["id"])
        await call_tool(
            tools, "band_send_message", content=f"Translate: {match[1]}", mentions=[peer["id"]]
        )

    @rules.on(r"^It is '(.+)'")
    async def report(msg: PlatformMessage, tools: AgentToolsProtocol, match: re.Match[str]) -> None:
        content = f"{msg.sender_name} says: {match[1]}."
        mentions = [asked_by.pop(msg.room_id, msg.sender_id)]
        await call_tool(tools, "band_send_message", content=content, mentions=mentions)

    return rules


def polly(transcript: Transcript) -> DemoAdapter:
    """Make the agent that translates."""
    rules = DemoAdapter(POLLY, transcript)

    @rules.on(r"translate: (.+)")
    async def translate(
        msg: PlatformMessage, tools: AgentToolsProtocol, match: re.Match[str]
    ) -> str:
        await trio.sleep(SUM_SECONDS)
        return f"It is '{PHRASES.get(match[1].lower(), 'unknown')}'."

    return rules


MAKERS: Final[dict[str, Callable[[Transcript], DemoAdapter]]] = {
    CLERK: clerk,
    GUIDE: guide,
    POLLY: polly,
}

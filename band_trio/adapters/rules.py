"""`RuleAdapter`: functions by pattern. Needs no key and no model."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar, Unpack

from band_trio.adapters.base import SimpleAdapter
from band_trio.adapters.calls import call_tool
from band_trio.errors import BandConfigError
from band_trio.tools.conversation import strip_leading_mentions
from band_trio.tools.definitions import BandTool
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.types import FeatureKwargs, HistoryProvider, PlatformMessage

Rule = Callable[[PlatformMessage, AgentToolsProtocol, re.Match[str]], Awaitable[str | None]]
"""Handles a message that its pattern matches. Text that it returns is sent to the sender."""
Fallback = Callable[[PlatformMessage, AgentToolsProtocol], Awaitable[str | None]]
"""Handles a message that no pattern matches."""

R = TypeVar("R", bound=Rule)


class RuleAdapter(SimpleAdapter[HistoryProvider]):
    """Calls the function of the first pattern found in a message.

    ```python
    rules = RuleAdapter()

    @rules.on(r"^add (?P<a>[0-9]+) (?P<b>[0-9]+)")
    async def add(msg, tools, match):
        return str(int(match["a"]) + int(match["b"]))
    ```

    A rule may return text, which is sent to whoever wrote, or use the tools itself and return
    None. Patterns are searched in the text without its leading mentions, in any case. A message
    that no pattern matches goes to *fallback*; without one it is declined.
    """

    def __init__(
        self,
        rules: Iterable[tuple[str | re.Pattern[str], Rule]] = (),
        *,
        fallback: Fallback | None = None,
        **features: Unpack[FeatureKwargs],
    ) -> None:
        super().__init__(**features)
        self._rules: list[tuple[re.Pattern[str], Rule]] = []
        self._fallback = fallback
        for pattern, rule in rules:
            self._add(pattern, rule)

    def on(self, pattern: str | re.Pattern[str]) -> Callable[[R], R]:
        """Register the decorated async function for *pattern*.

        Raises:
            BandConfigError: the pattern is no regular expression, or the function is not async.
        """

        def register(rule: R) -> R:
            self._add(pattern, rule)
            return rule

        return register

    def _add(self, pattern: str | re.Pattern[str], rule: Rule) -> None:
        if not inspect.iscoroutinefunction(rule):
            name = getattr(rule, "__name__", repr(rule))
            raise BandConfigError(f"The rule {name} must be an `async def` function.")
        try:
            compiled = re.compile(pattern, re.IGNORECASE) if isinstance(pattern, str) else pattern
        except re.error as exc:
            raise BandConfigError(f"{pattern!r} is no regular expression: {exc}.") from None
        self._rules.append((compiled, rule))

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
        """Run the first rule that matches, and send what it returns."""
        text = strip_leading_mentions(msg.content)
        for pattern, rule in self._rules:
            match = pattern.search(text)
            if match:
                await self._send(await rule(msg, tools, match), msg, tools)
                return
        if self._fallback is not None:
            await self._send(await self._fallback(msg, tools), msg, tools)
        else:
            await call_tool(tools, BandTool.NO_REPLY, reason="no rule matches this message")

    async def _send(
        self, text: str | None, msg: PlatformMessage, tools: AgentToolsProtocol
    ) -> None:
        if text is not None:
            await call_tool(tools, BandTool.SEND_MESSAGE, content=text, mentions=[msg.sender_id])

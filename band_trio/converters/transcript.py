"""The room as one text, for command-line agents and frameworks with a memory of their own."""

from __future__ import annotations

from typing import Any

from band_trio.converters.exchanges import Exchange, UserText, build_exchanges
from band_trio.types import speaker_line


class TranscriptConverter:
    """History as lines `[label]: text`, our own under the agent's name.

    Tool calls are left out, or, with *show_calls*, told by a line each.
    """

    def __init__(self, *, show_calls: bool = False) -> None:
        self.agent_name = "Agent"
        """The label of our own lines."""
        self.show_calls = show_calls

    def set_agent_name(self, name: str) -> None:
        """Take the name under which the agent's own lines appear."""
        self.agent_name = name or "Agent"

    def convert(self, raw: list[dict[str, Any]]) -> str:
        """Return the transcript of *raw*; empty where nothing was said."""
        lines: list[str] = []
        for entry in build_exchanges(raw):
            if isinstance(entry, UserText):
                lines.append(entry.line)
            elif isinstance(entry, Exchange):
                lines += self._calls(entry) if self.show_calls else []
            else:
                lines.append(speaker_line(self.agent_name, entry.text))
        return "\n".join(lines)

    def _calls(self, exchange: Exchange) -> list[str]:
        return [
            f"({self.agent_name} called {call.name}: {'failed' if result.is_error else 'done'})"
            for call, result in zip(exchange.calls, exchange.results, strict=True)
        ]

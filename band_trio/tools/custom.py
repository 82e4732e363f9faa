"""Custom tools: functions of the application, offered to the model beside the platform's tools.

A custom tool is a function, whose annotated parameters are its arguments, or a pair of an
arguments class and a function. Sync functions run in worker threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import attrs

from band_trio.errors import BandConfigError
from band_trio.features import CustomToolDef
from band_trio.tools.custom_shape import CustomTool, read_custom_tool
from band_trio.tools.definitions import (
    HUMAN_TOOL_NAMES,
    MCP_TOOL_PREFIX,
    OLD_SEND_MESSAGE,
    SERVER_PREFIX,
    BandTool,
)
from band_trio.tools.results import is_failed_result
from band_trio.tools.schemas import copied, in_format, known_format
from band_trio.types import TurnEffect, TurnLedger

__all__ = [
    "CustomTool",
    "CustomToolDef",
    "CustomTools",
    "custom_tool_effects",
    "custom_tools_to_schemas",
    "declares_turn_effect",
    "execute_custom_tool",
    "find_custom_tool",
    "get_custom_tool_name",
    "invoke_validated_custom_tool",
    "reject_conflicting_tool_names",
]

H = TypeVar("H", bound=Callable[..., Any])

_TAKEN: Final = frozenset(BandTool) | HUMAN_TOOL_NAMES | {OLD_SEND_MESSAGE}
_PREFIXES: Final = (MCP_TOOL_PREFIX, SERVER_PREFIX)


def declares_turn_effect(effect: TurnEffect) -> Callable[[H], H]:
    """Declare what a successful call of the decorated function means for the turn.

    Without it a custom tool observes: it never completes a turn.
    """

    def declare(handler: H) -> H:
        handler.band_effect = TurnEffect(effect)  # type: ignore[attr-defined]
        return handler

    return declare


@attrs.frozen(eq=False)
class CustomTools:
    """The custom tools of an adapter, read once. Make it with `CustomTools.of`."""

    tools: dict[str, CustomTool] = attrs.field(factory=dict)
    timeout: float | None = None
    """Longest time of one call, in seconds; None for none."""

    @classmethod
    def of(cls, tools: Iterable[CustomToolDef], *, timeout: float | None = None) -> CustomTools:
        """Read *tools* in order.

        Raises:
            BandConfigError: one cannot be used, a name is taken or comes twice, or *timeout* is
                not above 0.
        """
        if callable(tools) or not isinstance(tools, Iterable):
            raise BandConfigError("custom tools must be a sequence of tools, not one alone")
        if timeout is not None and not timeout > 0:
            raise BandConfigError(f"tool_timeout must be above 0 seconds, not {timeout!r}.")
        found: dict[str, CustomTool] = {}
        for tool in map(read_custom_tool, tools):
            if tool.name in found:
                raise BandConfigError(f"two custom tools have the name {tool.name!r}.")
            _check_name(tool.name)
            found[tool.name] = tool
        return cls(found, timeout)

    def __bool__(self) -> bool:
        return bool(self.tools)

    def find(self, name: str) -> CustomTool | None:
        """Return the tool of that exact name."""
        return self.tools.get(name)

    def schemas(self, format: str) -> list[dict[str, Any]]:  # noqa: A002 - the public word
        """Return the schemas in a provider's format; the caller may change them.

        Raises:
            ValueError: *format* is neither `openai` nor `anthropic`.
        """
        known_format(format)
        return [
            in_format(format, tool.name, tool.description, copied(tool.schema))
            for tool in self.tools.values()
        ]


def _check_name(name: str) -> None:
    plain = name.lower()
    for prefix in _PREFIXES:
        plain = plain.removeprefix(prefix)
    if plain in _TAKEN:
        raise BandConfigError(
            f"a custom tool cannot have the name {name!r}: it is that of a platform tool."
        )


# --------------------------------------------------------------------------- one at a time


def reject_conflicting_tool_names(tools: Iterable[CustomToolDef]) -> None:
    """Check that *tools* can be offered together with the platform's.

    Raises:
        BandConfigError: a name is that of a platform tool, comes twice, or is not possible.
    """
    CustomTools.of(tools)


def get_custom_tool_name(tool: CustomToolDef) -> str:
    """Return the name under which a custom tool is offered. Errors: see `CustomTools.of`."""
    return read_custom_tool(tool).name


def find_custom_tool(tools: Sequence[CustomToolDef], name: str) -> CustomToolDef | None:
    """Return the custom tool of that exact name."""
    return next((tool for tool in tools if get_custom_tool_name(tool) == name), None)


def custom_tool_effects(tools: Iterable[CustomToolDef]) -> dict[str, TurnEffect]:
    """Return what a successful call of each tool means, by name."""
    return {tool.name: tool.effect for tool in map(read_custom_tool, tools)}


def custom_tools_to_schemas(
    tools: Iterable[CustomToolDef],
    format: str,  # noqa: A002 - the public word
) -> list[dict[str, Any]]:
    """Return the schemas of *tools* in a provider's format. Errors: see `CustomTools`."""
    return CustomTools.of(tools).schemas(format)


async def execute_custom_tool(tool: CustomToolDef, args: Any, *, turn: TurnLedger) -> Any:
    """Run a custom tool with what a model gave as arguments; return what it returns.

    Its effect is recorded on *turn*, unless it returns a failure.

    Raises:
        InvalidToolArgumentsError: the arguments do not fit.
        Exception: whatever the function raises.
    """
    read = read_custom_tool(tool)
    return await _recorded(read, read.model.read(read.name, args), turn)


async def invoke_validated_custom_tool(
    tool: CustomToolDef, instance: Any, *, turn: TurnLedger
) -> Any:
    """Run a custom tool with an instance of its arguments class; see `execute_custom_tool`."""
    return await _recorded(read_custom_tool(tool), instance, turn)


async def _recorded(tool: CustomTool, instance: Any, turn: TurnLedger) -> Any:
    output = await tool.run(instance)
    if not is_failed_result(output):
        turn.record(tool.effect)
    return output

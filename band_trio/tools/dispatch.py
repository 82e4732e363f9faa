"""Calls by name, as models make them: offered, validated, run once, and answered in words."""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import Any, Final

import attrs
import trio

from band_trio import texts
from band_trio.config.keywords import answers_keywords
from band_trio.errors import (
    BandToolError,
    InvalidToolArgumentsError,
    RoomExecutionStoppedError,
)
from band_trio.tools.arguments import method_arguments, validate_tool_arguments
from band_trio.tools.catalogue import (
    TOOL_DEFINITIONS,
    checked_members,
    iter_tool_definitions,
    selected_tool_definitions,
)
from band_trio.tools.core import ToolCore
from band_trio.tools.custom import CustomTool, CustomTools
from band_trio.tools.definitions import Surface, ToolDefinition
from band_trio.tools.flights import FlightLostError
from band_trio.tools.results import (
    explain,
    explain_custom,
    is_failed_result,
    json_safe_result,
    serialize_tool_result,
    tool_result_text,
)
from band_trio.tools.schemas import render_schemas
from band_trio.types import Capabilities, Capability, ToolCallOutcome, ToolFormat, TurnEffect

_log: Final = logging.getLogger(__name__)


class Dispatch(ToolCore):
    """Schemas for a model, and the execution of what it calls."""

    # ----------------------------------------------------------------- what is offered

    def tool_definitions(self, *, capabilities: Capabilities = None) -> list[ToolDefinition]:
        """Return the tools that may be offered here, in order.

        Without *capabilities* those of the adapter's features count, its filters included; tools
        without features offer the chat tools.

        Raises:
            BandConfigError: a capability is unknown.
        """
        if capabilities is not None or self.features is None:
            opened = frozenset(checked_members(capabilities, Capability, "capabilities"))
            if self.is_hub_room:
                opened |= {Capability.CONTACTS}
            return iter_tool_definitions(capabilities=opened)
        return list(selected_tool_definitions(self.features, is_hub_room=self.is_hub_room))

    @property
    def tool_models(self) -> dict[str, type[attrs.AttrsInstance]]:
        """Argument classes of the tools that may be offered here, by name."""
        return {row.name: row.input_model for row in self.tool_definitions()}

    def get_tool_schemas(
        self,
        format: ToolFormat,  # noqa: A002 - the public word
        *,
        capabilities: Capabilities = None,
    ) -> list[dict[str, Any]]:
        """Return the schemas of `tool_definitions`, then of the custom tools, for a provider.

        Raises:
            ValueError: *format* is neither `openai` nor `anthropic`.
        """
        platform = render_schemas(format, self.tool_definitions(capabilities=capabilities))
        return platform + self.custom_tools.schemas(format)

    def use_custom_tools(self, tools: CustomTools) -> None:
        """Offer *tools* in this turn as well; the adapter's part, before its model is asked."""
        self.custom_tools = tools

    def get_openai_tool_schemas(self, *, capabilities: Capabilities = None) -> list[dict[str, Any]]:
        """Return the schemas for OpenAI-compatible providers."""
        return self.get_tool_schemas("openai", capabilities=capabilities)

    def get_anthropic_tool_schemas(
        self, *, capabilities: Capabilities = None
    ) -> list[dict[str, Any]]:
        """Return the schemas for Anthropic."""
        return self.get_tool_schemas("anthropic", capabilities=capabilities)

    # ----------------------------------------------------------------- what is called

    @answers_keywords
    async def execute_tool_call(self, name: str, args: Any, *, call_id: str | None = None) -> Any:
        """Run the tool *name* and return its result, or the text of what went wrong.

        See `execute_tool_call_structured`, which tells the two apart.
        """
        outcome = await self.execute_tool_call_structured(name, args, call_id=call_id)
        return outcome.value

    @answers_keywords
    async def execute_tool_call_structured(
        self, name: str, args: Any, *, call_id: str | None = None
    ) -> ToolCallOutcome:
        """Run the tool *name* with what a model gave as arguments.

        Every failure becomes an outcome with `ok=False` and a text that a model can act on. With
        *call_id* a repeated call does not run again: it waits for the first and gets its outcome.

        Raises:
            RoomExecutionStoppedError: the agent is stopped in this room; the turn is over.
        """
        row = self._callable_tool(name)
        custom = self.custom_tools.find(name) if row is None else None
        if row is not None:
            effect, run = row.effect, partial(self._execute, row, args)
        elif custom is not None:
            effect, run = custom.effect, partial(self._execute_custom, custom, args)
        else:
            return _failed(texts.unknown_tool(name))
        if call_id is None:
            return await run()
        try:
            return await self._calls.run(call_id, run)
        except FlightLostError:
            if effect is not TurnEffect.OBSERVE or custom is not None:
                return _failed(texts.tool_failed(name, texts.CALL_MAY_HAVE_WORKED))
            self._calls.forget(call_id)  # it changes nothing: the repetition may do it
            return await self.execute_tool_call_structured(name, args, call_id=call_id)

    def _callable_tool(self, name: str) -> ToolDefinition | None:
        """Return the tool of that exact name, unless it is withheld here."""
        row = TOOL_DEFINITIONS.get(name)
        if row is None or row.surface is not Surface.AGENT:
            return None
        if self.features is None:
            return row
        offered = selected_tool_definitions(self.features, is_hub_room=self.is_hub_room)
        return row if row in offered else None

    async def _execute(self, row: ToolDefinition, args: Any) -> ToolCallOutcome:
        try:
            instance = validate_tool_arguments(row.name, row.input_model, args)
        except InvalidToolArgumentsError as exc:
            return _failed(str(exc))
        _log.debug("room %s: tool %s called", self.room_id, row.name)
        try:
            result = await getattr(self, row.method_name)(**method_arguments(instance))
        except RoomExecutionStoppedError:
            raise
        except Exception as exc:  # noqa: BLE001 - one channel for errors: the model is told
            _log.info("room %s: tool %s failed: %s", self.room_id, row.name, type(exc).__name__)
            return _failed(explain(row.name, exc, self.rest.secrets))
        return ToolCallOutcome(serialize_tool_result(result), ok=True)

    async def _execute_custom(self, tool: CustomTool, args: Any) -> ToolCallOutcome:
        seconds = self.custom_tools.timeout
        try:
            instance = tool.model.read(tool.name, args)
            self.turn.check_open()
            _log.debug("room %s: custom tool %s called", self.room_id, tool.name)
            with trio.move_on_after(math.inf if seconds is None else seconds) as scope:
                output = await tool.run(instance)
            if scope.cancelled_caught:
                return _failed(texts.tool_failed(tool.name, texts.tool_timed_out(seconds or 0)))
        except InvalidToolArgumentsError as exc:
            return _failed(str(exc))
        except RoomExecutionStoppedError:
            raise
        except Exception as exc:  # noqa: BLE001 - the application's code: the model is told
            _log.info("room %s: tool %s failed: %s", self.room_id, tool.name, type(exc).__name__)
            return _failed(explain_custom(tool.name, exc, self.rest.secrets))
        failed = is_failed_result(output)
        if not failed:
            self.turn.record(tool.effect)
        try:
            value = json_safe_result(output)
        except BandToolError as exc:
            return _failed(texts.tool_failed(tool.name, texts.result_unshown(str(exc))))
        if failed:
            return ToolCallOutcome(value, ok=False, error_message=tool_result_text(value))
        return ToolCallOutcome(value, ok=True)


def _failed(text: str) -> ToolCallOutcome:
    return ToolCallOutcome(text, ok=False, error_message=text)


def succeeded(outcome: ToolCallOutcome) -> Any:
    """Return the value of an outcome.

    Raises:
        BandToolError: the call failed.
    """
    if not outcome.ok:
        raise BandToolError(outcome.error_message or str(outcome.value))
    return outcome.value

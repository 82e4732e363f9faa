"""Room tools as an MCP server registers them: a name, a schema, and a function to call."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from band_trio import texts
from band_trio.errors import BandConfigError
from band_trio.features import CustomToolDef
from band_trio.mcp.turns import call_in_turn, failed
from band_trio.tools.arguments import given_object
from band_trio.tools.custom import CustomTools
from band_trio.tools.definitions import ID, BandTool, ToolDefinition
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.tools.schemas import render_schemas
from band_trio.types import ToolCallOutcome

GetTools = Callable[[str | None], AgentToolsProtocol | None]
"""Room id → the tools of its current turn, None where there is none; see `OpenTurns.get`."""

CHAT_ID: Final = "chat_id"
CHAT_ID_ALIAS: Final = "room_id"
CHAT_ID_CHARS: Final = 255

_ROOM_SCHEMA: Final = {"type": "string", "description": texts.MCP_CHAT_ID}
_ID: Final = re.compile(ID)


@attrs.frozen(eq=False)
class MCPToolRegistration:
    """One tool of a server."""

    name: str
    description: str
    input_schema: dict[str, Any]
    execute: Callable[[Any, str | None], Awaitable[ToolCallOutcome]] = attrs.field(repr=False)
    """Arguments, and the room where the connection names it → outcome; never raises errors."""


def build_mcp_registrations(
    get_tools: GetTools,
    definitions: Iterable[ToolDefinition],
    additional_tools: Sequence[CustomToolDef] = (),
    *,
    room_from_connection: bool = False,
) -> list[MCPToolRegistration]:
    """Return what a server offers: platform tools by *definitions*, then custom tools.

    A tool that acts in a room needs a `chat_id`, unless the connection names the room
    (*room_from_connection*). Effects land on the room's turn; a room without one gets an error.
    *get_tools* gives the tools of a room's turn; custom tools must be known to them as well, as
    they are to those of an adapter with the same `additional_tools`.

    Raises:
        BandConfigError: two tools have one name, or a custom tool has a `chat_id` of its own.
    """
    rows = list(definitions)
    custom = CustomTools.of(additional_tools)
    in_room = {row.name for row in rows if row.room_bound or row.name == BandTool.NO_REPLY}
    in_room |= custom.tools.keys()
    registrations: dict[str, MCPToolRegistration] = {}
    for schema in render_schemas("anthropic", rows) + custom.schemas("anthropic"):
        name, parameters = schema["name"], schema["input_schema"]
        if name in registrations:
            raise BandConfigError(f"two tools have the name {name!r}.")
        room: Room
        if room_from_connection:
            room = _from_connection
        elif name in in_room:
            _add_chat_id(name, parameters)
            room = _from_arguments
        else:
            room = _no_room
        execute = _executor(name, get_tools, room)
        registrations[name] = MCPToolRegistration(name, schema["description"], parameters, execute)
    return list(registrations.values())


def _add_chat_id(name: str, schema: dict[str, Any]) -> None:
    own = schema.setdefault("properties", {})
    if CHAT_ID in own or CHAT_ID_ALIAS in own:
        raise BandConfigError(f"custom tool {name!r}: the arguments chat_id and room_id are taken.")
    schema["properties"] = {CHAT_ID: dict(_ROOM_SCHEMA), **own}
    schema["required"] = [CHAT_ID, *schema.get("required", ())]


# --------------------------------------------------------------------------- calls

Room = Callable[[dict[str, Any], str | None], str | None]
"""Arguments, from which its own are removed, and the connection's room → the room of a call."""


def _from_arguments(values: dict[str, Any], _: str | None) -> str | None:
    alias = values.pop(CHAT_ID_ALIAS, None)
    room_id = values.pop(CHAT_ID, alias)
    if room_id is None:
        raise ValueError(f"{CHAT_ID}: is required")
    return _checked(room_id)


def _from_connection(_: dict[str, Any], connected: str | None) -> str | None:
    if connected is None:
        raise ValueError("this server serves connections of rooms only")
    return _checked(connected)


def _no_room(_: dict[str, Any], __: str | None) -> str | None:
    return None


def _checked(room_id: object) -> str:
    if not isinstance(room_id, str) or len(room_id) > CHAT_ID_CHARS or not _ID.fullmatch(room_id):
        raise ValueError(f"{CHAT_ID}: must be the id of a room")
    return room_id


def _executor(
    name: str, get_tools: GetTools, room: Room
) -> Callable[[Any, str | None], Awaitable[ToolCallOutcome]]:
    async def execute(
        arguments: Mapping[str, Any] | None, connected: str | None
    ) -> ToolCallOutcome:
        try:
            values = given_object(arguments, [CHAT_ID])
            room_id = room(values, connected)
        except (ValueError, TypeError) as exc:
            return failed(texts.invalid_arguments(name, str(exc)))
        tools = get_tools(room_id)
        if tools is None:
            return failed(texts.tool_failed(name, texts.MCP_NO_TURN))
        return await call_in_turn(tools, name, values)

    return execute

"""What an asyncio framework is given of a turn: texts, and the room's tools as its own functions.

Everything here is used on the asyncio loop. Tools run in trio, in a nursery of the turn, so that
limits, effects, events and cancellation are those of a native turn.
"""

from __future__ import annotations

import contextvars
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from itertools import count
from keyword import iskeyword
from typing import Annotated, Any, Final, Generic, Literal, ParamSpec, TypeVar, Union

import attrs

from band_trio.adapters.asyncio_host import HostCall
from band_trio.adapters.prompts import repeat_notice, with_system_updates
from band_trio.errors import TurnClosedError
from band_trio.tools.narration import execute_narrated, output_text
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.types import Emit, PlatformMessage, ToolCallOutcome, TurnUsage

H = TypeVar("H")
P = ParamSpec("P")
T = TypeVar("T")

_turn: Final[contextvars.ContextVar[BridgedTurn[Any] | None]] = contextvars.ContextVar(
    "band_trio_turn", default=None
)


def current_turn() -> BridgedTurn[Any]:
    """Return the turn that the running asyncio code belongs to.

    For framework objects that all rooms share, such as tools that are made once.

    Raises:
        TurnClosedError: it runs outside a turn.
    """
    turn = _turn.get()
    if turn is None:
        raise TurnClosedError("There is no turn here: this code was not started by one.")
    return turn


@attrs.frozen(eq=False)
class BridgedTool:
    """A tool of the room for an asyncio framework: `await tool(content=…, mentions=[…])`.

    Frameworks that take a JSON Schema get `name`, `description` and `parameters`; those that read
    signatures get `as_function`.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments."""
    _run: Callable[[str, Any, str | None], Coroutine[Any, Any, ToolCallOutcome]]

    async def __call__(self, /, **arguments: Any) -> str:
        """Run the tool and return the text that a model reads, also where it failed.

        Raises:
            TurnClosedError: the turn is over.
            RoomExecutionStoppedError: the agent is stopped in this room.
        """
        return output_text((await self.call(arguments)).value)

    async def call(self, arguments: Any, *, call_id: str | None = None) -> ToolCallOutcome:
        """Run the tool with a model's *arguments*, an object or its JSON text.

        With *call_id* a repeated call does not run again: it gets the outcome of the first.
        """
        return await self._run(self.name, arguments, call_id)

    def as_function(self) -> Callable[..., Coroutine[Any, Any, str]]:
        """Return the tool as a plain async function with name, docstring and annotations.

        Frameworks that build on pydantic show a model the schema of `parameters` and pass what it
        sends unchecked: the tool itself repairs and checks it, as in every other adapter.
        An argument whose name Python does not allow, such as `from`, is called `from_`.
        """

        given: Mapping[str, Any] = self.parameters.get("properties", {})
        names = _python_names(given)
        own_names = {names[name]: name for name in given}

        async def function(**arguments: Any) -> str:
            return await self(**{own_names.get(key, key): each for key, each in arguments.items()})

        properties = {names[name]: schema for name, schema in given.items()}
        required = {names[name] for name in self.parameters.get("required", ()) if name in names}
        parameters = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=Annotated[_annotation(schema), Unchecked(dict(schema))],
                default=inspect.Parameter.empty if name in required else schema.get("default"),
            )
            for name, schema in properties.items()
        ]
        signature = inspect.Signature(parameters, return_annotation=str)
        function.__name__ = function.__qualname__ = self.name
        function.__doc__ = _docstring(self.description, properties)
        function.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": str}
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function


@attrs.frozen
class Unchecked:
    """Beside a type in `Annotated`: pydantic takes any value, and shows *schema* for it.

    Pydantic calls these two methods (its documentation, Custom types); it is not imported.
    """

    schema: dict[str, Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> dict[str, Any]:
        return {"type": "any"}

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return dict(self.schema)


_JSON_TYPES: Final[dict[str, Any]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "object": dict[str, Any],
    "null": None,
}


def _python_names(names: Collection[str]) -> dict[str, str]:
    """Return the names of arguments, each with the one that a parameter can have instead."""
    possible = {name: name for name in names if name.isidentifier() and not iskeyword(name)}
    for name in names:
        if name in possible:
            continue
        # Pydantic takes no fields that begin with an underscore.
        other = re.sub(r"\W", "_", name, flags=re.ASCII).lstrip("_")
        other = other if other.isidentifier() else f"arg_{other}"
        while iskeyword(other) or other in possible.values():
            other += "_"
        possible[name] = other
    return possible


def _annotation(schema: Mapping[str, Any]) -> Any:
    """Return the Python type of a JSON Schema, as far as frameworks read it."""
    if schema.get("enum"):
        return Literal[tuple(schema["enum"])]
    if "anyOf" in schema:
        return Union[tuple(_annotation(each) for each in schema["anyOf"])]  # noqa: UP007 - dynamic
    if schema.get("type") == "array":
        return list[_annotation(schema.get("items", {}))]  # type: ignore[misc]
    return _JSON_TYPES.get(str(schema.get("type")), Any)


def _docstring(description: str, properties: Mapping[str, Any]) -> str:
    lines = [description]
    if properties:
        lines += ["", "Args:"]
        lines += [f"    {name}: {each.get('description', '')}" for name, each in properties.items()]
    return "\n".join(lines)


@attrs.define(eq=False, kw_only=True)
class BridgedTurn(Generic[H]):
    """One message, and what is needed to handle it, on the asyncio side."""

    msg: PlatformMessage
    room_id: str
    history: H
    """What was said before, where `is_session_bootstrap`; later it is empty. From `attempt` 2 on
    also what the agent itself has said since the message."""
    is_session_bootstrap: bool
    """No turn of this room was completed yet, as far as this process knows."""
    participants_msg: str | None
    contacts_msg: str | None
    attempt: int = 1
    """Which run of this message it is; from 2 on it may be answered already, and `prompt` says so."""
    system_prompt: str
    state: Any = None
    """What the adapter's `lifespan` has yielded."""
    memory: dict[str, Any] = attrs.field(factory=dict, repr=False)
    """For what the handler keeps of the room, such as messages of its framework: from turn to turn,
    also of one that is cut off, until the agent leaves the room. Where `is_session_bootstrap` it is
    empty: `history` has what was said."""
    usage: TurnUsage = attrs.field(factory=TurnUsage)
    """Tokens used; set it or add to it, and it is posted where the adapter emits usage."""
    _call: HostCall = attrs.field(repr=False)
    _tools: AgentToolsProtocol = attrs.field(repr=False)
    _emit: frozenset[Emit] = attrs.field(repr=False)
    _numbers: count[int] = attrs.field(factory=lambda: count(1), init=False, repr=False)
    tools: tuple[BridgedTool, ...] = attrs.field(init=False, repr=False)
    """The tools that may be offered to the model here: the platform's and custom ones."""

    def __attrs_post_init__(self) -> None:
        run = self._call.hop(self._run_tool)
        self.tools = tuple(
            BridgedTool(each["name"], each["description"], each["input_schema"], run)
            for each in self._tools.get_tool_schemas("anthropic")
        )

    @property
    def prompt(self) -> str:
        """The message as a model reads it: who says it, news about the room before it."""
        return with_system_updates(
            self.msg.format_for_llm(),
            self.participants_msg,
            self.contacts_msg,
            repeat_notice(self.attempt, self._tools.features),
        )

    @property
    def replied(self) -> bool:
        """Whether something was said in this turn, or declined to be said."""
        return self._tools.turn.replied

    def tool(self, name: str) -> BridgedTool:
        """Return the tool *name*.

        Raises:
            KeyError: there is none, or it is withheld here.
        """
        for each in self.tools:
            if each.name == name:
                return each
        raise KeyError(name)

    def hop(self, fn: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        """Return a trio function as an asyncio function; see `HostCall.hop`."""
        return self._call.hop(fn)

    async def settle(self) -> None:
        """Declare the turn complete although nothing was said."""

        async def settle() -> None:  # noqa: ASYNC124 - what crosses over is async
            self._tools.turn.settle()

        await self._call.hop(settle)()

    def enter(self) -> None:
        """Make this the `current_turn` of the running task and of what it begins."""
        _turn.set(self)

    async def _run_tool(self, name: str, arguments: Any, call_id: str | None) -> ToolCallOutcome:
        """Run a tool as a native turn does, events around it included; on trio."""
        if Emit.TOOL_CALLS not in self._emit:
            return await self._tools.execute_tool_call_structured(name, arguments, call_id=call_id)
        shown_id = call_id or f"call_{self.msg.id}_{next(self._numbers)}"
        return await execute_narrated(
            self._tools, name, arguments, shown_id=shown_id, call_id=call_id
        )

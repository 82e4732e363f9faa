"""What happens at an embedded platform, as lines for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

import attrs
import trio

from band_trio.entry.console import Console, Style
from band_trio.localband import LocalBand
from band_trio.localband.push import Push
from band_trio.protocol.codec import dumps
from band_trio.protocol.events import split_topic
from band_trio.tools.conversation import replace_uuid_mentions, strip_leading_mentions
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.trace import EpochBegan, EpochEnded, TraceEvent
from band_trio.types import ToolCallOutcome

SHOWN_CHARS: Final = 28
"""How much of a message names it in a line about its state."""
ARGUMENT_CHARS: Final = 90


def short(text: str, limit: int = SHOWN_CHARS) -> str:
    """Return *text* on one line, cut to *limit* characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


@attrs.define(eq=False)
class Transcript:
    """Writes a line for each event of *band*; `follow` begins it."""

    band: LocalBand
    console: Console
    _began: float = attrs.field(factory=trio.current_time, init=False)
    _states: dict[tuple[str, str], str] = attrs.field(factory=dict, init=False)
    _working: set[tuple[str, str]] = attrs.field(factory=set, init=False)
    _uuid: re.Pattern[str] = attrs.field(
        default=re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}"), init=False
    )

    def follow(self) -> None:
        """Begin to write."""
        self.band.watch(self._see)

    def title(self, text: str) -> None:
        """Write a headline."""
        self.console.line()
        self.console.line(f"== {text}", Style.TITLE)

    def line(self, where: str, text: str, style: Style = Style.PLAIN) -> None:
        """Write what happened, with time and room."""
        elapsed = trio.current_time() - self._began
        self.console.line(f"{elapsed:6.2f}  {where:<8}{text}", style)

    # ------------------------------------------------------------------ names

    def _name(self, party_id: str) -> str:
        party = self.band.world.parties.get(party_id)
        return party.name if party is not None else party_id

    def _room(self, room_id: str) -> str:
        room = self.band.world.rooms.get(room_id)
        return short((room.title if room is not None else None) or room_id, 7)

    def text(self, content: str) -> str:
        people = [{"id": p.id, "handle": p.handle} for p in self.band.world.parties.values()]
        return replace_uuid_mentions(strip_leading_mentions(content), people)

    def _readable(self, arguments: Any) -> str:
        """Return JSON with names where it has ids."""
        text = dumps(arguments) if not isinstance(arguments, str) else arguments.encode()
        named = self._uuid.sub(lambda found: self._name(found[0]), text.decode())
        return short(named, ARGUMENT_CHARS)

    # ------------------------------------------------------------------ the platform's news

    def _see(self, push: Push) -> None:
        _, room_id = split_topic(push.topic)
        match push.event:
            case "message_created":
                self._message(room_id, push.payload)
            case "event_created":
                self._event(room_id, push.payload)
            case "message_updated":
                self._updated(room_id, push.payload)
            case "activity":
                self._activity(room_id, push.payload)
            case "participant_added" if push.payload["type"] == "Agent":
                text = f"  {push.payload['name']} joins the room"
                self.line(self._room(room_id), text, Style.NEWS)

    def _message(self, room_id: str, row: Mapping[str, Any]) -> None:
        to = ", ".join(mention["name"] for mention in row["metadata"]["mentions"])
        text = f"{row['sender_name']} → {to}: {self.text(row['content'])}"
        self.line(self._room(room_id), text, Style.MESSAGE)

    def _event(self, room_id: str, row: Mapping[str, Any]) -> None:
        text = f"  {row['sender_name']} posts an event, {row['message_type']}: {row['content']}"
        is_error = row["message_type"] == "error"
        self.line(self._room(room_id), text, Style.BAD if is_error else Style.STATE)

    def _updated(self, room_id: str, row: Mapping[str, Any]) -> None:
        for agent_id, delivery in row["metadata"].get("delivery_status", {}).items():
            key, state = (row["id"], agent_id), delivery["status"]
            if self._states.get(key) == state:
                continue
            self._states[key] = state
            error = delivery["attempts"][-1].get("error") if state == "failed" else None
            text = f"  {self._name(agent_id)}: {state} {short(self.text(row['content']))!r}"
            style = Style.BAD if error else Style.STATE
            self.line(self._room(room_id), text + (f", {error}" if error else ""), style)

    def _activity(self, room_id: str, payload: Mapping[str, Any]) -> None:
        key = (room_id, payload["agent_id"])
        if payload["working"] == (key in self._working):
            return  # a refreshed indicator is no news
        (self._working.add if payload["working"] else self._working.discard)(key)
        word = "working …" if payload["working"] else "not working any more"
        self.line(self._room(room_id), f"  {self._name(key[1])}: {word}", Style.STATE)

    # ------------------------------------------------------------------ the agents' own news

    def connection(self, agent: str, event: TraceEvent) -> None:
        """Write what the observer of *agent* sees of its connection."""
        if isinstance(event, EpochBegan):
            again = f" again (connection {event.number})" if event.number > 1 else ""
            self.line("", f"{agent} is connected{again}", Style.NEWS)
        elif isinstance(event, EpochEnded):
            self.line("", f"{agent} is disconnected: {event.reason}", Style.NEWS)

    def tools(self, agent: str, tools: AgentToolsProtocol) -> AgentToolsProtocol:
        """Return *tools* that also write each call by name."""
        return cast("AgentToolsProtocol", _ShownTools(self, agent, tools))

    def called(self, agent: str, tools: AgentToolsProtocol, name: str, args: Any) -> None:
        """Write a tool call."""
        text = f"  {agent} calls {name} {self._readable(args)}"
        self.line(self._room(tools.room_id), text, Style.TOOL)

    def answered(self, agent: str, tools: AgentToolsProtocol, outcome: ToolCallOutcome) -> None:
        """Write what a tool call came to."""
        value = _names(outcome.value) if outcome.ok else f"error: {outcome.error_message}"
        text = f"  {agent} gets {self._readable(value)}"
        self.line(self._room(tools.room_id), text, Style.TOOL if outcome.ok else Style.BAD)


def _names(value: Any) -> Any:
    """Return the names in a list of people; anything else as it is."""
    rows = value.get("data") if isinstance(value, Mapping) else None
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        return value
    return "; ".join(f"{row.get('name')}: {row.get('description')}" for row in rows)


@attrs.define(eq=False)
class _ShownTools:
    """The tools of a turn; calls by name are shown, everything else is passed through."""

    _transcript: Transcript
    _agent: str
    _tools: AgentToolsProtocol

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tools, name)

    async def execute_tool_call_structured(
        self, name: str, args: Any, *, call_id: str | None = None
    ) -> ToolCallOutcome:
        """Call a tool and write the call and its result."""
        transcript, agent = self._transcript, self._agent
        transcript.called(agent, self._tools, name, args)
        outcome = await self._tools.execute_tool_call_structured(name, args, call_id=call_id)
        if name not in _SEEN_ANYWAY:
            transcript.answered(agent, self._tools, outcome)
        return outcome


_SEEN_ANYWAY: Final = frozenset({"band_send_message", "band_add_participant"})
"""Tools whose effect is a line of its own."""

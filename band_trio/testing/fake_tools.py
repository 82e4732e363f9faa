"""`FakeAgentTools`: the real tools over a room in memory, with records, faults and waiting.

Only the platform is faked. Validation, mention rules, effects, texts and schemas are those of
`AgentTools`, because this is a subclass of it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, Final

import attrs
import trio

from band_trio import texts
from band_trio.errors import MentionError
from band_trio.protocol.rest import Mention
from band_trio.protocol.structure import unstructure
from band_trio.testing.fake_room import FakeRoom, read_context, read_participants, read_peers
from band_trio.tools.agent_tools import AgentTools
from band_trio.tools.catalogue import TOOL_DEFINITIONS
from band_trio.tools.mentions import (
    append_mention_handles_hint,
    bare_handle,
    clean_mention,
    mention_entries,
    mention_text,
    to_send,
)
from band_trio.tools.sending import Mentions
from band_trio.tools.turn import Turn
from band_trio.types import AdapterFeatures, ToolCallOutcome, TurnEffect

_KINDS: Final = ("message", "notice")


class FakeAgentTools(AgentTools):
    """The tools of one turn in a room in memory.

    ```python
    tools = FakeAgentTools(participants=[{"id": "u1", "handle": "maria"}], agent_id="me")
    result = await run_turn(MyAdapter(), make_message("hello", sender_id="u1"), tools)
    tools.assert_message_sent(content="hello yourself", mentions=["u1"])
    ```

    Without *participants* every mention is accepted. Faults: set `send_message_error`,
    `send_event_error` or an entry of `tool_errors` to an exception to raise.
    """

    def __init__(
        self,
        *,
        participants: Iterable[Mapping[str, Any]] | None = None,
        peers: Iterable[Mapping[str, Any]] | None = None,
        room_id: str = "room-fake",
        hub_room_id: str | None = None,
        room_context: Iterable[Mapping[str, Any]] | None = None,
        agent_id: str | None = None,
        features: AdapterFeatures | None = None,
        turn: Turn | None = None,
    ) -> None:
        """Take the seeds.

        Raises:
            BandConfigError: a seed is unusable.
        """
        people = read_participants(participants)
        self.room = FakeRoom(people, read_peers(peers), read_context(room_context), self._note)
        """The room itself."""
        super().__init__(
            room_id,
            self.room,
            [unstructure(person) for person in people or ()],
            hub_room_id=hub_room_id,
            agent_id=agent_id,
            features=features,
            turn=turn,
        )
        self.messages_sent: list[dict[str, Any]] = []
        """Messages and notices: `id`, `content`, `mentions` as they were given."""
        self.tool_calls: list[dict[str, Any]] = []
        """Calls by name: `tool_name`, `arguments`."""
        self.posts: list[dict[str, Any]] = []
        """Everything posted, in order: `kind` (message, notice, event, failure) and its fields."""
        self.tool_errors: dict[str, Exception] = {}
        """Tool name → exception that its next calls raise."""
        self._holds: list[MessageHold] = []
        self._changed = trio.Event()

    # ----------------------------------------------------------------- records

    @property
    def events_sent(self) -> list[dict[str, Any]]:
        """Events and failures: `id`, `content`, `message_type`, `metadata`."""
        return self.room.events

    @property
    def participants_added(self) -> list[dict[str, Any]]:
        """Who was added: `id`, `name`, `role`."""
        return self.room.added

    @property
    def participants_removed(self) -> list[dict[str, Any]]:
        """Who was removed: `id`, `name`."""
        return self.room.removed

    @property
    def context_calls(self) -> list[dict[str, Any]]:
        """Reads of the room's context: `room_id`, `cursor`, `limit`."""
        return self.room.context_calls

    @property
    def chat(self) -> list[str]:
        """What was said: the contents of messages and notices."""
        return [message["content"] for message in self.messages_sent]

    def set_room_context(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Replace what `fetch_room_context` returns."""
        self.room.context = read_context(rows)

    def append_room_context(self, row: Mapping[str, Any]) -> None:
        """Add a row to what `fetch_room_context` returns."""
        self.room.context += read_context([row], start=len(self.room.context) + 1)

    # ----------------------------------------------------------------- faults

    @property
    def send_message_error(self) -> Exception | None:
        """What the platform answers to every message; None for success."""
        return self.room.message_error

    @send_message_error.setter
    def send_message_error(self, error: Exception | None) -> None:
        self.room.message_error = error

    @property
    def send_event_error(self) -> Exception | None:
        """What the platform answers to every event; None for success."""
        return self.room.event_error

    @send_event_error.setter
    def send_event_error(self, error: Exception | None) -> None:
        self.room.event_error = error

    def raise_tool_error(self, name: str) -> None:
        """Raise what `tool_errors` holds for a tool."""
        error = self.tool_errors.get(name)
        if error is not None:
            raise error

    # ----------------------------------------------------------------- waiting

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until *condition* holds; it is looked at again after everything that is recorded.

        Has no time limit of its own: the caller uses `trio.fail_after`.
        """
        await trio.lowlevel.checkpoint()
        while not condition():
            await self._changed.wait()

    async def until_said(self, fragment: str, *, times: int = 1) -> None:
        """Wait until *fragment* was said in that many messages."""
        await self.until(lambda: sum(fragment in content for content in self.chat) >= times)

    @asynccontextmanager
    async def hold_message(
        self, matching: str | Callable[[str], bool], *, error: Exception | None = None
    ) -> AsyncGenerator[MessageHold]:
        """Keep the next message that matches in flight, until released or the block is left.

        *matching* is a fragment of the content or a function of it. With *error* the released
        send fails with it. A held send that is cancelled leaves no trace.
        """
        matches = matching if callable(matching) else lambda content: matching in content
        hold = MessageHold(matches, error)
        self._holds.append(hold)
        try:
            yield hold
        finally:
            hold.release()
            if hold in self._holds:
                self._holds.remove(hold)

    def _note(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    # ----------------------------------------------------------------- the turn

    def begin_turn(self, *, judged: bool = True) -> Turn:
        """Begin a new turn if the last one is over; records stay. Return the open turn."""
        if self.turn.closed:
            fresh = AgentTools(self.room_id, self.room)
            self.turn, self._calls, self._sends = fresh.turn, fresh._calls, fresh._sends  # noqa: SLF001 - the base class
        self.turn.judged = judged
        return self.turn

    # ----------------------------------------------------------------- what differs

    async def execute_tool_call_structured(
        self, name: str, args: Any, *, call_id: str | None = None
    ) -> ToolCallOutcome:
        """Record the call, then do what the real tools do."""
        self.tool_calls.append({"tool_name": str(name), "arguments": args})
        self._note()
        return await super().execute_tool_call_structured(name, args, call_id=call_id)

    async def post_message(
        self,
        kind: str,
        content: str,
        people: Sequence[Mention],
        attachment_ids: Sequence[str],
        deadline: float,
        effect: TurnEffect,
    ) -> dict[str, Any]:
        """Post as the real tools do, after a hold, and record it."""
        for hold in self._holds:
            if not hold.taken and hold.matches(content):
                await hold.pass_through()
                break
        receipt = await super().post_message(
            kind, content, people, attachment_ids, deadline, effect
        )
        given = getattr(people, "given", [person.id for person in people])
        message = {"id": receipt["id"], "content": content, "mentions": given}
        self.messages_sent.append(message)
        shown = {"recipients": receipt["recipients"], "attachment_ids": list(attachment_ids)}
        self.posts.append({"kind": kind, **message, **shown})
        self._note()
        return receipt

    async def _post_event(
        self, kind: str, content: str, message_type: str, metadata: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        receipt = await super()._post_event(kind, content, message_type, metadata)
        self.posts.append({"kind": kind, **self.room.events[-1]})
        self._note()
        return receipt

    async def _resolve(self, mentions: Mentions, deadline: float) -> list[Mention]:
        given = mention_entries(mentions)
        if self.room.participants is not None:
            return _Resolved(await super()._resolve(mentions, deadline), given)
        try:
            people = [_unchecked(entry) for entry in given]
            return _Resolved(to_send(people, self.agent_id), given)
        except MentionError as exc:
            raise append_mention_handles_hint(exc, []) from None

    # ----------------------------------------------------------------- assertions

    def assert_message_sent(
        self,
        *,
        content: str | None = None,
        mentions: Sequence[str] | None = None,
        count: int | None = None,
    ) -> None:
        """Check that a message was sent: with that content, to those people, that many times.

        *mentions* match as they were given, as ids, or as handles.
        """
        hits = [
            post
            for post in self.posts
            if post["kind"] in _KINDS
            and (content is None or post["content"] == content)
            and (mentions is None or _addressed(post, mentions))
        ]
        if not hits if count is None else len(hits) != count:
            raise AssertionError(
                f"{count if count is not None else 'at least one'} message(s) with content="
                f"{content!r}, mentions={mentions!r} expected; sent: {self.messages_sent}"
            )

    def assert_event_sent(
        self, *, message_type: str | None = None, count: int | None = None
    ) -> None:
        """Check that an event was posted: of that type, that many times."""
        hits = [e for e in self.events_sent if message_type in (None, e["message_type"])]
        if not hits if count is None else len(hits) != count:
            raise AssertionError(
                f"{count if count is not None else 'at least one'} event(s) of type "
                f"{message_type!r} expected; posted: {self.events_sent}"
            )

    def assert_no_messages_sent(self) -> None:
        """Check that nothing was said."""
        if self.messages_sent:
            raise AssertionError(f"no message expected; sent: {self.messages_sent}")


class _Resolved(list[Mention]):
    """Resolved mentions that remember how they were given."""

    def __init__(self, people: Iterable[Mention], given: list[Any]) -> None:
        super().__init__(people)
        self.given = given


def _unchecked(entry: Any) -> Mention:
    """Return whom an entry names in a room whose roster is not known."""
    text = mention_text(entry) if isinstance(entry, Mapping) else entry
    name = clean_mention(text) if isinstance(text, str) else ""
    if not name:
        raise MentionError(texts.empty_mention(entry))
    return Mention(name)


def _addressed(post: Mapping[str, Any], mentions: Sequence[str]) -> bool:
    ids = {person["id"] for person in post["recipients"]}
    handles = {bare_handle(person.get("handle")) for person in post["recipients"]} - {""}
    wanted = {bare_handle(each) for each in mentions}
    return list(mentions) == post["mentions"] or wanted in (ids, handles)


@attrs.define(eq=False)
class MessageHold:
    """A send that is kept in flight."""

    matches: Callable[[str], bool]
    error: Exception | None
    taken: bool = attrs.field(default=False, init=False)
    """Whether a send has reached it."""
    _reached: trio.Event = attrs.field(factory=trio.Event, init=False)
    _released: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def reached(self) -> None:
        """Wait until a matching send is in flight."""
        await self._reached.wait()

    def release(self) -> None:
        """Let it go on."""
        self._released.set()

    async def pass_through(self) -> None:
        """Hold the send that calls this."""
        self.taken = True
        self._reached.set()
        await self._released.wait()
        if self.error is not None:
            raise self.error


def _with_faults(name: str, method: Any) -> Any:
    @wraps(method)
    async def call(self: FakeAgentTools, /, *args: Any, **kwargs: Any) -> Any:
        self.turn.check_open()
        self.raise_tool_error(name)
        return await method(self, *args, **kwargs)

    return call


for _row in TOOL_DEFINITIONS.values():
    setattr(
        FakeAgentTools,
        _row.method_name,
        _with_faults(_row.name, getattr(AgentTools, _row.method_name)),
    )

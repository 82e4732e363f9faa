"""What a fake room has seen, as tests read it: records, state, waiting, assertions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import trio

from band_trio.protocol.structure import unstructure
from band_trio.testing.fake_room import FakeRoom
from band_trio.testing.seeds import read_context
from band_trio.tools.conversation import bare_handle

_KINDS: Final = ("message", "notice")


class FakeRecords:
    """The part of `FakeAgentTools` that only looks and waits."""

    room: FakeRoom
    """The room itself."""

    def __init__(self) -> None:
        self.messages_sent: list[dict[str, Any]] = []
        """Messages and notices: `id`, `content`, `mentions` as they were given."""
        self.tool_calls: list[dict[str, Any]] = []
        """Calls by name: `tool_name`, `arguments`."""
        self.posts: list[dict[str, Any]] = []
        """Everything posted, in order: `kind` (message, notice, event, failure) and its fields."""
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

    # ----------------------------------------------------------------- state

    @property
    def contacts(self) -> list[dict[str, Any]]:
        """The agent's contacts."""
        return _dicts(self.room.contacts)

    @property
    def received_contact_requests(self) -> list[dict[str, Any]]:
        """Requests of others, answered ones included."""
        return _dicts(self.room.received)

    @property
    def sent_contact_requests(self) -> list[dict[str, Any]]:
        """Requests of the agent, answered ones included."""
        return _dicts(self.room.sent)

    @property
    def memories(self) -> list[dict[str, Any]]:
        """What is stored, in every status."""
        return _dicts(self.room.all_memories())

    @property
    def memory_contents(self) -> list[str]:
        """The contents of `memories`."""
        return [memory.content or "" for memory in self.room.all_memories()]

    @property
    def files(self) -> list[dict[str, Any]]:
        """The files of the room."""
        return _dicts(self.room.all_files())

    @property
    def tasks(self) -> list[dict[str, Any]]:
        """The tasks of the room, in every state."""
        return _dicts(self.room.all_tasks())

    @property
    def board(self) -> dict[str, Any]:
        """The goal of the room; empty while none is set."""
        return unstructure(self.room.shown_board())

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


def _dicts(rows: Iterable[attrs.AttrsInstance]) -> list[dict[str, Any]]:
    return [unstructure(row) for row in rows]


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

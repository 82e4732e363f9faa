"""`FakeAgentTools`: the real tools over a room in memory, with records, faults and waiting.

Only the platform is faked. Validation, mention rules, effects, texts and schemas are those of
`AgentTools`, because this is a subclass of it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import trio

from band_trio import texts
from band_trio.errors import BandToolError, MentionError
from band_trio.features import CustomToolDef
from band_trio.protocol.holdings import Attachment
from band_trio.protocol.rest import Mention
from band_trio.protocol.structure import unstructure
from band_trio.testing.fake_files import file_store
from band_trio.testing.fake_memories import memory_store
from band_trio.testing.fake_records import FakeRecords
from band_trio.testing.fake_room import FakeRoom
from band_trio.testing.fake_tasks import room_tasks
from band_trio.testing.seeds import (
    FAKE_ACTOR,
    FAKE_ROOM,
    Seeds,
    read_board,
    read_contacts,
    read_context,
    read_files,
    read_memories,
    read_participants,
    read_peers,
    read_requests,
    read_tasks,
)
from band_trio.tools.agent_tools import AgentTools
from band_trio.tools.catalogue import TOOL_DEFINITIONS
from band_trio.tools.core import recorded
from band_trio.tools.definitions import ToolDefinition
from band_trio.tools.ledger import Ledger
from band_trio.tools.mentions import (
    append_mention_handles_hint,
    clean_mention,
    mention_entries,
    mention_text,
    to_send,
)
from band_trio.tools.sending import Mentions
from band_trio.types import AdapterFeatures, ToolCallOutcome, TurnEffect


class FakeAgentTools(FakeRecords, AgentTools):
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
        participants: Seeds = None,
        peers: Seeds = None,
        contacts: Seeds = None,
        room_id: str = FAKE_ROOM,
        hub_room_id: str | None = None,
        room_context: Seeds = None,
        memories: Seeds = None,
        files: Seeds = None,
        tasks: Seeds = None,
        board: Mapping[str, Any] | None = None,
        agent_id: str | None = None,
        received_contact_requests: Seeds = None,
        sent_contact_requests: Seeds = None,
        features: AdapterFeatures | None = None,
        custom_tools: Iterable[CustomToolDef] = (),
        turn: Ledger | None = None,
    ) -> None:
        """Take the seeds, dicts with the platform's own names; what is left out has a default.

        Raises:
            BandConfigError: a seed or a custom tool is unusable.
        """
        FakeRecords.__init__(self)
        people = read_participants(participants)
        self.room = FakeRoom(
            participants=people,
            peers=read_peers(peers),
            first_contacts=read_contacts(contacts),
            first_received=read_requests(received_contact_requests, "from"),
            first_sent=read_requests(sent_contact_requests, "to"),
            context=read_context(room_context),
            memory_store=memory_store(read_memories(memories), agent_id),
            memory_source=agent_id,
            file_store=file_store(read_files(files)),
            work=room_tasks(read_tasks(tasks), read_board(board)),
            task_actor=agent_id or FAKE_ACTOR,
            on_change=self._note,
        )
        AgentTools.__init__(
            self,
            room_id,
            self.room,
            [unstructure(person) for person in people or ()],
            hub_room_id=hub_room_id,
            agent_id=agent_id,
            features=features,
            turn=turn,
            custom_tools=custom_tools,
        )
        self.tool_errors: dict[str, Exception] = {}
        """Tool name → exception that its next calls raise."""
        self.in_any_room = room_id == FAKE_ROOM
        """Whether no room was given: then they follow each message into its own."""
        self._met: list[object] = []
        self._committed: list[tuple[object, str]] = []

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

    # ----------------------------------------------------------------- the turn

    def begin_turn(self, *, judged: bool = True, attempt: int = 1) -> Ledger:
        """Begin a new turn if the last one is over; records stay. Return the open turn."""
        if self.turn.closed:
            fresh = AgentTools(self.room_id, self.room)
            self.turn, self._calls, self._sends = fresh.turn, fresh._calls, fresh._sends  # noqa: SLF001 - the base class
        self.turn.judged, self.turn.attempt = judged, attempt
        return self.turn

    def meets(self, adapter: object) -> bool:
        """Tell whether *adapter* has its first turn with these tools now."""
        first = not any(each is adapter for each in self._met)
        self._met.append(adapter)
        return first

    def commit(self, adapter: object) -> None:
        """Note that *adapter* completed a turn of the room."""
        self._committed.append((adapter, self.room_id))

    def is_committed(self, adapter: object) -> bool:
        """Tell whether *adapter* completed a turn of the room."""
        return any(each is adapter and room == self.room_id for each, room in self._committed)

    @contextmanager
    def bound_to(self, features: AdapterFeatures | None) -> Generator[None]:
        """Offer what *features* leave, as the runtime does, unless the tools have features."""
        own = self.features
        self.features = features if own is None else own
        try:
            yield
        finally:
            self.features = own

    # ----------------------------------------------------------------- what differs

    async def execute_tool_call_structured(
        self, name: str, args: Any, *, call_id: str | None = None
    ) -> ToolCallOutcome:
        """Record the call, then do what the real tools do."""
        self.tool_calls.append({"tool_name": str(name), "arguments": args})
        self._note()
        return await super().execute_tool_call_structured(name, args, call_id=call_id)

    async def _post_message(
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
        receipt = await super()._post_message(
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

    async def list_room_files(self, cursor: str | None = None) -> dict[str, Any]:
        """List the files of the room, all at once: no message is needed for a file to be there."""
        await trio.lowlevel.checkpoint()
        return {"data": self.files}

    async def read_room_file(self, file_id: str) -> dict[str, Any]:
        """Describe a file: fake files have no bytes."""
        file = await self._find_file(file_id)
        shown = {"name": file.name, "content_type": file.content_type, "bytes": file.bytes}
        return {**shown, "description": "Not shown: a fake file has no content."}

    async def _find_file(self, file_id: str) -> Attachment:
        await trio.lowlevel.checkpoint()
        for file in self.room.all_files():
            if file.id == file_id:
                return file
        raise BandToolError(texts.NO_SUCH_FILE)

    async def _resolve(self, mentions: Mentions, deadline: float) -> list[Mention]:
        given = mention_entries(mentions)
        if self.room.participants is not None:
            return _Resolved(await super()._resolve(mentions, deadline), given)
        try:
            people = [_unchecked(entry) for entry in given]
            return _Resolved(to_send(people, self.agent_id), given)
        except MentionError as exc:
            raise append_mention_handles_hint(exc, []) from None


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


def _with_faults(name: str, method: Any) -> Any:
    @wraps(method)
    async def call(self: FakeAgentTools, /, *args: Any, **kwargs: Any) -> Any:
        self.turn.check_open()
        self.raise_tool_error(name)
        return await method(self, *args, **kwargs)

    return call


def _method(row: ToolDefinition) -> Any:
    own = vars(FakeAgentTools).get(row.method_name)
    return recorded(row, own) if own else getattr(AgentTools, row.method_name)


for _row in TOOL_DEFINITIONS.values():
    setattr(
        FakeAgentTools,
        _row.method_name,
        _with_faults(_row.name, _method(_row)),
    )

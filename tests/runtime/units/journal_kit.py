"""A journal, and the usual stories of a message told in one line."""

from __future__ import annotations

import math
from typing import Final

import attrs

from band_trio.config.agent import SessionConfig
from band_trio.kit.token_bucket import TokenBucket
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.journal.answers import ClaimOutcome, ClaimResult, MarkResult
from band_trio.runtime.journal.entries import Entry, Phase
from band_trio.runtime.journal.journal import Journal
from band_trio.runtime.journal.reads import Dirty, Paced, Reads
from band_trio.runtime.journal.todo import Run, Todo
from band_trio.runtime.journal.verdict import Fate, Verdict
from tests.runtime.rows import BEGAN, ME

SESSION: Final = SessionConfig(
    max_message_retries=3, retry_base_seconds=10, retry_cap_seconds=60, hold_seconds=30,
    refused_recheck_seconds=100, room_hints=4, room_unsettled=2,
)  # fmt: skip
FAILED: Final = Verdict(Fate.FAILED, error="e", plain_error="E")


def new_journal(session: SessionConfig) -> Journal:
    """Return the journal of a room that shares its pace with no other."""
    paces = (Paced(TokenBucket(math.inf)), Paced(TokenBucket(math.inf)))
    return Journal("room", ME, session, Reads(session, *paces))


def released(reason: str) -> Verdict:
    """Return the verdict of a turn that ends without a mark."""
    return Verdict(Fate.RELEASED, reason)


@attrs.define(eq=False)
class Kit:
    """A journal whose room has read its list and found nothing."""

    session: SessionConfig = SESSION
    now: float = 1000.0
    journal: Journal = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.journal = new_journal(self.session)
        self.journal.begin(self.now, joined=True)
        self.read()

    # ------------------------------------------------------------------ told

    def read(self, *rows: ChatMessage) -> list[Todo | None]:
        """Read a list of one page to its end; return what was to be done with each row."""
        self.journal.read_began(self.now)
        todos: list[Todo | None] = [self.journal.listed(each, self.now) for each in rows]
        self.journal.read_ended(self.journal.reads.epoch, self.now, BEGAN, found=any(todos))
        return todos

    def listed(self, message: ChatMessage) -> Todo | None:
        """A row of a list is looked at."""
        return self.journal.listed(message, self.now)

    def entry(self, message: ChatMessage) -> Entry:
        """Return what is known of a message; it is listed if that is nothing."""
        known = self.journal.entries.get(message.id)
        return (
            known if known is not None else self.journal.entries.see(message, message.delivery(ME))
        )

    def choose(self, message: ChatMessage) -> Entry:
        """The room begins with a message."""
        entry = self.entry(message)
        if entry.phase is not Phase.HELD:
            entry.take(message)
        assert self.journal.chosen(entry, self.now) is not None
        return entry

    def claims(self, message: ChatMessage, result: ClaimResult, told: float | None = None) -> Entry:
        """A message is claimed, and the claim has its answer."""
        entry = self.choose(message)
        self.journal.claim_answered(entry, ClaimOutcome(result, told), self.now)
        return entry

    def runs(self, message: ChatMessage) -> Entry:
        """A message is claimed, and its handler called."""
        entry = self.claims(message, ClaimResult.CLAIMED)
        self.journal.run_began(entry)
        return entry

    def ends(
        self,
        message: ChatMessage,
        verdict: Verdict,
        result: MarkResult | None = MarkResult.ACCEPTED,
    ) -> Entry:
        """A message is run to an end, and its mark, if there is one, has its answer."""
        entry = self.runs(message)
        self.journal.turn_ended(entry, verdict, self.now)
        if entry.mark is not None and result is not None:
            self.marks(entry, result)
        return entry

    def set_aside(self, message: ChatMessage) -> Entry:
        """A message has held the room up for long enough."""
        entry = self.claims(message, ClaimResult.LATER, told=1000.0)
        now, self.now = self.now, entry.hold_until
        self.next()
        self.now = now
        return entry

    def marks(self, entry: Entry, result: MarkResult, told: float = 0.0) -> None:
        """A try to tell the verdict has its answer."""
        assert entry.mark is not None
        entry.mark.tries += 1
        self.journal.mark_answered(entry, result, self.now, told=told)

    def wait(self) -> float:
        """Return for how long the held message waits."""
        assert self.journal.held is not None
        return self.journal.held.until - self.now

    def wait_held(self) -> Entry:
        """Wait until the held message is to be run."""
        assert self.journal.held is not None
        self.now = self.journal.held.until
        todo = self.next()
        assert isinstance(todo, Run), todo
        return todo.entry

    # ------------------------------------------------------------------ asked

    def next(self) -> Todo:
        """Ask what is to be done."""
        return self.journal.next(self.now)

    @property
    def dirty(self) -> Dirty:
        """Whether the list is to be read."""
        return self.journal.reads.dirty

    def phase(self, message_id: str) -> Phase | None:
        """Return where a message stands; None if it is not known."""
        entry = self.journal.entries.get(message_id)
        return entry.phase if entry is not None else None

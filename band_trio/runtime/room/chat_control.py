"""Chat controls: messages that an adapter may consume before they are claimed, also mid-turn.

For approvals and the like, said in the room itself. Only for adapters that bring their own
`try_handle_control`; each message is offered once. What is consumed is claimed and marked through
the settler, without a turn; what is not waits for its place, untouched on the platform.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

import attrs
import trio

from band_trio.errors import BandError
from band_trio.kit.limiter import work_of
from band_trio.link.rest.pages import PageWalk
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.journal.entries import Entry
from band_trio.runtime.journal.journal import Journal
from band_trio.runtime.journal.verdict import DONE
from band_trio.runtime.lifecycle import MARKS
from band_trio.runtime.room.settler import Settler
from band_trio.runtime.turn.briefing import Briefing
from band_trio.runtime.turn.services import RoomServices
from band_trio.tools.agent_tools import AgentTools
from band_trio.tools.conversation import to_platform_message
from band_trio.tools.ledger import Ledger
from band_trio.trace import Consumed

_log: Final = logging.getLogger(__name__)

REMEMBERED: Final = 128
"""Ids that were offered; an older one would be offered a second time."""


@attrs.define(eq=False)
class ChatControls:
    """Offers the messages of one room to the adapter's `try_handle_control`."""

    _services: RoomServices
    _journal: Journal
    _briefing: Briefing
    _settler: Settler
    _offered: dict[str, None] = attrs.field(factory=dict, init=False)
    _early: deque[ChatMessage] = attrs.field(factory=deque, init=False)
    """Pushed while a turn runs or a message is held; full: offered in its place instead."""
    _busy: bool = attrs.field(default=False, init=False)
    _offering: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    @property
    def _room_id(self) -> str:
        return self._journal.room_id

    def offer_early(self, message: ChatMessage, nursery: trio.Nursery) -> None:
        """Offer a message that arrives while the room is busy, in a task beside the turn."""
        full = len(self._early) >= self._services.session.room_hints
        if full or not self._journal.is_actionable(message):
            return
        self._early.append(message)
        if not self._busy:
            self._busy = True
            nursery.start_soon(self._offer_all, name=f"chat controls of {self._room_id}")

    async def consumed(self, entry: Entry) -> bool:
        """Offer a message before its claim; True if the adapter has consumed it."""
        async with self._offering:  # an early offer of the same message may be under way
            if entry.id in self._offered or entry.message is None:
                return self._is_known(entry.id)
            return await self._offer(entry.message)

    def _is_known(self, message_id: str) -> bool:
        return self._journal.is_known(message_id, trio.current_time())

    async def _offer_all(self) -> None:
        try:
            while self._early:
                message = self._early.popleft()
                if await self._is_work(message):
                    async with self._offering:
                        if message.id not in self._offered:
                            await self._offer(message)
        finally:
            self._busy = False

    async def _is_work(self, message: ChatMessage) -> bool:
        """Tell whether a pushed message is still to be worked on; it may be an old copy.

        The platform is asked where ids and time stamps do not tell. While it cannot be asked the
        message waits for its place.
        """
        if self._is_known(message.id):
            return False
        if self._journal.follows(message):
            return True
        try:
            return await self._is_listed(message.id)
        except BandError as exc:
            _log.info("message %s is not offered before its turn: %s", message.id, exc)
            return False

    async def _is_listed(self, message_id: str) -> bool:
        walk = PageWalk(f"the list of room {self._room_id}")
        while not walk.ended:
            await walk.pace()
            page = await self._services.rest.list_messages(self._room_id, walk.cursor)
            if any(m.id == message_id and self._journal.is_actionable(m) for m in page.items):
                return True
            walk.follow(page)
        return False

    async def _offer(self, message: ChatMessage) -> bool:
        services = self._services
        hook = services.app.adapter.chat_control
        if hook is None or services.lifecycle.closing or self._journal.controls.stopped:
            return False
        self._remember(message.id)
        ledger = Ledger(judged=False)
        tools = AgentTools.from_context(self._briefing.context(ledger))
        people = self._briefing.roster.copy()
        msg = to_platform_message(message, room_id=self._room_id, participants=people)
        answers: list[bool] = []

        async def ask() -> None:
            answers.append(bool(await hook(msg, tools)))

        bound = services.lifecycle.shield(services.session.hook_seconds, MARKS)
        with work_of(self._room_id):
            await services.app.hooks.guard(
                f"try_handle_control in room {self._room_id}", ask, (), bound=bound
            )
        ledger.close()
        if not any(answers):
            return False
        # Before anything is awaited: its hint is void from here on.
        entry = self._journal.decided_before(message, DONE, trio.current_time())
        services.tracer(Consumed(self._room_id, message.id))
        await self._settler.settle(self._journal, entry)
        return True

    def _remember(self, message_id: str) -> None:
        self._offered[message_id] = None
        if len(self._offered) > REMEMBERED:
            del self._offered[next(iter(self._offered))]

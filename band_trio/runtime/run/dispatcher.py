"""Frames to values: runs inside the socket's reader, synchronously, and awaits nothing.

Every push ends as a hint, a flag, a control state or a roster change of the part that it
concerns; what arrives for a room without a child is dropped, because its child starts by reading.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import attrs

from band_trio.kit.logs import RepeatedLog
from band_trio.protocol import events
from band_trio.protocol.rest import ChatMessage
from band_trio.runtime.contacts.desk import ContactDesk
from band_trio.runtime.membership.presence import RoomPresence

_log: Final = logging.getLogger(__name__)
_repeated: Final = RepeatedLog(_log)


@attrs.frozen(eq=False)
class Dispatcher:
    """Implements the link's listener."""

    _presence: RoomPresence
    _desk: ContactDesk

    def connected(self, epoch: int) -> None:
        """A new socket serves: everything may have changed meanwhile."""
        if epoch > 1:
            self._presence.new_epoch()
            self._desk.relist()

    def disconnected(self, epoch: int, reason: str) -> None:
        """The socket is gone; rooms work on over REST."""

    def joined(self, topic: str) -> None:
        """A topic's pushes begin: what was missed before has to be read."""
        kind, subject = events.split_topic(topic)
        if kind == "agent_rooms":
            self._presence.relist()
        elif kind == "agent_contacts":
            self._desk.relist()
        elif (room := self._presence.room(subject)) is not None:
            if kind == "chat_room":
                room.joined()
            elif kind == "room_participants":
                room.briefing.roster.stale = True

    def lost(self, topic: str, reason: str) -> None:
        """A topic crashed, closed or could not be joined; the link heals it, and tells."""

    def pushed(self, topic: str, event: str, payload: dict[str, Any]) -> None:
        """An event on a joined topic.

        Raises:
            RemoteProtocolError: it cannot be read.
        """
        parsed = events.parse_event(topic, event, payload)
        subject = events.split_topic(topic)[1]
        match parsed:
            case ChatMessage():
                if (room := self._presence.room(subject)) is not None:
                    room.offer(parsed)
            case events.AgentControl():
                self._control(parsed)
            case events.RoomAdded():
                self._presence.added(parsed.id, parsed.title)
            case events.RoomRemoved() | events.RoomDeleted():
                self._presence.removed(parsed.id)
            case events.ParticipantAdded() | events.ParticipantRemoved():
                self._participant(subject, parsed)
            case (
                events.ContactRequestReceived()
                | events.ContactRequestUpdated()
                | events.ContactAdded()
                | events.ContactRemoved()
            ):
                self._desk.pushed(parsed)
            case _:
                _log.debug("ignored an event that is not known on %s", topic)

    def _control(self, control: events.AgentControl) -> None:
        if control.room_id is not None:
            self._presence.control(control.room_id, control.mode, control.correlation_id)
        elif control.scope == "agent":
            self._presence.control_all(control.mode, control.correlation_id)
        else:
            _repeated.warning("ignored a control for a room that names no room")

    def _participant(
        self, room_id: str, event: events.ParticipantAdded | events.ParticipantRemoved
    ) -> None:
        room = self._presence.room(room_id)
        if room is None:
            return
        if isinstance(event, events.ParticipantAdded):
            room.participant_added(attrs.asdict(event))
        else:
            room.participant_removed(event.id)

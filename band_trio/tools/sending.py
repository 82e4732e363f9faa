"""Sending: messages, events, failures, and the adapter's own notices.

A message that may have been delivered is never sent again. It is looked for; if it is not found, the
caller learns that its outcome is unknown, and the turn counts as answered, because running it again
could say everything twice.

The docstrings and descriptions of the inputs are what a model reads.
"""

# ruff: noqa: RUF009 - `argument` declares an attrs field

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal

import attrs
import trio

from band_trio import texts
from band_trio.errors import (
    BandApiError,
    BandToolError,
    DeliveryFailedError,
    MentionError,
    MessagePostError,
    OutcomeUnknownError,
    RoomExecutionStoppedError,
    TurnClosedError,
)
from band_trio.kit.hygiene import (
    SHORTENED,
    clean_lines,
    clean_text,
    clip,
    error_line,
    error_text,
    has_visible,
    without_surrogates_deep,
)
from band_trio.link.rest.sent import IsIt
from band_trio.protocol import codec
from band_trio.protocol.rest import (
    EVENT_CHARS,
    EVENT_METADATA_BYTES,
    MESSAGE_BYTES,
    Mention,
)
from band_trio.protocol.structure import unstructure
from band_trio.tools.core import ToolCore, fenced, platform_tool
from band_trio.tools.definitions import argument
from band_trio.tools.failures import FAILURE_KEY, AgentFailure
from band_trio.tools.flights import FlightLostError
from band_trio.tools.mentions import (
    append_mention_handles_hint,
    mention_entries,
    resolve_entry,
    to_send,
    with_handles_hint,
)
from band_trio.tools.sent import SentPost
from band_trio.types import MessageType, ToolCategory, TurnEffect

_log: Final = logging.getLogger(__name__)
_CHAT: Final = ToolCategory.CHAT

OUTCOME_UNKNOWN: Final = "outcome_unknown"
NOT_IN_ROOM: Final = "mentioned_participant_not_in_room"
"""The platform's code for a mention of somebody who has left."""
ATTACHMENTS: Final = 10
"""Most attachments of one message (platform docs, Limits)."""
FAILURE_FIELD_CHARS: Final = 4000

_EVENT_TYPES: Final = ("tool_call", "tool_result", "thought", "error", "task")

Mentions = Sequence[str | Mapping[str, Any]] | str | None

# --------------------------------------------------------------------------- inputs


@attrs.frozen
class SendMessageInput:
    """Post a message to this room. Only messages sent with this tool reach anybody: ordinary
    answer text is not delivered. Name everyone who should read it in `mentions`, at least one,
    by exact id or by handle (`@user` or `@user/agent`). If nothing needs to be said, call
    band_no_reply instead."""

    content: str = argument("The text of the message, for the people you mention.", visible=True)
    mentions: list[str] = argument(
        "Who should read it: exact participant ids or handles, for example "
        '["@maria", "@maria/research"]. Never yourself.',
        mentions=True,
    )


@attrs.frozen
class SendEventInput:
    """Leave a note about your work. People in the room can see it, but nobody is notified, and it
    is not an answer. Use `thought` for what you plan or concluded (before a long piece of work,
    write one first), `error` for something that went wrong, `task` for progress."""

    content: str = argument("The text of the note.", visible=True)
    message_type: Literal["thought", "error", "task"] = argument("The kind of note.")
    metadata: dict[str, Any] | None = argument(
        "Structured data to keep with the note; rarely needed.", default=None
    )


@attrs.frozen
class NoReplyInput:
    """Finish the turn without posting anything. Right for messages meant for somebody else, for
    thanks and announcements, and for questions that are answered already. It completes the turn
    by itself: do not send a message as well."""

    reason: str | None = argument(
        "Why no answer is needed; it is only logged, nobody in the room sees it.", default=None
    )


# --------------------------------------------------------------------------- tools


class Sending(ToolCore):
    """The tools that say something, or decide not to."""

    @platform_tool(SendMessageInput, _CHAT, TurnEffect.REPLY, room_bound=True)
    async def send_message(
        self,
        content: str,
        mentions: Mentions = None,
        *,
        attachment_ids: Sequence[str] | None = None,
    ) -> dict[str, Any] | None:
        """Post a message to the room; the receipt has `id`, `recipients` and `success`.

        *mentions* are handles, names or ids, or dicts with `id`, `handle` or `name`. Content
        without a visible character is not sent; None is returned then. While a send is under
        way, the same content to the same people joins it instead of being sent twice.

        Raises:
            MentionError: a mention is unknown or ambiguous, or nobody else is mentioned.
            MessagePostError: somebody left, or nobody knows whether the message was delivered.
            BandApiError: the platform said no.
            BandToolError: the content is too long, or the platform was not reached.
            RoomExecutionStoppedError: the agent is stopped in this room.
        """
        return await self._send(
            "message", content, mentions, tuple(attachment_ids or ()), TurnEffect.REPLY
        )

    @fenced
    async def send_notice(self, content: str, mentions: Mentions) -> dict[str, Any] | None:
        """Post a status text of the adapter; like `send_message`, but never counts as a reply."""
        return await self._send("notice", content, mentions, (), TurnEffect.OBSERVE)

    async def deliver_reply(self, content: str, mentions: Mentions) -> dict[str, Any] | None:
        """Send the adapter's own reply.

        Raises:
            DeliveryFailedError: it could not be sent; so it is not taken for a provider's error.
        """
        return await _delivering(self.send_message, content, mentions)

    async def deliver_notice(self, content: str, mentions: Mentions) -> dict[str, Any] | None:
        """Send the adapter's own status text.

        Raises:
            DeliveryFailedError: it could not be sent.
        """
        return await _delivering(self.send_notice, content, mentions)

    @platform_tool(NoReplyInput, _CHAT, TurnEffect.DECLINE)
    async def no_reply(self, reason: str | None = None) -> dict[str, Any]:
        """Complete the turn without saying anything; *reason* goes to the log only."""
        await trio.lowlevel.checkpoint()
        _log.info("room %s: the agent declined to reply", self.room_id)
        _log.debug("room %s: reason: %s", self.room_id, clean_text(reason or "none"))
        return {"status": "no_reply"}

    # ----------------------------------------------------------------- events

    @platform_tool(SendEventInput, _CHAT, TurnEffect.OBSERVE, room_bound=True)
    async def send_event(
        self, content: str, message_type: str, metadata: Mapping[str, Any] | None = None
    ) -> dict[str, Any] | None:
        """Post an event that people see and that notifies nobody.

        *message_type* is `thought`, `error`, `task`, `tool_call` or `tool_result`. Longer content
        keeps head and tail; blank content is not posted, and None is returned then.

        Raises:
            BandToolError: the type is unknown, the metadata is too large or no JSON.
            MessagePostError: nobody knows whether the event was posted.
            BandApiError: the platform said no.
            RoomExecutionStoppedError: the agent is stopped in this room.
        """
        if message_type not in _EVENT_TYPES:
            raise BandToolError(
                f"message_type must be one of {', '.join(_EVENT_TYPES)}, not {message_type!r}."
            )
        if not has_visible(content):
            _log.warning("room %s: a blank event was not posted", self.room_id)
            return None
        return await self._post_event("event", content, message_type, metadata)

    @fenced
    async def send_failure(self, failure: AgentFailure) -> dict[str, Any] | None:
        """Tell the room about a failure, as an `error` event, and mark the turn as reported.

        Never raises except for a stop, a closed turn and cancellation: a post that failed
        returns `{"ok": False, "error": …}`, and the runtime then reports in its own words.
        """
        clean = {key: self._clean(value) for key, value in failure.to_dict().items()}
        content = self._clean(failure.text) or failure.provider
        try:
            receipt = await self._post_event(
                "failure", content, MessageType.ERROR, {FAILURE_KEY: clean}
            )
        except RoomExecutionStoppedError:
            raise
        except Exception as exc:  # noqa: BLE001 - reporting a failure must not become another one
            why = error_line(exc, self.rest.secrets)
            _log.warning("room %s: a failure could not be reported: %s", self.room_id, why)
            if isinstance(exc, MessagePostError):  # it may well be in the room: not a second one
                self.turn.note_reported()
            return {"ok": False, "error": error_text(exc, FAILURE_FIELD_CHARS, self.rest.secrets)}
        self.turn.note_reported()
        return receipt

    def _clean(self, text: str | None) -> str | None:
        if text is None:
            return None
        return clean_lines(text, FAILURE_FIELD_CHARS, self.rest.secrets)

    async def _post_event(
        self, kind: str, content: str, message_type: str, metadata: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        data = _checked_metadata(metadata)
        content = clip(content, EVENT_CHARS, SHORTENED)
        try:
            with self._writing(self._deadline(), TurnEffect.OBSERVE):
                receipt = await self.rest.post_event(
                    self.room_id, content, message_type, data, self._is_it(content, message_type)
                )
        except OutcomeUnknownError as exc:
            self._tell_posted(kind, "unknown")
            raise MessagePostError(OUTCOME_UNKNOWN, texts.EVENT_MAY_BE_POSTED) from exc
        except (BandApiError, RoomExecutionStoppedError):
            self._tell_posted(kind, "refused")
            raise
        self._tell_posted(kind, "ok")
        shown = receipt.message_type or str(message_type)
        return {"id": receipt.id, "message_type": shown, "success": True}

    # ----------------------------------------------------------------- messages

    async def _send(
        self,
        kind: str,
        content: str,
        mentions: Mentions,
        attachment_ids: tuple[str, ...],
        effect: TurnEffect,
    ) -> dict[str, Any] | None:
        if not has_visible(content):
            _log.warning("room %s: a message without visible content was not sent", self.room_id)
            return None
        _check_size(content, attachment_ids)
        deadline = self._deadline()
        people = await self._resolve(mentions, deadline)
        key = (kind, content, tuple(person.id for person in people), attachment_ids)
        try:
            return await self._sends.run(
                key,
                lambda: self._post_message(kind, content, people, attachment_ids, deadline, effect),
            )
        except FlightLostError:
            self.turn.record(effect)
            raise MessagePostError(OUTCOME_UNKNOWN, texts.MESSAGE_MAY_BE_DELIVERED) from None

    async def _post_message(
        self,
        kind: str,
        content: str,
        people: Sequence[Mention],
        attachment_ids: Sequence[str],
        deadline: float,
        effect: TurnEffect,
    ) -> dict[str, Any]:
        """Post one message, once; every sender goes through here.

        *people* are resolved, *deadline* is trio time, *effect* is recorded if the outcome stays
        unknown. Errors: see `send_message`.
        """
        try:
            with self._writing(deadline, effect):
                receipt = await self.rest.post_message(
                    self.room_id, content, people, attachment_ids,
                    self._is_it(content, MessageType.TEXT, people),
                )  # fmt: skip
        except OutcomeUnknownError as exc:
            self.turn.record(effect)
            self._tell_posted(kind, "unknown")
            raise MessagePostError(OUTCOME_UNKNOWN, texts.MESSAGE_MAY_BE_DELIVERED) from exc
        except RoomExecutionStoppedError:
            self._tell_posted(kind, "refused")
            raise
        except BandApiError as exc:
            self._tell_posted(kind, "refused")
            if exc.status != 422 or NOT_IN_ROOM not in (exc.code, exc.message):
                raise
            refusal = exc
        else:
            self._tell_posted(kind, "ok")
            # Where the platform's receipt is odd, those who were asked for.
            recipients = [unstructure(each) for each in receipt.recipients or people]
            return {"id": receipt.id, "recipients": recipients, "success": True}
        raise await self._somebody_left() from refusal

    def _is_it(
        self, content: str, message_type: str, people: Sequence[Mention] | None = None
    ) -> IsIt | None:
        """Return what finds this post in the room; None where it could be taken for another."""
        since = self.turn.since
        if since is None or self.agent_id is None:
            return None
        mentioned = [person.id for person in people] if people is not None else None
        return SentPost(self.agent_id, since, content, message_type, mentioned, self._roster).is_row

    async def _somebody_left(self) -> MessagePostError:
        try:
            await self._refresh_roster(self._deadline(), after_a_write=True)
        except (BandApiError, BandToolError) as exc:
            _log.warning("room %s: the roster could not be refreshed: %s", self.room_id, exc)
        handles = self.available_mention_handles()
        return MessagePostError(NOT_IN_ROOM, with_handles_hint(texts.NOT_IN_ROOM, handles))

    async def _resolve(self, mentions: Mentions, deadline: float) -> list[Mention]:
        """Return whom *mentions* mean; all of them resolve, or nothing is sent."""
        try:
            entries = mention_entries(mentions)
            found = [resolve_entry(entry, self._roster) for entry in entries]
            if any(isinstance(each, str) and each != self.agent_id for each in found):
                await self._refresh_roster(deadline)
                found = [resolve_entry(entry, self._roster) for entry in entries]
            return to_send([self._known(each) for each in found], self.agent_id)
        except MentionError as exc:
            raise append_mention_handles_hint(exc, self.available_mention_handles()) from None

    def _known(self, found: Mention | str) -> Mention:
        if isinstance(found, Mention):
            return found
        if found == self.agent_id:  # the agent itself, in a roster that does not list it
            return Mention(found)
        raise MentionError(texts.unknown_mention(found))

    def _tell_posted(self, kind: str, outcome: str) -> None:
        self.turn.tell(lambda listener: listener.posted(kind, outcome))


async def _delivering(
    send: Callable[[str, Mentions], Awaitable[dict[str, Any] | None]],
    content: str,
    mentions: Mentions,
) -> dict[str, Any] | None:
    try:
        return await send(content, mentions)
    except TurnClosedError:
        raise
    except (BandApiError, BandToolError) as exc:
        raise DeliveryFailedError(exc) from exc


def _check_size(content: str, attachment_ids: Sequence[str]) -> None:
    # Four bytes a character is the most that UTF-8 needs: short texts are not encoded to know.
    if len(content) * 4 > MESSAGE_BYTES:
        size = len(content.encode("utf-8", "surrogatepass"))
        if size > MESSAGE_BYTES:
            raise BandToolError(texts.too_long("message", size, MESSAGE_BYTES, "bytes"))
    if len(attachment_ids) > ATTACHMENTS:
        raise BandToolError(texts.too_many_attachments(len(attachment_ids), ATTACHMENTS))


def _checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if metadata is None:
        return None
    try:
        data: dict[str, Any] = without_surrogates_deep(dict(metadata))
        size = len(codec.dumps(data))
    except (TypeError, ValueError, RecursionError) as exc:
        raise BandToolError("metadata must be a JSON object.") from exc
    if size > EVENT_METADATA_BYTES:
        raise BandToolError(texts.too_long("metadata", size, EVENT_METADATA_BYTES, "bytes"))
    return data

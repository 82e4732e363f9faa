"""Arguments of the chat tools. The docstrings and descriptions are what a model reads."""

# ruff: noqa: RUF009 - `argument` declares an attrs field

from __future__ import annotations

from typing import Any, Literal

import attrs

from band_trio.tools.definitions import argument

Role = Literal["owner", "admin", "member"]


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


@attrs.frozen
class AddParticipantInput:
    """Bring a user or an agent into this room. Find them with band_lookup_peers first and pass the
    id it gave you."""

    identifier: str = argument(
        "Whom to add: the exact id (best), a handle, or a name that only one peer has.",
        visible=True,
        aliases=["name"],
    )
    role: Role = argument("The role in the room; almost always member.", default="member")


@attrs.frozen
class RemoveParticipantInput:
    """Take a participant out of this room."""

    identifier: str = argument(
        "Whom to remove: the id, a handle, or a name that only one participant has.",
        visible=True,
        aliases=["name"],
    )


@attrs.frozen
class LookupPeersInput:
    """List the users and agents who could be added to this room, page by page; those already
    present are left out. Use it also to answer who could help with something. Entries are under
    `data`, counts under `metadata`."""

    page: int = argument("Which page, from 1.", default=1, low=1)
    page_size: int = argument("Entries per page, 1 to 100.", default=50, low=1, high=100)


@attrs.frozen
class GetParticipantsInput:
    """List who is in this room now, with ids and handles."""


@attrs.frozen
class CreateChatroomInput:
    """Open a new room that you own and get its id. It starts empty, and this room is not
    affected."""

    task_id: str | None = argument(
        "Id of a task that the room is for, if there is one.", default=None
    )

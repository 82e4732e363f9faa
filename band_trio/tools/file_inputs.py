"""Arguments of the file tools. The docstrings and descriptions are what a model reads."""

# ruff: noqa: RUF009 - `argument` declares an attrs field

from __future__ import annotations

import attrs

from band_trio.tools.definitions import ID, argument


@attrs.frozen
class ListRoomFilesInput:
    """List the files shared in this room, oldest first. Where `next_cursor` is given there is
    more; a page can be empty and still not be the last."""

    cursor: str | None = argument("The `next_cursor` of the page before.", default=None)


@attrs.frozen
class ReadRoomFileInput:
    """Show a file that was shared in this room. Short text and pictures are shown, anything else
    is described."""

    file_id: str = argument("The id that band_list_room_files gives.", pattern=ID)


@attrs.frozen
class SendRoomFileInput:
    """Share a text file with the people you mention. It is posted as a message, so no further
    reply is needed."""

    content: str = argument("The text of the file, at most 1,000,000 bytes.")
    filename: str = argument("Its name, in plain ASCII, for example `notes.md`.", visible=True)
    caption: str = argument(
        "The message that comes with it; if left out, it names the file.", default=""
    )
    mentions: list[str] = argument(
        "Who should get it: exact participant ids or handles. Never yourself.",
        mentions=True,
        kw_only=True,
    )

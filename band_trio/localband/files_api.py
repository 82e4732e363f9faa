"""The REST routes of files, for agents and for persons (platform docs, Files)."""

from __future__ import annotations

from functools import partial
from typing import Final

from band_trio.localband.routes import Call, Reply, Route, data
from band_trio.localband.world import World
from band_trio.stores.files import NAME, RANGE, SHA256, byte_range


def put_file(call: Call) -> Reply:
    """Take a file into the room; a message has to carry it."""
    return data(call.world.files.put(call.room.id, call.body, call.headers).render())


def get_file(call: Call) -> Reply:
    """Return the bytes of a file, or the part that was asked for."""
    file = call.world.files.find(call.room.id, call.path["file_id"])
    content = file.content or b""
    headers = {"content-type": file.content_type, "accept-ranges": "bytes"}
    part = byte_range(call.headers.get(RANGE), len(content))
    if part is None:
        return Reply(200, content, headers)
    if not part:
        headers = {"content-type": "text/plain", "content-range": f"bytes */{len(content)}"}
        return Reply(416, f"The file has {len(content)} bytes".encode(), headers)
    headers["content-range"] = f"bytes {part.start}-{part.stop - 1}/{len(content)}"
    return Reply(206, content[part.start : part.stop], headers)


_FILES: Final = "chats/{chat_id}/files"
_put: Final = partial(
    Route, method="PUT", handle=put_file, room=World.room_of, reads_body=True, raw=True,
    headers=(NAME, SHA256), offer="files",
)  # fmt: skip

ROUTES: Final = (
    _put("put_file", path=f"/api/v1/agent/{_FILES}", caller="Agent"),
    Route(
        "get_file",
        "GET",
        f"/api/v1/agent/{_FILES}/{{file_id}}",
        get_file,
        caller="Agent",
        room=World.room_of,
        headers=(RANGE,),
        offer="files",
    ),
    _put("user_put_file", path=f"/api/v1/me/{_FILES}", caller="User"),
)

"""The REST routes of files: raw bytes in, raw bytes out (platform docs, Files)."""

from __future__ import annotations

from functools import partial
from typing import Final

from band_trio.localband.routes import Call, Reply, Route, data
from band_trio.localband.world import World
from band_trio.protocol.structure import unstructure
from band_trio.stores.files import FILE_BYTES, part


def put(call: Call) -> Reply:
    """Take a file in; the same bytes in the room are one record."""
    names = ("x-file-name", "x-file-sha256", "content-type")
    name, digest, declared = (call.headers.get(each) for each in names)
    content = call.body if isinstance(call.body, bytes) else b""
    file = call.world.files_of(call.room).put(name, digest, declared or "", content)
    return data(unstructure(file))


def get(call: Call) -> Reply:
    """Give a file, or the part of it that is asked for."""
    store = call.world.files_of(call.room)
    file = store.find(call.path["id"])
    content, headers = store.contents[file.id], {"content-type": file.content_type}
    try:
        wanted = part(call.headers.get("range"), len(content))
    except ValueError:
        gone = {"content-type": "text/plain", "content-range": f"bytes */{len(content)}"}
        return Reply(416, b"The range cannot be satisfied", gone)
    if wanted is None:
        return Reply(200, content, headers)
    headers["content-range"] = f"bytes {wanted.start}-{wanted.stop - 1}/{len(content)}"
    return Reply(206, content[wanted.start : wanted.stop], headers)


_agent: Final = partial(
    Route, caller="Agent", room=World.room_of, feature="files", raw=True, body_bytes=FILE_BYTES
)
_person: Final = partial(
    Route, caller="User", room=World.room_of, feature="files", raw=True, body_bytes=FILE_BYTES
)
_FILES: Final = "chats/{chat_id}/files"

AGENT_ROUTES: Final = (
    _agent("put_file", "PUT", f"/api/v1/agent/{_FILES}", put),
    _agent("get_file", "GET", f"/api/v1/agent/{_FILES}/{{id}}", get),
)
USER_ROUTES: Final = (
    _person("user_put_file", "PUT", f"/api/v1/me/{_FILES}", put),
    _person("user_get_file", "GET", f"/api/v1/me/{_FILES}/{{id}}", get),
)

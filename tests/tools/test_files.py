"""Files of a room: found on messages, shown if small, sent as messages."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import httpx  # noqa: ASYNC127 - the transport of the tests
import pytest
import trio
from trio.testing import MockClock

from band_trio import texts
from band_trio.errors import (
    BandApiError,
    BandToolError,
    MentionError,
    MessagePostError,
    RoomExecutionStoppedError,
)
from band_trio.tools import files as rules
from band_trio.tools.agent_tools import AgentTools
from band_trio.types import TurnEffect
from tests.marks import case, guarantee
from tests.support.for_each import for_each
from tests.tools.kit import Platform, open_rest, open_tools, refusal

NOW = datetime(2025, 6, 1, tzinfo=UTC)


def attachment(file_id: str, content_type: str = "text/plain", **more: Any) -> dict[str, Any]:
    return {
        "id": file_id,
        "name": f"{file_id}.x",
        "content_type": content_type,
        "bytes": 3,
        "sha256": "0" * 64,
        "has_thumb": False,
        "expires_at": None,
        **more,
    }


@attrs.define(eq=False)
class FilePlatform(Platform):
    """A platform whose context has pages of files, and which takes uploads."""

    pages: list[list[dict[str, Any]]] = attrs.field(factory=lambda: [[]])
    contents: dict[str, bytes] = attrs.field(factory=dict)
    loop: bool = False
    uploads: list[httpx.Request] = attrs.field(factory=list)

    async def handle(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1/agent")
        if request.method == "PUT" and path.endswith("/files"):
            self.uploads.append(request)
            request = httpx.Request("PUT", request.url, headers=request.headers, json="bytes")
        return await super().handle(request)

    def _usual(self, request: httpx.Request, path: str, body: Any) -> httpx.Response:
        if path.endswith("/context"):
            return self._context(request)
        if request.method == "PUT":
            size = len(self.uploads[-1].content)
            return httpx.Response(200, json={"data": attachment("f-new", bytes=size)})
        if "/files/" in path:
            content = self.contents.get(path.rsplit("/", 1)[-1])
            if content is None:
                return refusal(404, "not_found", "out of reach")
            return httpx.Response(200, content=content)
        return super()._usual(request, path, body)

    def _context(self, request: httpx.Request) -> httpx.Response:
        number = int(request.url.params.get("cursor", 0))
        last = number + 1 == len(self.pages)
        cursor = "0" if last and self.loop else None if last else str(number + 1)
        row = {"id": f"m{number}", "content": "x", "message_type": "text", "sender_id": "u",
               "sender_type": "User", "attachments": self.pages[number]}  # fmt: skip
        meta = {"has_more": cursor is not None, "next_cursor": cursor}
        return httpx.Response(200, json={"data": [row], "metadata": meta})


# --------------------------------------------------------------------------- listing


async def test_files_are_listed_once_and_page_by_page() -> None:
    gone = attachment("gone", expires_at="2020-01-01T00:00:00")
    platform = FilePlatform(
        pages=[[attachment("a"), attachment("a"), gone, {"name": "no id"}], [attachment("b")]]
    )
    async with open_tools(platform) as tools:
        first = await tools.execute_tool_call("band_list_room_files", {})
        second = await tools.execute_tool_call("band_list_room_files", {"cursor": "1"})

    shown = {key: value for key, value in attachment("a").items() if value is not None}
    assert first == {"data": [shown], "next_cursor": "1"}
    assert [file["id"] for file in second["data"]] == ["b"]
    assert "next_cursor" not in second


# --------------------------------------------------------------------------- reading


READ: list[tuple[dict[str, Any], bytes, dict[str, Any], bool]] = [
    (attachment("f"), b"abc", {"text": "abc"}, True),
    (attachment("f", "text/markdown; charset=utf-8"), "ü".encode(), {"text": "ü"}, True),
    (attachment("f"), b"a\xffb", {"text": "a\ufffdb", "description": texts.BROKEN_TEXT}, True),
    (attachment("f", bytes=0), b"a size that is missing", {"text": "a size that is missing"}, True),
    (attachment("f", bytes=16_384), b"x" * 16_384, {"text": "x" * 16_384}, True),
    (attachment("f", bytes=16_385), b"",
     {"description": texts.file_too_large_to_show(16_385, 16_384)}, False),
    (attachment("f", "image/png", bytes=5 * 1024 * 1024 + 1), b"",
     {"description": texts.file_too_large_to_show(5_242_881, 5_242_880)}, False),
    (attachment("f", "image/tiff"), b"", {"description": texts.file_kind_not_shown("image/tiff")},
     False),
    (attachment("f", "application/pdf"), b"",
     {"description": texts.file_kind_not_shown("application/pdf")}, False),
]  # fmt: skip


@for_each(("file", "content", "shown", "downloaded"), READ)
async def test_what_is_shown_is_decided_before_the_download(
    file: dict[str, Any], content: bytes, shown: dict[str, Any], downloaded: bool
) -> None:
    platform = FilePlatform(pages=[[file]], contents={"f": content})
    async with open_tools(platform) as tools:
        outcome = await tools.execute_tool_call_structured("band_read_room_file", {"file_id": "f"})
        assert tools.turn.effects == {TurnEffect.OBSERVE}

    header = {"name": "f.x", "content_type": file["content_type"], "bytes": file["bytes"]}
    assert outcome.value == {**header, **shown}
    assert ("/chats/room-1/files/f" in platform.paths("GET")) is downloaded


@for_each("kind", ["image/png", "IMAGE/JPEG", "image/gif", "image/webp"])
async def test_a_picture_becomes_an_image_block(kind: str) -> None:
    content = bytes(range(256))
    file = attachment("f", kind, bytes=len(content))
    platform = FilePlatform(pages=[[file]], contents={"f": content})
    async with open_tools(platform) as tools:
        value = await tools.execute_tool_call("band_read_room_file", {"file_id": "f"})

    [block] = value["content"]
    assert (block["type"], block["mimeType"]) == ("image", kind.lower())
    assert base64.b64decode(block["data"], validate=True) == content
    assert json.dumps(value)


@guarantee(86)
@case("C68")
async def test_a_file_that_is_longer_than_announced_is_not_shown() -> None:
    platform = FilePlatform(pages=[[attachment("f", bytes=10)]], contents={"f": b"x" * 11})
    async with open_tools(platform) as tools:
        value = await tools.execute_tool_call("band_read_room_file", {"file_id": "f"})

    assert "/files/f cannot be used: " in value
    assert "10" in value


async def test_the_refusal_of_a_small_file_is_read() -> None:
    platform = FilePlatform(pages=[[attachment("f", bytes=1)]])
    platform.answer("GET", "/files/f", refusal(403, "forbidden", "not for you"))
    async with open_tools(platform) as tools:
        value = await tools.execute_tool_call("band_read_room_file", {"file_id": "f"})

    assert value.startswith("Error executing band_read_room_file: 403 forbidden: not for you. ")


async def test_a_file_is_searched_through_the_whole_room_once() -> None:
    platform = FilePlatform(pages=[[], [attachment("f")], []], contents={"f": b"abc"})
    async with open_rest(platform) as rest:
        for _ in range(2):  # two turns of one agent
            await AgentTools("room-1", rest).read_room_file("f")

    contexts = [path for path in platform.paths("GET") if path.endswith("/context")]
    assert len(contexts) == 2  # up to where it was found, and only for the first call


@guarantee(88)
@case("C70")
@pytest.mark.parametrize("loop", [False, True])
async def test_an_unknown_file_ends_the_walk(loop: bool) -> None:
    platform = FilePlatform(pages=[[], [attachment("other")]], loop=loop)
    async with open_tools(platform) as tools:
        with pytest.raises(BandToolError) as caught:
            await tools.read_room_file("f")

    assert str(caught.value) == (texts.FILE_NOT_MET if loop else texts.NO_SUCH_FILE)
    assert len(platform.requests) == (3 if loop else 2)


@guarantee(86)
async def test_a_page_full_of_attachments_is_bounded() -> None:
    platform = FilePlatform(pages=[[attachment(f"f{n}") for n in range(3000)]])
    async with open_tools(platform) as tools:
        listed = await tools.list_room_files()
    assert len(listed["data"]) == 1000


async def test_a_file_out_of_reach_has_the_same_text() -> None:
    async with open_tools(FilePlatform(pages=[[attachment("f")]])) as tools:
        with pytest.raises(BandToolError) as caught:
            await tools.read_room_file("f")
    assert str(caught.value) == texts.NO_SUCH_FILE


async def test_an_expired_file_is_looked_up_once_more() -> None:
    soon = (NOW + timedelta(minutes=1)).isoformat()
    platform = FilePlatform(pages=[[attachment("f", expires_at=soon)]], contents={"f": b"abc"})
    async with open_tools(platform) as tools:
        cache, now = tools.rest.attachments, NOW
        cache.now = lambda: now
        await tools.read_room_file("f")
        now += timedelta(minutes=1)
        with pytest.raises(BandToolError, match="no such file"):
            await tools.read_room_file("f")
        later = (NOW + timedelta(days=1)).isoformat()
        platform.pages = [[attachment("f", expires_at=later)]]
        assert (await tools.read_room_file("f"))["text"] == "abc"


# --------------------------------------------------------------------------- sending

SEND = {"content": "ü\n", "filename": "note.md", "mentions": "@maria"}


async def test_a_file_is_sent_as_a_message() -> None:
    platform = FilePlatform()
    async with open_tools(platform) as tools:
        outcome = await tools.execute_tool_call_structured("band_send_room_file", SEND)
        assert tools.turn.effects == {TurnEffect.REPLY}

    assert outcome.ok, outcome.value
    assert outcome.value["message_id"] == "message-1"
    assert outcome.value["attachment"]["id"] == "f-new"
    assert outcome.value["attachment"]["sha256"] == "0" * 64
    [upload] = platform.uploads
    assert upload.content == "ü\n".encode()
    assert upload.headers["x-file-name"] == "note.md"
    [body] = platform.bodies("messages")
    assert body["message"] == {
        "content": "Shared a file: note.md",
        "mentions": [{"id": "user-maria", "handle": "maria"}],
        "attachment_ids": ["f-new"],
    }


async def test_a_visible_caption_is_kept() -> None:
    platform = FilePlatform()
    async with open_tools(platform) as tools:
        await tools.send_room_file("x", "a.txt", "look", ["maria"])
        await tools.send_room_file("x", "a.txt", " \u200b", ["maria"])

    contents = [body["message"]["content"] for body in platform.bodies("messages")]
    assert contents == ["look", "Shared a file: a.txt"]


@for_each(
    ("more", "error", "text"),
    [
        ({"filename": "nöte"}, BandToolError, "printable ASCII"),
        ({"filename": "\x00\n"}, BandToolError, "printable ASCII"),
        ({"content": "ü" * 500_001}, BandToolError, "1,000,002 bytes, at most 1,000,000"),
        ({"mentions": []}, MentionError, "At least one other"),
        ({"mentions": ["nobody"]}, MentionError, "You can mention: @maria"),
    ],
)
async def test_nothing_is_uploaded_for_a_call_that_cannot_work(
    more: dict[str, Any], error: type[Exception], text: str
) -> None:
    platform = FilePlatform()
    async with open_tools(platform) as tools:
        with pytest.raises(error, match=text):
            await tools.send_room_file(
                **{"content": "x", "filename": "a.txt", "mentions": ["maria"], **more}
            )
        assert tools.turn.effects == set()

    assert not platform.uploads
    assert not platform.bodies("messages")


UPLOADS: list[tuple[Any, int, type[Exception], str]] = [
    (refusal(404, "not_found", "no"), 1, BandToolError, "file transfer is not available"),
    (refusal(413, "too_large", "no"), 1, BandApiError, "413 too_large"),
    (httpx.Response(200, json={}), 1, BandToolError, "did not return its id"),
    (refusal(503, "later", "busy"), 200, BandToolError, "did not confirm the upload"),
    (httpx.ConnectError("no"), 200, BandToolError, "did not confirm the upload"),
    (refusal(403, "execution_stopped", "stopped"), 1, RoomExecutionStoppedError, "stopped"),
]


@for_each(("answer", "times", "error", "text"), UPLOADS)
async def test_without_an_upload_nothing_is_posted(
    autojump_clock: MockClock, answer: Any, times: int, error: type[Exception], text: str
) -> None:
    platform = FilePlatform()
    for _ in range(times):
        platform.answer("PUT", "/files", answer)
    async with open_tools(platform) as tools:
        with pytest.raises(error, match=text):
            await tools.send_room_file("x", "a.txt", mentions=["maria"])
        assert tools.turn.effects == set()

    assert not platform.bodies("messages")


async def test_a_cancelled_upload_has_said_nothing(autojump_clock: MockClock) -> None:
    async def hang(_: httpx.Request) -> httpx.Response:
        await trio.sleep_forever()
        raise AssertionError

    platform = FilePlatform()
    platform.answer("PUT", "/files", hang)
    async with open_tools(platform) as tools:
        with trio.move_on_after(1):
            await tools.send_room_file("x", "a.txt", mentions=["maria"])
        assert not tools.turn.complete


async def test_a_message_that_fails_names_the_uploaded_file() -> None:
    platform = FilePlatform()
    platform.answer("POST", "/messages", refusal(422, "handle_not_found", "who"))
    platform.answer("POST", "/messages", refusal(422, "mentioned_participant_not_in_room", "gone"))
    platform.answer("POST", "/messages", refusal(502, "bad_gateway", "lost"))
    platform.answer("POST", "/messages", refusal(403, "execution_stopped", "stopped"))
    async with open_tools(platform) as tools:
        with pytest.raises(BandToolError, match=r"who\. The file itself .* attachment f-new"):
            await tools.send_room_file("x", "a.txt", mentions=["maria"])
        with pytest.raises(MessagePostError, match="attachment f-new") as left:
            await tools.send_room_file("x", "a.txt", mentions=["maria"])
        assert left.value.kind == "mentioned_participant_not_in_room"
        assert tools.turn.effects == set()
        with pytest.raises(MessagePostError, match="attachment f-new") as unknown:
            await tools.send_room_file("x", "a.txt", mentions=["maria"])
        assert unknown.value.kind == "outcome_unknown"
        assert tools.turn.effects == {TurnEffect.REPLY}
        with pytest.raises(RoomExecutionStoppedError):
            await tools.send_room_file("x", "a.txt", mentions=["maria"])


def test_what_can_be_shown() -> None:
    assert rules.media_type(" Text/Plain ; x=y") == "text/plain"
    assert rules.not_shown("", 1) == texts.file_kind_not_shown("")
    assert rules.not_shown("text/x", rules.TEXT_BYTES) is None
    assert rules.not_shown("image/webp", rules.IMAGE_BYTES) is None

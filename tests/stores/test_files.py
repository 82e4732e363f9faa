"""Files: the same bytes are one record, parts of them, and how long they are kept."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from band_trio.stores.files import NAME, SHA256, FileStore, byte_range, content_type
from band_trio.stores.refusal import Refusal
from tests.support.for_each import for_each


@attrs.define
class Clock:
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def opened(**options: Any) -> FileStore:
    ids = count(1)
    return FileStore(lambda: f"f{next(ids)}", options.pop("clock", Clock()), **options)


def headers(content: bytes, name: str = "a.txt") -> dict[str, str]:
    return {NAME: name, SHA256: hashlib.sha256(content).hexdigest()}


def refusal(call: Any, *args: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        call(*args)
    return caught.value


# --------------------------------------------------------------------------- records


@given(st.lists(st.tuples(st.sampled_from("xy"), st.binary(max_size=2), st.sampled_from("ab"))))
def test_the_same_bytes_in_a_room_are_one_record(puts: list[tuple[str, bytes, str]]) -> None:
    store = opened()
    model: dict[tuple[str, bytes], tuple[str, str]] = {}
    for room, content, name in puts:
        file = store.put(room, content, headers(content, name))
        model.setdefault((room, content), (file.id, name))
        assert (file.id, file.name) == model[room, content]
        assert (file.content, file.size) == (content, len(content))
    assert len({file_id for file_id, _ in model.values()}) == len(model)
    for (room, content), (file_id, _) in model.items():
        assert store.find(room, file_id).content == content
        other = "y" if room == "x" else "x"
        assert refusal(store.find, other, file_id).status == 404


@for_each(
    ("status", "pointer", "changes"),
    [
        (400, None, {NAME: ...}),
        (400, None, {SHA256: ...}),
        (422, f"/{NAME}", {NAME: " "}),
        (422, f"/{NAME}", {NAME: "é"}),
        (422, f"/{NAME}", {NAME: "a\tb"}),
        (422, f"/{NAME}", {NAME: "x" * 256}),
        (422, f"/{SHA256}", {SHA256: "0" * 64}),
        (422, f"/{SHA256}", {SHA256: hashlib.sha256(b"abc").hexdigest().upper()}),
        (422, f"/{SHA256}", {SHA256: ""}),
    ],
)
def test_headers_that_do_not_fit_are_refused(
    status: int, pointer: str | None, changes: dict[str, Any]
) -> None:
    store = opened()
    given = {k: v for k, v in (headers(b"abc") | changes).items() if v is not ...}
    no = refusal(store.put, "r", b"abc", given)

    assert (no.status, list(no.details or ())) == (status, [pointer] if pointer else [])
    assert not store.rooms.get("r")


def test_a_file_has_a_limit() -> None:
    store = opened(most_bytes=3)
    store.put("r", b"abc", headers(b"abc"))

    assert refusal(store.put, "r", b"abcd", headers(b"abcd")).status == 413


def test_a_file_expires_unless_it_comes_again() -> None:
    clock = Clock()
    store = opened(keep_seconds=10, clock=clock)
    file = store.put("r", b"abc", headers(b"abc"))
    assert file.render()["expires_at"] == "2026-01-01T00:00:10.000000Z"

    clock.now += timedelta(seconds=9)
    assert store.put("r", b"abc", headers(b"abc")) is file
    clock.now += timedelta(seconds=9)
    assert store.find("r", file.id) is file
    clock.now += timedelta(seconds=1)
    assert file.expired
    assert refusal(store.find, "r", file.id).status == 404
    assert store.put("r", b"abc", headers(b"abc")).id != file.id


def test_a_room_takes_its_files_along() -> None:
    store = opened()
    file = store.put("r", b"abc", headers(b"abc"))
    store.forget("r")
    store.forget("never seen")

    assert refusal(store.find, "r", file.id).status == 404


# --------------------------------------------------------------------------- bytes


@for_each(
    ("content", "kind"),
    [
        (b"", "text/plain"),
        ("grüße\r\n\t\x1b[1m".encode(), "text/plain"),
        (b"<html>", "text/plain"),
        (b"a\x00b", "application/octet-stream"),
        (b"\xff\xfe", "application/octet-stream"),
        (b"\x89PNG\r\n\x1a\n...", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVE", "application/octet-stream"),
        (b"%PDF-1.7", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
        (b"\x1f\x8b\x08", "application/gzip"),
    ],
)
def test_the_bytes_say_what_a_file_is(content: bytes, kind: str) -> None:
    assert content_type(content) == kind


@given(st.integers(0, 40), st.integers(0, 60), st.integers(0, 60))
def test_a_range_is_what_slicing_says(size: int, first: int, last: int) -> None:
    content = bytes(range(size))

    def part(header: str) -> bytes | None:
        found = byte_range(header, size)
        if found is None:
            return None
        assert 0 <= found.start <= found.stop <= size
        return content[found.start : found.stop]

    assert part(f"bytes={first}-") == content[first:]
    assert part(f"bytes=-{last}") == (content[-last:] if last else b"")
    assert part(f"bytes={first}-{last}") == (content[first : last + 1] if first <= last else None)


@for_each(
    "header",
    [
        None,
        "",
        "bytes=-",
        "bytes=a-b",
        "bytes=1-2,4-5",
        "items=0-1",
        "bytes=0",
        f"bytes={'9' * 30}-",
    ],
)
def test_a_range_that_means_nothing_is_the_whole_file(header: str | None) -> None:
    assert byte_range(header, 10) is None

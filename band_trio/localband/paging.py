"""Pages of long lists: by cursor and, for older clients, by number (platform docs, Pagination)."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

import attrs

from band_trio.protocol import codec
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.stores.refusal import Refusal, invalid

T = TypeVar("T")

Parse = Callable[[str], Any]
"""Reads the value of a query parameter; raises ValueError with the text for `details`."""

MAX: Final = 100
SUNSET: Final = {"deprecation": "true", "sunset": "Thu, 01 Oct 2026 00:00:00 GMT"}
"""Headers of answers to page numbers, where cursors are the rule."""


@attrs.frozen
class Param:
    """A query parameter: how its text is read, and how that is described."""

    read: Parse
    schema: dict[str, Any]

    def __call__(self, text: str) -> Any:
        """Read the text."""
        return self.read(text)


def whole(low: int, high: int | None = None) -> Param:
    """Read a whole number within bounds."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError("must be an integer") from None
        if value < low:
            raise ValueError(f"must be greater than or equal to {low}")
        if high is not None and value > high:
            raise ValueError(f"must be less than or equal to {high}")
        return value

    bounds = {"minimum": low} | ({"maximum": high} if high is not None else {})
    return Param(parse, {"type": "integer", **bounds})


def choice(*values: str) -> Param:
    """Read one of a few words."""

    def parse(text: str) -> str:
        if text not in values:
            raise ValueError("Invalid value for enum")
        return text

    return Param(parse, {"type": "string", "enum": list(values)})


def _switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("must be true or false")
    return text == "true"


switch: Final = Param(_switch, {"type": "boolean"})
"""Reads `true` or `false`."""


def is_uuid(text: str) -> bool:
    """Tell whether *text* has the form of an id."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True


CURSOR: Final[dict[str, Parse]] = {"cursor": str, "limit": whole(1, MAX)}
LAST_PAGE: Final = 1_000_000_000
NUMBER: Final[dict[str, Parse]] = {"page": whole(1, LAST_PAGE), "page_size": whole(1, MAX)}


def read_query(pairs: Sequence[tuple[str, str]], declared: Mapping[str, Parse]) -> dict[str, Any]:
    """Check the query of a request against what its route declares.

    Raises:
        Refusal: 422 that names every parameter that is undeclared or wrong.
    """
    values: dict[str, Any] = {}
    details: dict[str, list[str]] = {}
    for name, text in pairs:
        parse = declared.get(name)
        if parse is None:
            details[f"/{name}"] = [f"Unexpected field: {name}"]
            continue
        try:
            values[name] = parse(text)
        except ValueError as exc:
            details[f"/{name}"] = [str(exc)]
    if {"cursor", "limit"} & values.keys() and {"page", "page_size"} & values.keys():
        details["/page"] = ["cannot be combined with cursor or limit"]
    if details:
        raise Refusal(422, "validation_error", "Request validation failed", details=details)
    return values


# --------------------------------------------------------------------------- pages


@attrs.frozen
class Page:
    """The rows of a page and the metadata that goes with them."""

    rows: list[int]
    metadata: dict[str, Any]
    deprecated: bool = False


@attrs.frozen
class View:
    """A list in one order under one filter; its cursors are good for no other."""

    name: str
    rows: Sequence[int]
    """Rising numbers."""
    keys: Sequence[str] | None = None
    """What rows that are numbered by their place are known by: one text each, rising, the same for
    as long as the row is there. None: the numbers are that already."""
    descending: bool = False
    drifting: bool = False
    """Cursors count rows instead of remembering one: what leaves the list shifts the pages."""

    def page(self, query: Mapping[str, Any], default: int) -> Page:
        """Return the page that *query* asks for.

        Raises:
            Refusal: 422, the cursor is none of this view.
        """
        if "page" in query or "page_size" in query:
            return self._by_number(query.get("page", 1), query.get("page_size", default))
        limit = query.get("limit", default)
        start = self._start(query["cursor"]) if query.get("cursor") else 0
        rows = self._slice(start, limit)
        return Page(rows, self._keyset(rows, start, limit))

    def _by_number(self, page: int, size: int) -> Page:
        start = (page - 1) * size
        rows = self._slice(start, size)
        return Page(
            rows, {**self._keyset(rows, start, size), **numbers(page, size, len(self.rows))}, True
        )

    def _slice(self, start: int, count: int) -> list[int]:
        if not self.descending:
            return list(self.rows[start : start + count])
        end = len(self.rows) - start
        return list(self.rows[max(end - count, 0) : max(end, 0)])[::-1]

    def _keyset(self, rows: list[int], start: int, limit: int) -> dict[str, Any]:
        more = start + len(rows) < len(self.rows) and bool(rows)
        cursor = None
        if more:
            place = start + len(rows) if self.drifting else self._key(rows[-1])
            cursor = base64.urlsafe_b64encode(codec.dumps([self.name, place])).decode()
        return {"has_more": more, "limit": limit, "next_cursor": cursor}

    def _key(self, row: int) -> int | str:
        return row if self.keys is None else self.keys[row]

    def _start(self, cursor: str) -> int:
        """Return how many rows of the view lie before the page behind *cursor*."""
        try:
            name, place = codec.loads(base64.urlsafe_b64decode(cursor))
        except (binascii.Error, ValueError, TypeError, RemoteProtocolError):
            raise invalid("/cursor", "is invalid") from None
        if name != self.name:
            raise invalid("/cursor", "belongs to another sort or filter")
        ordered = self.rows if self.keys is None or self.drifting else self.keys
        if type(place) is not (str if ordered is self.keys else int):
            raise invalid("/cursor", "is invalid")
        if self.drifting:
            return int(place)
        if self.descending:
            return len(self.rows) - bisect_left(ordered, place)
        return bisect_right(ordered, place)


def numbers(page: int, size: int, total: int) -> dict[str, int]:
    """Return the metadata of a page by number."""
    return {
        "page": page,
        "page_size": size,
        "total_count": total,
        "total_pages": max(1, -(-total // size)),
    }


def numbered(
    items: Sequence[T], query: Mapping[str, Any], default: int = MAX
) -> tuple[Sequence[T], dict[str, int]]:
    """Return a page of a list that knows page numbers only, and its metadata."""
    page, size = query.get("page", 1), query.get("page_size", default)
    return items[(page - 1) * size : page * size], numbers(page, size, len(items))

"""What all routes share: paths made of ids, and answers read as objects."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

import attrs

from band_trio.errors import BandApiError, InvalidToolArgumentsError
from band_trio.kit.hygiene import without_surrogates_deep
from band_trio.kit.ids import CURSOR_CHARS, ID
from band_trio.kit.logs import RepeatedLog
from band_trio.link.rest.api import Answer
from band_trio.protocol.errors import RemoteProtocolError
from band_trio.protocol.rest import API, ErrorBody, Page
from band_trio.protocol.structure import structure

_repeated: Final = RepeatedLog(logging.getLogger(__name__))

UNREADABLE: Final = "unreadable_answer"
"""Our code for a success without the data that was asked for."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")
"""Ids that are written as they are; the platform's own are."""
_STOPPED: Final = re.compile(r"execution\b.*\bstopped", re.IGNORECASE | re.DOTALL)

_NAMES: Final = re.compile(r"{(\w+)}")

T = TypeVar("T", bound=attrs.AttrsInstance)
R_co = TypeVar("R_co", covariant=True)


@attrs.frozen(eq=False)
class Route(Generic[R_co]):
    """One request of the platform, said once; `RestClient.request` makes it."""

    method: str
    """GET, PUT and DELETE may be repeated, POST must not take effect twice."""
    path: str
    """Behind `API`; names of values stand in braces. What is not in it is the query of a GET and
    the body of all others."""
    read: Callable[[Answer], R_co]
    """Its answer as an object: `page_of`, `one`, `written`, `nothing`."""
    under: str = ""
    """Key under which the body stands, if it does."""

    def filled(self, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the path with its values, and the values that are not in it."""
        names = _NAMES.findall(self.path)
        path = self.path.format(**{name: segment(values[name]) for name in names})
        return API + path, {name: each for name, each in values.items() if name not in names}


def says_stopped(status: int, error: ErrorBody | BandApiError) -> bool:
    """Tell whether an answer says that the agent is stopped in the room (platform docs, Stop)."""
    if status != 403:
        return False
    return error.code == "execution_stopped" or bool(_STOPPED.search(error.message or ""))


# --------------------------------------------------------------------------- requests


@lru_cache(maxsize=1024)
def room_path(room_id: str) -> str:
    """Return the path of a room."""
    return f"{API}/chats/{segment(room_id)}"


@lru_cache(maxsize=1024)  # a message is claimed and marked
def message_path(room_id: str, message_id: str) -> str:
    """Return the path of a message."""
    return f"{room_path(room_id)}/messages/{segment(message_id)}"


def segment(name: str) -> str:
    """Return an id as one segment of a path: ids are opaque text.

    The platform's were checked when they came in; others come from models and applications.

    Raises:
        InvalidToolArgumentsError: it cannot be an id.
    """
    if type(name) is str and _PLAIN.fullmatch(name):
        return name
    if not ID.accepts(name):
        raise InvalidToolArgumentsError(f"An id consists of {ID}. Nothing was requested.")
    return quote(name, safe="") if name not in (".", "..") else name.replace(".", "%2E")


def query(**values: Any) -> dict[str, Any]:
    """Return the parameters of a query, without what is None.

    Raises:
        InvalidToolArgumentsError: a URL cannot hold that much.
    """
    size = sum(len(value) for value in values.values() if isinstance(value, str))
    if size > CURSOR_CHARS:
        raise InvalidToolArgumentsError(
            f"A cursor or search text is too long: {size:,} characters, at most {CURSOR_CHARS:,} "
            "are possible. Nothing was requested."
        )
    return given(**values)


def given(**values: Any) -> dict[str, Any]:
    """Return a body without what is None; null is never sent for an optional key."""
    body = {name: value for name, value in values.items() if value is not None}
    clean: dict[str, Any] = without_surrogates_deep(body)
    return clean


# --------------------------------------------------------------------------- answers


def read_object(answer: Answer, kind: type[T]) -> T:
    """Read the object that was asked for.

    Raises:
        BandApiError: it is not there; the code is `UNREADABLE`.
    """
    try:
        return structure(answer.data, kind)
    except RemoteProtocolError as exc:
        raise unreadable(answer, exc) from None


def read_page(answer: Answer, kind: type[T]) -> Page[T]:
    """Read the page that was asked for. Errors: see `read_object`."""
    try:
        return Page.read(answer.body, kind)
    except RemoteProtocolError as exc:
        raise unreadable(answer, exc) from None


def read_head(answer: Answer, kind: type[T]) -> Page[T]:
    """Read the head of a list: a page of one, or of none where the list is empty.

    One that is there and cannot be read is dropped, as in any list. Errors: see `read_object`.
    """
    if answer.status == 204:
        return Page([])
    if not isinstance(answer.data, dict):
        raise unreadable(answer, RemoteProtocolError(f"{kind.__name__}: an object is needed"))
    return Page.read({"data": [answer.data]}, kind)


def read_written(answer: Answer, kind: type[T]) -> T | None:
    """Read the answer to a write. Any 2xx is success, so an odd body is only logged."""
    try:
        written = structure(answer.data, kind)
    except RemoteProtocolError as exc:
        _repeated.warning("a write succeeded with an odd answer (%d): %s", answer.status, exc)
        return None
    if getattr(written, "id", "none is expected") is None:
        _repeated.warning("a write succeeded with an odd answer (%d): no id", answer.status)
    return written


def page_of(kind: type[T]) -> Callable[[Answer], Page[T]]:
    """Read a list of *kind*; see `read_page`."""
    return lambda answer: read_page(answer, kind)


def one(kind: type[T]) -> Callable[[Answer], T]:
    """Read one *kind*; see `read_object`."""
    return lambda answer: read_object(answer, kind)


def written(kind: type[T]) -> Callable[[Answer], T | None]:
    """Read the *kind* that was written; see `read_written`."""
    return lambda answer: read_written(answer, kind)


def nothing(answer: Answer) -> None:
    """Read nothing: that the answer is a success is all there is to know."""


def unreadable(answer: Answer, exc: RemoteProtocolError) -> BandApiError:
    """Return the error for a success without the data that was asked for."""
    return BandApiError(answer.status, UNREADABLE, answer.flaw or str(exc))

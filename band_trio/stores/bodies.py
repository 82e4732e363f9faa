"""Bodies of requests: what fits and what is a 422 (platform docs, Errors)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from band_trio.kit.hygiene import has_visible
from band_trio.stores.refusal import invalid

BLANK: Final = "can't be blank"
NO_ENUM: Final = "Invalid value for enum"


def section(body: Any, name: str) -> dict[str, Any]:
    """Take the object *name* out of a body.

    Raises:
        Refusal: 422, it is missing or no object.
    """
    value = body.get(name) if isinstance(body, dict) else None
    if not isinstance(value, dict):
        raise invalid(f"/{name}", BLANK if value is None else "must be an object")
    return value


def whole(body: Any, *, known: Collection[str]) -> dict[str, Any]:
    """Take a body that is an object itself and changes at least one of the *known* fields.

    A field that is null is as good as absent.

    Raises:
        Refusal: 422.
    """
    if not isinstance(body, dict):
        raise invalid("/", BLANK if body is None else "must be an object")
    given = {name: value for name, value in body.items() if name in known and value is not None}
    if not given:
        raise invalid("/", f"at least one of {', '.join(known)} is needed")
    return given


def text(value: Any, pointer: str) -> str:
    """Check a text that must have a visible character.

    Raises:
        Refusal: 422.
    """
    if value is None:
        raise invalid(pointer, BLANK)
    if not has_visible(words(value, pointer)):
        raise invalid(pointer, BLANK)
    return str(value)


def words(value: Any, pointer: str) -> str:
    """Check a text that may be empty.

    Raises:
        Refusal: 422.
    """
    if not isinstance(value, str):
        raise invalid(pointer, "must be a string")
    return value


def one_of(value: Any, pointer: str, allowed: Collection[str]) -> str:
    """Check one of a few words.

    Raises:
        Refusal: 422.
    """
    if value is None:
        raise invalid(pointer, BLANK)
    if not isinstance(value, str) or value not in allowed:
        raise invalid(pointer, NO_ENUM)
    return value


def optional_object(value: Any, pointer: str) -> Mapping[str, Any] | None:
    """Check an object that may be missing.

    Raises:
        Refusal: 422.
    """
    if value is not None and not isinstance(value, dict):
        raise invalid(pointer, "must be an object")
    return value

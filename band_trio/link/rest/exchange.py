"""The seam below the REST engine: one request out, one answer in, and the two ways to fail.

`band_trio.link.rest.transport` carries requests over connections of our own,
`band_trio.link.rest.foreign` over a transport of the application.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import attrs

from band_trio.kit.hygiene import clean_text

WITH_LENGTH: Final = ("POST", "PUT", "PATCH")
"""Methods whose requests say how long their body is although there is none."""
_AS_IT_IS: Final = (b"", b"identity")


class Unreached(Exception):
    """Nothing was sent; the text says why. Inside only."""


class CutOff(Exception):
    """It broke off after sending may have begun; the text says why. Inside only."""


@attrs.define
class Reply:
    """An answer as it came in."""

    status: int
    headers: Mapping[bytes, bytes]
    """By names in small letters; of equal ones the first."""
    body: bytes | bytearray = b""
    """Empty where there is a flaw."""
    flaw: str = ""
    """Why the body is of no use."""

    def header(self, name: str) -> str | None:
        """Return a header by its lower-case name."""
        value = self.headers.get(name.encode("ascii"))
        return None if value is None else value.decode("latin-1")


class Carrier(Protocol):
    """Carries requests to one platform, with the headers that each of them has."""

    async def exchange(
        self, method: str, target: str, headers: Mapping[str, str], content: bytes, limit: int
    ) -> Reply:
        """Send one request; return the answer, its body read up to *limit* bytes.

        *target* is path and query, printable ASCII without blanks; the values of *headers*, those
        of this request alone, are printable ASCII.

        Raises:
            Unreached: nothing was sent.
            CutOff: the outcome is unknown.
        """


def head_flaw(headers: Mapping[bytes, bytes], limit: int) -> str:
    """Say what a head tells against the body behind it; nothing is decoded, or read in vain."""
    coding = headers.get(b"content-encoding")
    if coding is not None and coding.strip().lower() not in _AS_IT_IS:
        said = clean_text(coding.decode("latin-1"), 20)
        return f"a content coding that was not asked for ({said})"
    announced = headers.get(b"content-length", b"")
    if announced.isdigit() and len(announced) < 20 and int(announced) > limit:
        return f"{int(announced)} bytes where {limit} are the limit"
    return ""


def too_long(limit: int) -> str:
    """Say that a body went on beyond its limit."""
    return f"it is longer than {limit} bytes"

"""Values that are sent as they are and shown as nothing.

Tools that print tracebacks with locals show `repr()` of whatever holds a key: the credentials, a
tuple, the headers of a request. The value itself has to be silent, because it is copied between
containers of other libraries that know only of `Authorization`.
"""

from __future__ import annotations

from typing import Any, final

from band_trio.kit.hygiene import REDACTED


@final
class Secret(str):
    """A text that is equal to itself and has no readable repr; encoded, it stays one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(REDACTED)

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> SecretBytes:
        """Return the bytes, as silent as the text."""
        return SecretBytes(super().encode(encoding, errors))


@final
class SecretBytes(bytes):
    """Such a value on its way to the wire, for example in headers."""

    def __repr__(self) -> str:
        return f"b{REDACTED!r}"

    def __bytes__(self) -> SecretBytes:
        return self  # h11 normalizes header values by `bytes(value)`, and shows them in a repr

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> Secret:
        """Return the text; httpx decodes header values to show them."""
        return Secret(super().decode(encoding, errors))


def silent(value: Any) -> Any:
    """Return a text as a `Secret`; what is no text is somebody else's to refuse."""
    return Secret(value) if isinstance(value, str) else value

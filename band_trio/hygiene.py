"""Text that leaves the process: without secrets, without broken characters, within a limit."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote, quote_plus

REDACTED: Final = "[REDACTED]"

_SCHEMES: Final = re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{4,}")
_PLATFORM_KEYS: Final = re.compile(r"\bthnv_[A-Za-z0-9_.~-]{4,}")
_FIELD: Final = (
    r"(?:[A-Za-z0-9_]+[_-])*(?:x-?)?(?:api[_-]?key|apikey|authorization|auth[_-]?token|token"
    r"|password|passwd|secret|credential|cookie)s?"
)
_FIELDS: Final = re.compile(rf"(?i)(['\"]?\b{_FIELD}['\"]?\s*[:=]\s*)(['\"]?)([^\s'\",;&}}\]]+)")
_FIELD_NAME: Final = re.compile(rf"(?i)^{_FIELD}$")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def redact_credentials(text: str, secrets: Iterable[str] = ()) -> str:
    """Mask credentials in *text*: each of *secrets* (raw and URL-encoded) and what looks like one.

    Masked by shape: bearer and basic values, keys of the platform, values of fields whose name
    says that they are a credential.
    """
    for secret in secrets:
        if secret:
            for form in sorted({secret, quote(secret, safe=""), quote_plus(secret)}, key=len):
                text = text.replace(form, REDACTED)
    text = _SCHEMES.sub(lambda m: f"{m[1]}{m[2]}{REDACTED}", text)
    text = _PLATFORM_KEYS.sub(REDACTED, text)
    return _FIELDS.sub(_mask_field, text)


def _mask_field(match: re.Match[str]) -> str:
    if match[3].lower() in {"bearer", "basic"}:  # the scheme; its value is masked already
        return match[0]
    return f"{match[1]}{match[2]}{REDACTED}"


def redact_credentials_deep(value: Any, secrets: Iterable[str] = ()) -> Any:
    """Mask credentials in a JSON-like value: strings, and whatever a credential-named key holds."""
    secrets = tuple(secrets)
    if isinstance(value, str):
        return redact_credentials(value, secrets)
    if isinstance(value, dict):
        return {
            key: REDACTED
            if isinstance(key, str) and _FIELD_NAME.match(key)
            else redact_credentials_deep(item, secrets)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact_credentials_deep(item, secrets) for item in value]
    return value


def has_visible(text: str) -> bool:
    """Tell whether *text* has a character that a reader sees (Unicode class L, N, P or S)."""
    return any(unicodedata.category(char)[0] in "LNPS" for char in text)


def without_surrogates(text: str) -> str:
    """Replace lone surrogates by U+FFFD: UTF-8 cannot encode them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def without_controls(text: str) -> str:
    """Replace control characters other than tab and newline, NUL included, by U+FFFD."""
    return _CONTROLS.sub("\ufffd", text)


def clip(text: str, limit: int, marker: str = " … ") -> str:
    """Cut *text* in the middle to at most *limit* characters, keeping head and tail.

    Never splits a joined emoji or a base character from its combining marks.
    """
    if len(text) <= limit:
        return text
    if limit <= len(marker):
        return text[:limit]
    head = (limit - len(marker) + 1) // 2
    tail = limit - len(marker) - head
    while head > 0 and _joins(text[head - 1], text[head]):
        head -= 1
    start = len(text) - tail
    while start < len(text) and _joins(text[start - 1], text[start]):
        start += 1
    return text[:head] + marker + text[start:]


def _joins(before: str, after: str) -> bool:
    """Tell whether two neighbours belong to one visible character."""
    return (
        "\u200d" in (before, after)
        or unicodedata.combining(after) != 0
        or "\ufe00" <= after <= "\ufe0f"
        or "\U0001f3fb" <= after <= "\U0001f3ff"
    )


def leaf_errors(error: BaseException) -> list[BaseException]:
    """Return the errors of nested groups, in order; a plain error is its own leaf."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in leaf_errors(each)]
    return [error]


def error_text(error: BaseException, limit: int, secrets: Iterable[str] = ()) -> str:
    """Describe *error* for the platform: `ClassName: message` of its leaves, clean and capped.

    Never empty: an error whose `str()` fails or is blank is its class name.
    """
    text = "; ".join(_describe(leaf) for leaf in leaf_errors(error))
    text = redact_credentials(without_controls(without_surrogates(text)), secrets)
    return clip(text, limit) or type(error).__name__


def _describe(error: BaseException) -> str:
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not replace the error that it describes
        return name
    return f"{name}: {message}" if has_visible(message) else name

"""Text that leaves the process: without secrets, without broken characters, within a limit."""

from __future__ import annotations

import re
import traceback
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from band_trio.kit.leaves import leaf_errors

REDACTED: Final = "[REDACTED]"
SHORTENED: Final = "\n… shortened …\n"
"""Stands where the middle of a long text was."""

_MAX_DEPTH: Final = 200
"""Values nested deeper than parsed JSON can be are hidden as a whole."""

# Only the end of a name counts: `x-api-key`, `accessToken` and `DB_PASSWORD` are credentials,
# `max_tokens` is a number. Every pattern here is linear in the text: error texts can be huge.
_NAME: Final = (
    r"(?:authorization|token|passwd|pwd|passphrase|(?:password|secret|credential|cookie"
    r"|(?:api|private|access|secret|signing|encryption)[_-]?key)s?)"
)
_VALUE: Final = r"\\+[\"'][^\"']*|\"(?:[^\"\\]|\\.)*|'(?:[^'\\]|\\.)*"
_FIELDS: Final = re.compile(
    rf"({_NAME})((?:\\?[\"'])?\s{{0,8}}[:=]>?\s{{0,8}}|[\"'],\s{{0,8}}(?=b[\"']))(b?)"
    rf"(?:({_VALUE})|((?:\[REDACTED\]|[^\s'\",;&}})\]])+))",
    re.IGNORECASE | re.DOTALL,
)
# The value of these goes on to the end of the line: `Token abc`, `a=b; c=d`.
_HEADERS: Final = re.compile(
    r"\b((?:proxy-)?authorization|(?:set-)?cookie)(\s{0,8}[:=]\s{0,8})([^\s'\"][^\r\n'\"]*)",
    re.IGNORECASE,
)
_BEARER: Final = re.compile(
    r"\b(bearer)(\s{1,8}|\s{0,8}[:=]\s{0,8})(?!tokens?\b|auth)(?=\S{4})"
    r"(?:\[REDACTED\]|[^\s'\",;<>)\]}\\])+",
    re.IGNORECASE,
)
# "basic" is also a word: its value must look like base64.
_BASIC: Final = re.compile(r"\b((?i:basic))(\s{1,8})(?=[a-z]{0,64}[A-Z0-9+/=])[A-Za-z0-9+/=_-]{4,}")
_KEYS: Final = re.compile(
    r"\bthnv_[A-Za-z0-9_.~-]{4,}|\bsk-(?=[A-Za-z_-]{0,64}\d)[A-Za-z0-9_-]{16,}"
)
# With a scheme or without, as in `HTTPS_PROXY=user:password@host:3128`.
_USERINFO: Final = re.compile(
    r"(?:(?<=://)[^/\s:@'\"]{0,200}"
    r"|(?<![^\s'\"=(<,;\[{])(?!(?i:mailto|acct|sips?|xmpp|cc|from|to):)[^/\s:@'\"=(<,;\[{]{1,200})"
    r":[^/\s'\"]{1,200}(?=@[\w\[])"
)
_FIELD_NAME: Final = re.compile(rf"{_NAME}$", re.IGNORECASE)
_HARMLESS: Final = frozenset({"none", "null", "true", "false"})
_WINDOW: Final = 32_768
"""Characters at either end of a huge error text that are looked at; what is kept is far less."""
_TRACEBACK_CHARS: Final = 20_000
"""Longest traceback in the log; head and tail are kept."""
LINE_CHARS: Final = 4_000
"""Longest text of somebody else in a line of ours."""
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# What ends a line, moves the cursor, turns the reading direction, is not there to be seen, or
# cannot be encoded. Joiners stay: emoji and some scripts are written with them.
_UNFIT: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\ud800-\udfff]+"
)


def redact_credentials(text: str, secrets: Iterable[str] = ()) -> str:
    """Mask credentials in *text*: each of *secrets* (raw and URL-encoded) and what looks like one.

    Masked by shape: bearer and basic values, keys of the platform and of common providers, user
    and password in a URL, values of fields whose name says that they are a credential.
    """
    text = _without(text, (secrets,) if isinstance(secrets, str) else tuple(secrets))
    text = _KEYS.sub(REDACTED, _USERINFO.sub(REDACTED, text))
    text = _HEADERS.sub(rf"\1\2{REDACTED}", text)
    text = _BASIC.sub(rf"\1\2{REDACTED}", _BEARER.sub(rf"\1\2{REDACTED}", text))
    return _FIELDS.sub(_mask_field, text)


def _mask_field(match: re.Match[str]) -> str:
    name, separator, prefix, quoted, bare = match.groups()
    if quoted is None:
        kept = bare.lower() in _HARMLESS
        return match[0] if kept else f"{name}{separator}{prefix}{REDACTED}"
    opening = quoted[: len(quoted) - len(quoted.lstrip("\\")) + 1]
    # The closing quote stands behind the match; an escaped one keeps its backslashes.
    closing = opening[:-1] if quoted.endswith("\\") else ""
    return f"{name}{separator}{prefix}{opening}{REDACTED}{closing}"


def _without(text: str, secrets: tuple[str, ...]) -> str:
    pattern = _secrets_pattern(secrets)
    return pattern.sub(REDACTED, text) if pattern is not None else text


@lru_cache(maxsize=32)
def _secrets_pattern(secrets: tuple[str, ...]) -> re.Pattern[str] | None:
    """Match any of *secrets*, the longest first, each character raw, URL-encoded or escaped."""
    ordered = sorted({secret for secret in secrets if secret.strip()}, key=len, reverse=True)
    # The plain forms come first: they are literals, which the regex engine finds fast.
    forms = [re.escape(secret) for secret in ordered]
    forms += ["".join(map(_any_form, secret)) for secret in ordered]
    return re.compile("|".join(forms)) if forms else None


def _any_form(char: str) -> str:
    octets = char.encode("utf-8", "surrogatepass")
    encoded = "".join(f"%(?i:{octet:02x})" for octet in octets)
    if char == " ":
        return rf"(?: |\+|{encoded})"
    escaped = r"\\?" if char in "\"'\\/" else ""
    return f"(?:{escaped}{re.escape(char)}|{encoded})"


def redact_credentials_deep(value: Any, secrets: Iterable[str] = ()) -> Any:
    """Mask credentials in a JSON-like value: strings, and whatever a credential-named key holds.

    Tuples become lists. None and booleans are never masked: they give nothing away.
    """
    return _redact(value, (secrets,) if isinstance(secrets, str) else tuple(secrets), _MAX_DEPTH)


def _redact(value: Any, secrets: tuple[str, ...], depth: int) -> Any:
    if isinstance(value, str):
        return redact_credentials(value, secrets)
    if not isinstance(value, dict | list | tuple):
        return value
    if depth == 0:
        return REDACTED
    if not isinstance(value, dict):
        return [_redact(item, secrets, depth - 1) for item in value]
    redacted = {}
    for key, item in value.items():
        if isinstance(key, str):
            key = _without(key, secrets)
            if _FIELD_NAME.search(key) and not (item is None or isinstance(item, bool)):
                item = REDACTED
        redacted[key] = _redact(item, secrets, depth - 1)
    return redacted


def has_visible(text: str) -> bool:
    """Tell whether *text* has a character that a reader sees (Unicode class L, N, P or S)."""
    return any(unicodedata.category(char)[0] in "LNPS" for char in text)


def without_surrogates(text: str) -> str:
    """Replace lone surrogates by U+FFFD: UTF-8 cannot encode them. A pair becomes its character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def without_surrogates_deep(value: Any) -> Any:
    """Replace lone surrogates in a JSON value, its keys included; a changed copy is returned."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {
            without_surrogates(key) if isinstance(key, str) else key: without_surrogates_deep(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [without_surrogates_deep(item) for item in value]
    return value


def one_line(text: str) -> str:
    """Return a name or title without control characters, for fields that have one line."""
    return _CONTROLS.sub("", text.replace("\t", " ").replace("\n", " ")).strip()


def without_controls(text: str) -> str:
    """Replace control characters other than tab and newline, NUL included, by U+FFFD."""
    return _CONTROLS.sub("\ufffd", text)


_TRACEBACK: Final = "Traceback (most recent call last)"


def without_tracebacks(text: str) -> str:
    """Return *text* without the stacks that it quotes; what was raised stays."""
    if _TRACEBACK not in text:
        return text
    kept, inside = [], False
    for line in text.splitlines():
        before, found, _ = line.partition(_TRACEBACK)
        if found:
            inside, line = True, before.rstrip(" +|")
        elif inside and line[:1] in ("", " ", "\t"):
            continue
        else:
            inside = False
        if line.strip():
            kept.append(line)
    return "\n".join(kept)


def clip(text: str, limit: int, marker: str = " … ") -> str:
    """Cut *text* in the middle to at most *limit* characters, keeping head and tail.

    Never splits a joined emoji, a flag, or a base character from its combining marks.
    """
    if len(text) <= limit:
        return text
    if limit <= len(marker):
        return text[: _head(text, max(limit, 0))]
    room = limit - len(marker)
    head = _head(text, (room + 1) // 2)
    start = len(text) - room // 2
    while start < len(text) and _splits(text, start):
        start += 1
    return text[:head] + marker + text[start:]


def _head(text: str, end: int) -> int:
    while end > 0 and _splits(text, end):
        end -= 1
    return end


def _splits(text: str, index: int) -> bool:
    """Tell whether a cut before *index* goes through one visible character."""
    before, after = text[index - 1], text[index]
    if _is_flag_part(before) and _is_flag_part(after):  # flags are pairs
        first = index - 1
        while first > 0 and _is_flag_part(text[first - 1]):
            first -= 1
        return (index - first) % 2 == 1
    return (
        before == "\u200d"
        or after in "\u200c\u200d"
        or unicodedata.category(after)[0] == "M"  # combining marks, variation selectors, keycaps
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= after <= "\U000e007f"  # tags, of which some flags are made
        or "\u1160" <= after <= "\u11ff"  # later parts of a Hangul syllable
    )


def _is_flag_part(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _escaped(text: str) -> str:
    return _UNFIT.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def clean_text(text: str, limit: int = LINE_CHARS, secrets: Iterable[str] = ()) -> str:
    r"""Return somebody else's words fit for a line of ours, in a log or an error.

    One line of at most *limit* characters without secrets; controls are shown as escapes (`\n`).
    What goes to a room or to a model may keep its lines: see `clean_lines`.
    """
    return masked(_escaped(clip(text, 2 * max(_WINDOW, limit))), limit, secrets)


def clean_lines(text: str, limit: int, secrets: Iterable[str] = ()) -> str:
    """Return somebody else's words fit for a room or a model: as `clean_text`, with their lines."""
    return masked(without_controls(without_surrogates(text)), limit, secrets)


def masked(text: str, limit: int, secrets: Iterable[str] = ()) -> str:
    """Return *text* without secrets, cut in the middle to *limit* characters."""
    # Masking a megabyte would stop the whole program for half a second.
    return clip(redact_credentials(clip(text, 2 * max(_WINDOW, limit)), secrets), limit)


def traceback_text(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """Return an error with its traceback for the log, without secrets, cut in the middle."""
    text = "".join(traceback.format_exception(error))
    # Masking megabytes of text would stop the whole program for a while.
    text = redact_credentials(clip(text, _TRACEBACK_CHARS, "\n …\n"), secrets)
    # Indented, so that no line of somebody else's text can be taken for one of the log.
    return "\n".join(f"  {_escaped(line)}" for line in text.rstrip("\n").split("\n"))


def error_text(error: BaseException, limit: int, secrets: Iterable[str] = ()) -> str:
    """Describe *error* for the platform: `ClassName: message` of its leaves, clean and capped.

    Never empty: an error whose `str()` fails or is blank is its class name.
    """
    text = "; ".join(_describe(leaf) for leaf in leaf_errors(error))
    # Cut before it is looked at: such a text can be megabytes long.
    text = without_tracebacks(clip(text, 2 * max(_WINDOW, limit)))
    text = clean_lines(text, limit, secrets)
    return text if has_visible(text) else type(error).__name__


def error_line(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """Describe *error* as `error_text` does, for a line of ours."""
    return clean_text(error_text(error, LINE_CHARS, secrets), secrets=secrets)


def _describe(error: BaseException) -> str:
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the application's: the platform still wants a text
        return name
    return f"{name}: {message}" if has_visible(message) else name

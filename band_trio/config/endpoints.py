"""Where the platform is: the two URLs, checked before anything is sent to them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit, urlunsplit

import attrs
import idna

from band_trio.config.proxies import Proxy, find_proxy, is_loopback
from band_trio.errors import BandConfigError

DEFAULT_REST_URL: Final = "https://app.band.ai"
DEFAULT_WS_URL: Final = "wss://app.band.ai/api/v1/socket/websocket"
SOCKET_PATH: Final = "/api/v1/socket/websocket"

URL_CHARS: Final = 2000
"""Longest URL: what proxies and servers take."""
_AS_IT_IS: Final = "%/:@!$&'()*+,;=~"
"""What a path may hold besides letters and digits; the rest is percent-encoded."""

# `api_key` must travel in a header only, and the link says `vsn` itself.
_DROPPED: Final = ("api_key", "vsn", "token")


@attrs.frozen
class Endpoints:
    """Where the platform is; both URLs checked."""

    rest_url: str
    """Origin and base path, without a trailing slash; every path begins with `/api/v1`."""
    ws_url: str
    rest_proxy: Proxy | None = None
    """What both are reached through; None for a direct way. They differ where `NO_PROXY` names
    one host of two."""
    ws_proxy: Proxy | None = None


def resolve_endpoints(
    rest_url: str | None = None,
    ws_url: str | None = None,
    *,
    allow_insecure: bool = False,
    proxy: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Endpoints:
    """Find both URLs: arguments, else `BAND_REST_URL` and `BAND_WS_URL`, else the public platform.

    A missing socket URL is derived from a REST URL that is given, its base path included (platform
    docs, Endpoints). The way there is *proxy*, else what the environment says.

    Raises:
        BandConfigError: a URL has the wrong scheme, no host, a key in it, or is unencrypted
            beyond loopback; or the proxy cannot be used.
    """
    environ = os.environ if environ is None else environ
    env = variables(environ)
    rest = _rest_url(*_first(env, rest_url=rest_url, default=DEFAULT_REST_URL), allow_insecure)
    derived = _socket_url(rest)
    if rest_url and not ws_url:
        env.pop("BAND_WS_URL", None)
    ws = _ws_url(*_first(env, ws_url=ws_url, default=derived), allow_insecure)
    rest_proxy, ws_proxy = (find_proxy(url, proxy, environ) for url in (rest, ws))
    return Endpoints(rest, ws, rest_proxy, ws_proxy)


def _first(env: Mapping[str, str], *, default: str, **given: str | None) -> tuple[str, str]:
    """Return what was given, or the variable of that name, or the default; and what to call it."""
    [(name, url)] = given.items()
    variable = f"BAND_{name.upper()}"
    if url or variable not in env:
        return url or default, name
    return env[variable], variable


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment by names in capitals, blanks stripped, empty variables left out.

    Of names that differ in case only, the one in capitals counts.
    """
    by_rank = sorted(environ.items(), key=lambda item: item[0].isupper())
    return {name.upper(): text.strip() for name, text in by_rank if text.strip()}


def _rest_url(url: str, name: str, allow_insecure: bool) -> str:
    parts = _checked(url, name, ("http", "https"), allow_insecure)
    path = parts.path.rstrip("/")
    if parts.query:
        raise BandConfigError(f"{name} must not have a query.")
    if path.endswith("/api/v1"):
        raise BandConfigError(f"{name} must not hold /api/v1: the part before it is enough.")
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _ws_url(url: str, name: str, allow_insecure: bool) -> str:
    parts = _checked(url, name, ("ws", "wss"), allow_insecure)
    query = [(k, v) for k, v in parse_qsl(parts.query, True) if k not in _DROPPED]
    return urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(query), ""))


def _socket_url(rest_url: str) -> str:
    parts = urlsplit(rest_url)
    scheme = "wss" if parts.scheme == "https" else "ws"
    return urlunsplit((scheme, parts.netloc, parts.path + SOCKET_PATH, "", ""))


def _checked(url: str, name: str, schemes: tuple[str, str], allow_insecure: bool) -> SplitResult:
    """Split a URL that is safe to use. No message repeats more of it than scheme and host."""
    parts = _split(url, name)
    host = parts.hostname
    if parts.scheme not in schemes or not host:
        raise BandConfigError(f"{name} must begin with {schemes[1]}:// and name a host.")
    where = f"{parts.scheme}://{host}"
    if "@" in parts.netloc:
        raise BandConfigError(f"{name} ({where}) must not hold credentials.")
    if any(value for key, value in parse_qsl(parts.query) if key == "token"):
        raise BandConfigError(f"{name} ({where}) must not hold a token; pass the key as api_key.")
    if parts.scheme == schemes[0] and not allow_insecure and not is_loopback(host):
        raise BandConfigError(
            f"{name} ({where}) is not encrypted, and the API key would travel in the clear. "
            f"Use {schemes[1]}://, or AgentConfig(allow_insecure=True) in a network you trust."
        )
    return parts


def _split(url: object, name: str) -> SplitResult:
    """Split *url* into parts that are ASCII, as they go on the wire."""
    text = url.strip() if isinstance(url, str) else ""
    try:
        parts = urlsplit(text)
        usable = text.isprintable() and " " not in text and parts.port != 0
        netloc = _ascii_host(parts)
    except ValueError:  # it quotes the URL, which may hold a key
        usable, parts, netloc = False, urlsplit(""), ""
    if not usable or len(text) > URL_CHARS:
        raise BandConfigError(
            f"{name} is not a valid URL: it needs the form https://host, {URL_CHARS} characters "
            "at most."
        )
    return parts._replace(netloc=netloc, path=quote(parts.path, safe=_AS_IT_IS))


def _ascii_host(parts: SplitResult) -> str:
    """Return host and port with the host as DNS knows it.

    Raises:
        ValueError: there can be no such host.
    """
    host = parts.hostname or ""
    if (":" in host and not parts.netloc.startswith("[")) or parts.path.startswith("//"):
        raise ValueError  # half an address, or a scheme written twice
    if "@" in parts.netloc or ":" in host or not host:
        return parts.netloc  # refused by the caller, an address, or missing
    known = idna.encode(host, uts46=True).decode() if not host.isascii() else host
    labels = known.removesuffix(".").split(".")
    if not all(0 < len(label) < 64 for label in labels) or len(known) > 253:
        raise ValueError
    for label in labels:
        if label.startswith("xn--"):
            idna.decode(label)
    return known if parts.port is None else f"{known}:{parts.port}"

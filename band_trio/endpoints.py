"""Where the platform is: the two URLs, checked before anything is sent to them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

import attrs

from band_trio.errors import BandConfigError

DEFAULT_REST_URL: Final = "https://app.band.ai"
DEFAULT_WS_URL: Final = "wss://app.band.ai/api/v1/socket/websocket"
SOCKET_PATH: Final = "/api/v1/socket/websocket"

# `api_key` must travel in a header only, and the link says `vsn` itself.
_DROPPED: Final = ("api_key", "vsn", "token")


@attrs.frozen
class Endpoints:
    """Where the platform is; both URLs checked."""

    rest_url: str
    """Origin, without a trailing slash; every path begins with `/api/v1`."""
    ws_url: str


def resolve_endpoints(
    rest_url: str | None = None,
    ws_url: str | None = None,
    *,
    allow_insecure: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Endpoints:
    """Find both URLs: arguments, else `BAND_REST_URL` and `BAND_WS_URL`, else the public platform.

    A missing socket URL is derived from a REST URL that is given (platform docs, Endpoints).

    Raises:
        BandConfigError: a URL has the wrong scheme, no host, a key in it, or is unencrypted
            beyond loopback.
    """
    env = variables(os.environ if environ is None else environ)
    rest = _rest_url(rest_url or env.get("BAND_REST_URL") or DEFAULT_REST_URL, allow_insecure)
    if ws_url:
        ws = ws_url
    elif rest_url:
        ws = _socket_url(rest)
    else:
        ws = env.get("BAND_WS_URL") or _socket_url(rest)
    return Endpoints(rest, _ws_url(ws, allow_insecure))


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment by names in capitals, blanks stripped, empty variables left out.

    Of names that differ in case only, the one in capitals counts.
    """
    by_rank = sorted(environ.items(), key=lambda item: item[0].isupper())
    return {name.upper(): text.strip() for name, text in by_rank if text.strip()}


def _rest_url(url: str, allow_insecure: bool) -> str:
    parts = _checked(url, "rest_url", ("http", "https"), allow_insecure)
    path = parts.path.rstrip("/")
    if parts.query:
        raise BandConfigError("rest_url must not have a query.")
    if path.endswith("/api/v1"):
        raise BandConfigError("rest_url must not hold /api/v1: the part before it is enough.")
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _ws_url(url: str, allow_insecure: bool) -> str:
    parts = _checked(url, "ws_url", ("ws", "wss"), allow_insecure)
    query = [(k, v) for k, v in parse_qsl(parts.query, True) if k not in _DROPPED]
    return urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(query), ""))


def _socket_url(rest_url: str) -> str:
    parts = urlsplit(rest_url)
    scheme = "wss" if parts.scheme == "https" else "ws"
    return urlunsplit((scheme, parts.netloc, SOCKET_PATH, "", ""))


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
    text = url.strip() if isinstance(url, str) else ""
    try:
        parts = urlsplit(text)
        usable = text.isprintable() and " " not in text and parts.port != 0
    except ValueError:  # it quotes the URL, which may hold a key
        usable, parts = False, urlsplit("")
    if not usable:
        raise BandConfigError(f"{name} is not a valid URL.")
    return parts


def is_loopback(host: str) -> bool:
    """Tell whether *host* names this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

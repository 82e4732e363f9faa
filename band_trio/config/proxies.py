"""The proxy on the way to the platform: the option `proxy`, or what the environment says.

`HTTPS_PROXY` counts for `https` and `wss`, `HTTP_PROXY` for `http` and `ws`, `ALL_PROXY` for what
has none of its own, `NO_PROXY` names the hosts that are reached directly. This machine always is,
unless the option says otherwise. The names may be in small letters, which win, as for curl.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

import attrs

from band_trio.errors import BandConfigError
from band_trio.kit.secret import Secret

PORTS: Final = {"http": 80, "ws": 80, "https": 443, "wss": 443}
"""Where a URL without a port leads."""
_SCHEMES: Final = ("http", "https")
_REMEDY: Final = "give the URL of an HTTP proxy, such as http://proxy.example:3128"
_ENTRY: Final = re.compile(r"(?:\[(.+)\]|([^:]*)|(.+))(?::(\d{1,5}))?")
"""A host, a network or an IPv6 address, with or without brackets; a port behind it."""
_DIRECT: Final = "or name the platform's host in NO_PROXY"


@attrs.frozen
class Proxy:
    """An HTTP proxy that is asked to open a tunnel (`CONNECT`)."""

    host: str
    port: int
    secure: bool = False
    """Whether TLS is spoken with the proxy itself, an `https://` one."""
    authorization: str | None = attrs.field(default=None, repr=False)
    """What its `Proxy-Authorization` says; None without credentials."""
    secrets: tuple[str, ...] = attrs.field(default=(), repr=False)
    """What must not appear in any text: the password in its forms."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"


def find_proxy(url: str, given: str | None, environ: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for *url*: *given*, else the environment's; None for a direct way.

    Raises:
        BandConfigError: the proxy that would be used cannot be.
    """
    if given is not None:
        return read_proxy(given, "proxy")
    parts = urlsplit(url)
    host, kind = parts.hostname or "", parts.scheme.replace("ws", "http")
    port = parts.port or PORTS[kind]
    if is_loopback(host) or bypasses(_variable(environ, "no_proxy")[1], host, port):
        return None
    for name, text in (_variable(environ, f"{each}_proxy") for each in (kind, "all")):
        if text:
            return read_proxy(text, name, _DIRECT)
    return None


def _variable(environ: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return a variable's name as it is spelt there, and its text."""
    for spelt in (name, name.upper()):
        if text := environ.get(spelt, "").strip():
            return spelt, text
    return name.upper(), ""


def read_proxy(text: object, name: str, or_else: str = "") -> Proxy:
    """Read the URL of a proxy.

    Raises:
        BandConfigError: it is none; the text names *name*, and never the value, which may hold a
            password.
    """
    parts = _split(text)
    remedy = f"{_REMEDY}{', ' if or_else else ''}{or_else}"
    if parts is None:
        raise BandConfigError(f"{name} is not the URL of a proxy: {remedy}.")
    if parts.scheme.startswith("socks"):
        raise BandConfigError(
            f"{name} names a SOCKS proxy, which is not supported: {remedy}. Transports of your "
            "own go into AgentConfig(rest_transport=…, open_stream=…)."
        )
    if parts.scheme not in _SCHEMES or not parts.hostname or parts.path.strip("/") or parts.query:
        raise BandConfigError(f"{name} must be http:// or https:// with a host: {remedy}.")
    port = parts.port or PORTS[parts.scheme]
    secure = parts.scheme == "https"
    if "@" not in parts.netloc:
        return Proxy(parts.hostname, port, secure)
    password = unquote(parts.password or "")
    pair = f"{unquote(parts.username or '')}:{password}".encode("utf-8", "replace")
    coded = Secret(b64encode(pair).decode())
    authorization = Secret(f"Basic {coded}")
    return Proxy(parts.hostname, port, secure, authorization, (Secret(password), coded))


def _split(text: object) -> SplitResult | None:
    if not isinstance(text, str) or not text.strip().isprintable() or " " in text.strip():
        return None
    try:
        parts = urlsplit(text.strip())
        usable = "://" in text and parts.port != 0 and (parts.hostname or "x").isascii()
    except ValueError:  # it quotes the text
        return None
    return parts if usable else None


def bypasses(no_proxy: str, host: str, port: int) -> bool:
    """Tell whether `NO_PROXY` names *host*: as itself, as a domain above it, as an address or a
    network, each with or without a port, or as `*`."""
    return any(_names(entry, host, port) for entry in re.split(r"[\s,]+", no_proxy.lower()))


def _names(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    found = _ENTRY.fullmatch(entry)
    if found is None or found[4] not in (None, str(port)):
        return False
    name = (found[1] or found[2] or found[3] or "").removeprefix("*").removeprefix(".")
    try:
        return ip_address(host) in ip_network(name, strict=False)
    except ValueError:
        return bool(name) and (host == name or host.endswith(f".{name}"))


def is_loopback(host: str) -> bool:
    """Tell whether *host* names this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

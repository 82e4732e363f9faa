"""The one way to open a byte stream: DNS, TCP, a proxy, TLS. REST and socket both go this way."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

import trio

from band_trio.config.proxies import PORTS, Proxy
from band_trio.errors import BandConfigError
from band_trio.kit.hygiene import clean_text
from band_trio.kit.leaves import leaf_errors
from band_trio.link.net.tcp import TcpStream
from band_trio.protocol.rest import WORDS_CHARS

SECURE: Final = ("https", "wss")
PROXY_HEAD_BYTES: Final = 16 * 2**10
"""Longest answer of a proxy that is read to its end."""


class DialError(Exception):
    """There is no stream, and nothing was sent to the platform. The text says why."""


async def dial(url: str, proxy: Proxy | None, verify: bool | ssl.SSLContext) -> trio.abc.Stream:
    """Connect to the host of *url*, through *proxy* if there is one; TLS for `https` and `wss`.

    Nothing in here ends by itself where the other side is silent: the caller bounds it.

    Raises:
        DialError: no address answered, the proxy refused, or TLS failed.
        BandConfigError: the certificates cannot be loaded.
    """
    parts = urlsplit(url)
    host, secure = parts.hostname or "", parts.scheme in SECURE
    port = parts.port or PORTS[parts.scheme]
    stream: trio.abc.Stream
    if proxy is None:
        stream = await _connect(host, port, "")
    else:
        stream = await _connect(proxy.host, proxy.port, f"the proxy {proxy}, ")
    try:
        if proxy is not None:
            if proxy.secure:
                stream = await _add_tls(stream, verify, proxy.host)
            await _tunnel(stream, proxy, host, port)
        if secure:
            stream = await _add_tls(stream, verify, host)
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream


async def _connect(host: str, port: int, what: str) -> trio.abc.Stream:
    try:
        return TcpStream(await trio.open_tcp_stream(host, port))
    except (OSError, UnicodeError) as exc:
        said = "; ".join(dict.fromkeys(map(_reason, leaf_errors(exc.__cause__ or exc))))
        raise DialError(f"{what}{host}:{port}: {said}") from None


def _reason(exc: BaseException) -> str:
    if not isinstance(exc, OSError):
        return str(exc)
    # Positive numbers are the system's; those of the resolver are negative and come with words.
    number = exc.errno or 0
    return os.strerror(number) if number > 0 else exc.strerror or str(exc)


async def _add_tls(
    stream: trio.abc.Stream, verify: bool | ssl.SSLContext, host: str
) -> trio.abc.Stream:
    context = tls_context(verify)
    tls = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
    try:
        await tls.do_handshake()
    except (trio.BrokenResourceError, ssl.SSLError) as exc:
        cause = exc.__cause__ or exc
        said = getattr(cause, "verify_message", None) or str(cause) or type(cause).__name__
        hint = ""
        if isinstance(cause, ssl.SSLCertVerificationError):
            hint = "; a CA of your own goes into SSL_CERT_FILE"
        elif "WRONG_VERSION_NUMBER" in said:
            hint = "; no TLS there, so no Band platform answers: is it http://?"
        raise DialError(f"TLS with {host} failed: {said}{hint}") from None
    return tls


async def _tunnel(stream: trio.abc.Stream, proxy: Proxy, host: str, port: int) -> None:
    """Ask *proxy* for a tunnel (RFC 9110, CONNECT); the stream leads to the host afterwards."""
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.authorization is not None:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    said = f"the proxy {proxy}"
    head = bytearray()
    try:
        await stream.send_all(memoryview("\r\n".join([*lines, "", ""]).encode("ascii")))
        while b"\r\n\r\n" not in head:
            data = await stream.receive_some(PROXY_HEAD_BYTES)
            if not data or len(head) > PROXY_HEAD_BYTES:
                raise DialError(f"{said} gave no usable answer to CONNECT {target}")
            head += data
    except trio.BrokenResourceError:
        raise DialError(f"{said} cut the connection at CONNECT {target}") from None
    top, _, rest = bytes(head).partition(b"\r\n\r\n")
    first = top.split(b"\r\n")[0].decode("latin-1")
    version, _, words = first.partition(" ")
    spoken = version.startswith("HTTP/1.")
    if not (spoken and words.startswith("2")):
        hint = " (are its user and password in the proxy's URL?)" if words[:3] == "407" else ""
        why = clean_text(words if spoken else first, WORDS_CHARS, proxy.secrets)
        raise DialError(f"{said} refused CONNECT {target}: {why}{hint}")
    if rest:  # the host does not speak first, neither in TLS nor in HTTP
        raise DialError(f"{said} sent more than its answer to CONNECT {target}")


# --------------------------------------------------------------------------- certificates


def tls_context(verify: bool | ssl.SSLContext) -> ssl.SSLContext:
    """Return *verify* if it is a context, else one for the environment as it is now.

    Raises:
        BandConfigError: `SSL_CERT_FILE` or `SSL_CERT_DIR` names nothing that can be loaded.
    """
    if isinstance(verify, ssl.SSLContext):
        return verify
    return _context(os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None)


@lru_cache(maxsize=4)  # loading the certificates takes tens of milliseconds
def _context(file: str | None, folder: str | None) -> ssl.SSLContext:
    if file is not None and not os.path.isfile(file):
        raise _no_certificates("SSL_CERT_FILE", "file")
    if folder is not None and not os.path.isdir(folder):
        raise _no_certificates("SSL_CERT_DIR", "directory")
    try:
        context = ssl.create_default_context(cafile=file, capath=folder)
    except (OSError, ssl.SSLError):
        raise _no_certificates("SSL_CERT_FILE", "file") from None
    if file is None and folder is None and not _system_has_any(context):
        import certifi  # comes with httpx; for systems that have no certificates of their own

        context.load_verify_locations(certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


def _system_has_any(context: ssl.SSLContext) -> bool:
    folder = ssl.get_default_verify_paths().capath
    return bool(context.cert_store_stats()["x509_ca"] or (folder and os.listdir(folder)))


def _no_certificates(variable: str, kind: str) -> BandConfigError:
    return BandConfigError(
        f"{variable} names no {kind} of certificates that can be loaded: correct it, or unset it to "
        "use the system's."
    )

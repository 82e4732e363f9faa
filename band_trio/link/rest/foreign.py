"""Requests over a transport of the application: an `httpx.AsyncBaseTransport`, whatever it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import httpx  # noqa: ASYNC127, TID251 - the interface of transports
import trio

from band_trio.link.rest.exchange import WITH_LENGTH, CutOff, Reply, Unreached, head_flaw, too_long

POOL_SECONDS: Final = 5.0
"""Longest wait inside a pool that the application has brought; ours have nothing to wait for."""
CLOSE_SECONDS: Final = 1.0
"""Longest end of an answer."""

_CUT_OFF: Final = (httpx.HTTPError, OSError, trio.BrokenResourceError, trio.ClosedResourceError)


class ForeignTransport:
    """Hands requests to *transport*, and maps the library's answers and errors to ours.

    Limits in bytes hold for what it delivers: nothing is decoded, or read beyond them.
    """

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport,
        origin: str,
        headers: Mapping[str, str],
        connect_seconds: float,
    ) -> None:
        self._transport = transport
        self._origin = origin
        host = httpx.URL(origin).netloc
        self._headers = [(b"Host", host), *httpx.Headers(headers).raw]
        # The rest of a try is bounded by its scope alone: a library's own bounds start again with
        # every byte.
        self._extensions = {
            "timeout": {
                "connect": connect_seconds,
                "pool": POOL_SECONDS,
                "read": None,
                "write": None,
            }
        }

    async def exchange(
        self, method: str, target: str, headers: Mapping[str, str], content: bytes, limit: int
    ) -> Reply:
        """Send one request; see `Carrier`."""
        lines = [*self._headers, *httpx.Headers(headers).raw] if headers else [*self._headers]
        if content or method in WITH_LENGTH:
            lines.append((b"Content-Length", b"%d" % len(content)))
        # As a stream: else the library looks through the headers, for what it would add.
        request = httpx.Request(
            method, self._origin + target, headers=lines, stream=httpx.ByteStream(content),
            extensions=self._extensions,
        )  # fmt: skip
        request.read()
        try:
            response = await self._transport.handle_async_request(request)
            return await _read(response, limit)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as exc:
            raise Unreached(_said(exc)) from None
        except httpx.PoolTimeout:
            raise Unreached("no free connection in time") from None
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError) as exc:
            raise Unreached(f"the request cannot be written: {_said(exc)}") from None
        except _CUT_OFF as exc:
            raise CutOff(_said(exc)) from None


async def _read(response: httpx.Response, limit: int) -> Reply:
    """Read the body up to *limit* bytes; let the connection go, whatever happens."""
    stream = cast("httpx.AsyncByteStream", response.stream)
    headers: dict[bytes, bytes] = {}
    for name, value in response.headers.raw:
        headers.setdefault(name.lower(), value)
    content = bytearray()
    length = headers.get(b"content-length", b"")
    odd = len(length) > 7 or (length.isdigit() and int(length) > limit)
    flaw = head_flaw(headers, limit) if odd or b"content-encoding" in headers else ""
    try:
        if not flaw:
            async for part in stream:
                content += part
                if len(content) > limit:
                    flaw = too_long(limit)
                    break
    finally:
        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await stream.aclose()
    return Reply(response.status_code, headers, b"" if flaw else content, flaw)


def _said(exc: BaseException) -> str:
    return str(exc) or type(exc).__name__

"""The one way to the platform: proxies, certificates, base paths, for REST and socket alike."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx  # noqa: ASYNC127 - what reads the URLs in the end
import pytest
import trio
import trio_websocket
import trustme
from hypothesis import given
from hypothesis import strategies as st

from band_trio import Agent, BandConfigError, SimpleAdapter
from band_trio.config.agent import AgentConfig
from band_trio.config.credentials import Credentials
from band_trio.config.endpoints import Endpoints, resolve_endpoints
from band_trio.config.proxies import bypasses, find_proxy, read_proxy
from band_trio.link.channel.socket import ConnectFailed, open_socket
from band_trio.link.net.dialler import DialError, dial, tls_context
from band_trio.link.rest.api import open_api
from band_trio.link.rest.tries import NotSentError
from tests.link.servers import ConnectProxy, PrivateCA, ok, read_request, serving
from tests.marks import case, guarantee
from tests.support.for_each import for_each

PASSWORD = "pa55 w:rd"
BASIC = "Basic Ym9iOnBhNTUgdzpyZA=="


class Nothing(SimpleAdapter[Any]):
    async def on_message(self, msg: Any, tools: Any, *news: Any, **more: Any) -> None:
        """Never called."""


@asynccontextmanager
async def platform(ca: PrivateCA | None = None) -> AsyncGenerator[tuple[int, list[bytes]]]:
    """Serve REST and socket on one port, as far as these tests go; TLS for `band.test`."""
    heads: list[bytes] = []

    async def handle(stream: trio.abc.Stream) -> None:
        while request := await read_request(stream):
            heads.append(request)
            if b"upgrade" in request.lower():
                ours, theirs = trio.testing.memory_stream_pair()
                async with trio.open_nursery() as nursery:
                    await ours.send_all(request)
                    nursery.start_soon(_copy, ours, stream)
                    nursery.start_soon(_copy, stream, ours)
                    upgrade = await trio_websocket.wrap_server_stream(nursery, theirs)
                    await (await upgrade.accept()).send_message("hello")
                    await trio.sleep_forever()
            await stream.send_all(ok())

    async with serving(handle, ca.server("band.test") if ca else None) as port:
        yield port, heads


async def silent(stream: trio.abc.Stream) -> None:
    await trio.sleep_forever()


async def _copy(source: trio.abc.Stream, sink: trio.abc.Stream) -> None:
    async for data in source:
        await sink.send_all(data)


async def ask_both(endpoints: Endpoints, config: AgentConfig) -> None:
    """Make one request and open one socket; both must work."""
    with trio.fail_after(5):
        async with open_api(endpoints, Credentials("a1", "thnv_a_k"), config) as api:
            assert (await api.once("GET", "/api/v1/agent/me")).data == 1

        async def way(url: str) -> trio.abc.Stream:
            return await dial(url, endpoints.ws_proxy, config.verify)

        url = endpoints.ws_url
        async with open_socket(url, "/s", [], open_stream=way, connect_seconds=5) as socket:
            assert await socket.receive() == "hello"


# --------------------------------------------------------------------------- proxies


@guarantee(89)
@case("C71")
@pytest.mark.parametrize("where", ["option", "environment"])
async def test_both_sides_go_through_the_proxy_with_tls_to_the_target_inside(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, ca = ConnectProxy(BASIC), PrivateCA()
    async with platform(ca) as (port, heads), serving(proxy.handle) as proxy_port:
        url = f"http://bob:pa55%20w%3Ard@127.0.0.1:{proxy_port}"
        config = AgentConfig(verify=ca.client(), proxy=url if where == "option" else None)
        environ = {} if where == "option" else {"HTTPS_PROXY": url}
        endpoints = resolve_endpoints(
            f"https://band.test:{port}/base", proxy=config.proxy, environ=environ
        )
        await ask_both(endpoints, config)

    assert proxy.targets == [f"band.test:{port}"] * 2
    assert heads[0].startswith(b"GET /base/api/v1/agent/me ")
    assert endpoints.ws_url == f"wss://band.test:{port}/base/api/v1/socket/websocket"
    for seen in (repr(endpoints), repr(config), str(endpoints.rest_proxy)):
        assert "pa55" not in seen
        assert BASIC[6:] not in seen


@guarantee(89)
async def test_no_proxy_and_loopback_are_reached_directly_by_both() -> None:
    proxy = ConnectProxy()
    async with platform() as (port, _), serving(proxy.handle) as proxy_port:
        environ = {"HTTP_PROXY": f"http://127.0.0.1:{proxy_port}"}
        direct = resolve_endpoints(f"http://127.0.0.1:{port}", environ=environ)
        await ask_both(direct, AgentConfig())
        assert proxy.targets == []

        there = resolve_endpoints(f"http://band.test:{port}", environ=environ, allow_insecure=True)
        await ask_both(there, AgentConfig())
        assert proxy.targets == [f"band.test:{port}"] * 2


@for_each(
    ("answer", "said"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407 .*user and password"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", "refused CONNECT .*403"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "refused CONNECT"),
        (b"pa55 w:rd \x1b[31m\r\n\r\n", r"refused CONNECT [^ ]+: .*REDACTED.*x1b"),
        (b"HTTP/1.1 403 " + BASIC[6:].encode() + b"\r\n\r\n", "403 .*REDACTED"),
        (b"HTTP/1.1 200 OK\r\n\r\nunasked", "more than its answer"),
        (b"HTTP/1.1\r\n\r\n", "refused CONNECT"),
        (b"x" * 100_000, "no usable answer"),
        (b"HTTP/1.1 2", "no usable answer"),
    ],
    ids=[
        "407",
        "403",
        "ssh",
        "quotes",
        "quotes coded",
        "talks too much",
        "no status",
        "endless",
        "cut",
    ],
)
async def test_a_proxy_that_does_not_help_is_named(answer: bytes, said: str) -> None:
    async def handle(stream: trio.abc.Stream) -> None:
        await read_request(stream)
        await stream.send_all(answer)

    async with serving(handle) as port:
        proxy = read_proxy(f"http://bob:pa55%20w%3Ard@127.0.0.1:{port}", "proxy")
        with trio.fail_after(5), pytest.raises(DialError, match=said) as caught:
            await dial("https://band.test:443", proxy, True)
    assert f"the proxy http://127.0.0.1:{port}" in str(caught.value)
    assert str(caught.value).isprintable()
    assert BASIC[6:] not in str(caught.value)
    assert PASSWORD not in str(caught.value)


async def test_a_proxy_may_speak_tls_itself() -> None:
    proxy, ca = ConnectProxy(), PrivateCA()
    async with platform(ca) as (port, _):
        async with serving(proxy.handle, ca.server("127.0.0.1")) as proxy_port:
            option = f"https://127.0.0.1:{proxy_port}"
            config = AgentConfig(proxy=option, verify=ca.client())
            endpoints = resolve_endpoints(f"https://band.test:{port}", proxy=option, environ={})
            await ask_both(endpoints, config)


async def test_a_silent_proxy_is_given_up_and_nothing_was_sent() -> None:
    async with serving(silent) as port:
        endpoints = resolve_endpoints(
            "https://band.test", proxy=f"http://127.0.0.1:{port}", environ={}
        )
        config = AgentConfig(rest_try_seconds=0.2)
        async with open_api(endpoints, Credentials("a1", "k"), config) as api:
            with trio.fail_after(5), pytest.raises(NotSentError):
                await api.once("POST", "/p")


@for_each(
    ("url", "environ", "expected"),
    [
        ("https://h.test", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("wss://h.test/x", {"https_proxy": "http://p:1", "HTTPS_PROXY": "no"}, "http://p:1"),
        ("https://h.test", {"HTTPS_PROXY": "http://p"}, "http://p:80"),
        ("https://h.test", {"HTTPS_PROXY": "https://[fd00::1]/"}, "https://[fd00::1]:443"),
        ("https://h.test", {"ALL_PROXY": "http://p:1"}, "http://p:1"),
        ("https://h.test", {"ALL_PROXY": "socks5://s:1", "HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://h.test", {"HTTP_PROXY": "http://p:1"}, None),
        ("https://h.test", {"HTTPS_PROXY": ""}, None),
        ("https://h.test", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "x.test, h.test"}, None),
        ("https://localhost:9", {"HTTPS_PROXY": "socks5://s:1"}, None),
        ("https://h.test", {}, None),
    ],
)  # fmt: skip
def test_the_environment_names_the_proxy(
    url: str, environ: dict[str, str], expected: str | None
) -> None:
    found = find_proxy(url, None, environ)
    assert (None if found is None else str(found)) == expected


@for_each(
    ("no_proxy", "host", "port", "direct"),
    [
        ("*", "h.test", 443, True),
        ("h.test", "h.test", 443, True),
        ("test", "h.test", 443, True),
        (".test", "h.test", 443, True),
        ("*.test", "h.test", 443, True),
        ("H.TEST:443", "h.test", 443, True),
        ("h.test:80", "h.test", 443, False),
        ("other.test", "h.test", 443, False),
        ("h.test.evil", "h.test", 443, False),
        ("est", "h.test", 443, False),
        ("10.0.0.0/8", "10.1.2.3", 443, True),
        ("10.0.0.0/8", "11.1.2.3", 443, False),
        ("10.0.0.0/8", "h.test", 443, False),
        ("fd00::1", "fd00::1", 443, True),
        ("[fd00::1]:443", "fd00::1", 443, True),
        ("[fd00::1]:80", "fd00::1", 443, False),
        ("fd00::/8", "fd00::1", 443, True),
        ("", "h.test", 443, False),
        (" , ,", "h.test", 443, False),
    ],
)
def test_no_proxy_names_hosts_domains_networks_and_ports(
    no_proxy: str, host: str, port: int, direct: bool
) -> None:
    assert bypasses(no_proxy, host, port) is direct


@guarantee(87)
@case("C69")
@for_each(
    "value",
    [
        "socks5://h:1",
        "socks5://bob:S3CRET@h:1",
        "ftp://h",
        "127.0.0.1:7890",
        "bob:S3CRET@h:1",
        "http://",
        "http://h:S3CRET",
        "http://h:0",
        "http://h/S3CRET",
        "http://[S3CRET",
        "http://h\nS3CRET",
        "http://h\x1b[31mS3CRET",
        "http://bob:S3CRET@h:99999",
    ],
)
def test_a_proxy_that_cannot_be_used_is_named_with_a_remedy(value: str) -> None:
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: find_proxy("https://h.test", None, {"HTTPS_PROXY": value}), "HTTPS_PROXY "),
        (lambda: find_proxy("https://h.test", None, {"all_proxy": value}), "all_proxy "),
        (lambda: AgentConfig(proxy=value), "AgentConfig: proxy "),
    ]
    for make, name in cases:
        with pytest.raises(BandConfigError) as caught:
            make()
        text = str(caught.value)
        assert text.startswith(name)
        assert "http://proxy.example:3128" in text
        assert text.isprintable()
        assert "S3CRET" not in text
        assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_a_proxy_option_and_verify_are_checked_by_kind() -> None:
    wrong: Any
    for wrong in (5, b"http://h", ["http://h"]):
        with pytest.raises(BandConfigError, match="proxy is not the URL"):
            AgentConfig(proxy=wrong)
    for wrong in (False, None, "ca.pem"):
        with pytest.raises(BandConfigError, match=r"verify must be True.*SSL_CERT_FILE"):
            AgentConfig(verify=wrong)


def test_any_printable_user_and_password_reach_the_proxy() -> None:
    assert read_proxy("http://bob:pa55%20w%3Ard@h", "proxy").authorization == BASIC
    assert read_proxy("http://bob@h", "proxy").authorization == "Basic Ym9iOg=="


# --------------------------------------------------------------------------- certificates


@guarantee(89)
@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
async def test_a_private_ca_is_believed_by_both_where_the_environment_names_it(
    variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ca, proxy = PrivateCA(), ConnectProxy()
    pem = tmp_path / "ca.pem"
    ca.authority.cert_pem.write_to_path(str(pem))
    if variable == "SSL_CERT_DIR":
        digest = ssl_hash(ca.authority)
        pem = pem.rename(tmp_path / f"{digest}.0").parent
    async with platform(ca) as (port, _), serving(proxy.handle) as proxy_port:
        endpoints = resolve_endpoints(
            f"https://band.test:{port}", proxy=f"http://127.0.0.1:{proxy_port}", environ={}
        )
        with pytest.raises(NotSentError, match=r"TLS with band.test failed.*SSL_CERT_FILE"):
            await ask_both(endpoints, AgentConfig())
        monkeypatch.setenv(variable, str(pem))
        await ask_both(endpoints, AgentConfig())


def ssl_hash(authority: trustme.CA) -> str:
    """Return the name under which OpenSSL looks for a CA in a directory."""
    import subprocess

    command = ["openssl", "x509", "-noout", "-hash"]
    pem = authority.cert_pem.bytes()
    return (
        subprocess.run(command, input=pem, capture_output=True, check=True).stdout.decode().strip()
    )


@guarantee(87)
@case("C69")
@pytest.mark.parametrize(
    ("variable", "content"),
    [("SSL_CERT_FILE", None), ("SSL_CERT_DIR", None), ("SSL_CERT_FILE", "no certificate")],
)
async def test_certificates_that_are_not_there_are_named_before_anything_is_sent(
    variable: str, content: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "ca"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv(variable, str(path))
    agent = Agent.create(
        adapter=Nothing(),
        agent_id="a1",
        api_key="thnv_a_k",
        rest_url="https://band.test",
        config=AgentConfig(single_instance=False),
    )
    with pytest.raises(BandConfigError, match=rf"^{variable} names no .* unset it"):
        await agent.run()


def test_a_context_of_the_application_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere")
    context = ssl.create_default_context()
    assert tls_context(context) is context


# --------------------------------------------------------------------------- hosts


@guarantee(87)
@case("C69")
@for_each(
    "url",
    [
        "https://xn--a",
        "https://a..b",
        "https://" + "a" * 64 + ".test",
        "https://" + "a." * 130 + "test",
        "https://h.test/" + "x" * 3000,
        "https://a\u2024\u2024b.test",
        "https://a[::1]:9",
        "https://https://bob:S3CRET@h.test",
    ],
)
def test_a_host_that_cannot_be_is_refused_at_construction(url: str) -> None:
    for where in ("rest_url", "BAND_REST_URL"):
        with pytest.raises(BandConfigError, match=rf"^{where} is not a valid URL: .*https://host"):
            if where == "rest_url":
                resolve_endpoints(url, environ={})
            else:
                resolve_endpoints(environ={where: url})


_ODD = st.text(st.sampled_from("ab1.-_:/@?#%[] \\\x00\n\u0130\u2024xn"), max_size=30)
_SETTING = st.one_of(
    st.text(max_size=40),
    _ODD,
    st.builds(
        "{}://{}".format, st.sampled_from(["http", "https", "ws", "wss", "socks5", "HTTPS"]), _ODD
    ),
)


@guarantee(87)
@given(
    st.dictionaries(
        st.sampled_from(
            ["BAND_REST_URL", "BAND_WS_URL", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY",
             "ALL_PROXY", "NO_PROXY", "no_proxy"]
        ),
        _SETTING,
    ),
    st.none() | _SETTING,
    st.none() | _SETTING,
    st.none() | _SETTING,
)  # fmt: skip
def test_any_setting_of_the_way_is_used_or_refused_in_one_line(
    environ: dict[str, str], rest: str | None, ws: str | None, proxy: str | None
) -> None:
    try:
        found = resolve_endpoints(rest, ws, proxy=proxy, environ=environ, allow_insecure=True)
    except BandConfigError as exc:
        assert str(exc).isprintable()  # noqa: PT017 - either outcome is right
        return
    for url in (found.rest_url, found.ws_url):
        assert url.isascii()
        assert url.isprintable()
        assert httpx.URL(url).host
    for way in (found.rest_proxy, found.ws_proxy):
        assert str(way).isprintable()
        assert way is None or way.host


def test_names_and_paths_go_on_the_wire_as_ascii() -> None:
    found = resolve_endpoints("https://münchen.test:8/bänd", environ={})
    assert found.rest_url == "https://xn--mnchen-3ya.test:8/b%C3%A4nd"
    assert found.ws_url.startswith("wss://xn--mnchen-3ya.test:8/b%C3%A4nd/api")


@guarantee(87)
@pytest.mark.parametrize("surplus", ["an answer", "a goodbye"])
async def test_what_hides_in_tls_records_makes_a_connection_stale(surplus: str) -> None:
    ca, connections = PrivateCA(), 0
    context = ca.server("band.test")

    async def handle(stream: trio.SocketStream) -> None:
        nonlocal connections
        connections += 1
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_side=True)

        async def step(what: Callable[[], object]) -> object:
            while True:
                try:
                    return what()
                except ssl.SSLWantReadError:
                    await stream.send_all(outgoing.read())
                    incoming.write(await stream.receive_some())

        async with stream:
            await step(tls.do_handshake)
            while await step(lambda: tls.read(65536)):
                tls.write(ok())
                if surplus == "an answer":
                    tls.write(ok(b'{"data": "nobody asked"}'))
                else:
                    with suppress(ssl.SSLWantReadError):
                        tls.unwrap()
                await stream.send_all(outgoing.read())  # in one piece
                if surplus == "a goodbye":
                    await trio.sleep_forever()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
            port = listeners[0].socket.getsockname()[1]
            proxy = ConnectProxy()
            async with serving(proxy.handle) as proxy_port:
                endpoints = resolve_endpoints(
                    f"https://band.test:{port}", proxy=f"http://127.0.0.1:{proxy_port}", environ={}
                )
                config = AgentConfig(verify=ca.client())
                async with open_api(endpoints, Credentials("a1", "thnv_a_k"), config) as api:
                    for _ in range(3):
                        assert (await api.once("POST", "/p")).data == 1
            nursery.cancel_scope.cancel()
    assert connections == 3


async def test_nobody_there_is_said_in_words() -> None:
    async with serving(silent) as port:
        pass
    with pytest.raises(DialError, match=rf"127.0.0.1:{port}: Connection refused"):
        await dial(f"http://127.0.0.1:{port}", None, True)
    with pytest.raises(DialError, match=r"nowhere.invalid:80: \S+"):
        await dial("ws://nowhere.invalid/x", None, True)
    async with serving(lambda stream: stream.send_all(b"HTTP/1.1 400 Bad\r\n\r\n")) as port:
        with pytest.raises(DialError, match="no TLS there"):
            await dial(f"https://127.0.0.1:{port}", None, True)
        with pytest.raises(ConnectFailed, match="no connection: TLS"):
            async with open_socket(
                f"wss://127.0.0.1:{port}/", "/", [],
                open_stream=lambda url: dial(url, None, True), connect_seconds=5,
            ):  # fmt: skip
                raise AssertionError("connected")

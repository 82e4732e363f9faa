"""The server over HTTP on loopback, with the official client and with raw requests."""

from __future__ import annotations

import httpx2
import pytest
import trio
from mcp.shared.exceptions import MCPError

from band_trio.errors import BandConfigError
from band_trio.mcp import LocalMCPServer, OpenTurns, build_mcp_registrations
from tests.mcp.kit import CHAT, http_client, open_turn, serving, text_of

pytestmark = [
    pytest.mark.slow,
    # The official client leaves the generators of its streams to the garbage collector.
    pytest.mark.filterwarnings(
        "ignore:Async generator '(httpx2|httpcore2|mcp.client):ResourceWarning"
    ),
]

HELLO = {"chat_id": "r1", "content": "hello", "mentions": ["u1"]}
BODY = {"content": "hello", "mentions": ["u1"]}


def local(turns: OpenTurns, **options: object) -> LocalMCPServer:
    bound = bool(options.get("room_bound"))
    rows = build_mcp_registrations(turns.get, CHAT, room_from_connection=bound)
    return LocalMCPServer("band", rows, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_calls_tools(mode: str) -> None:
    turns = OpenTurns()
    server = local(turns)
    with trio.fail_after(10):
        async with serving(server), open_turn(turns) as turn:
            assert 50_000 <= int(server.url.split(":")[2].split("/")[0]) <= 60_000
            async with http_client(server.url, server.headers, mode) as client:
                assert len((await client.list_tools()).tools) == len(CHAT)
                assert not (await client.call_tool("band_send_message", HELLO)).is_error
            assert turn.tools.chat == ["hello"]
            assert turn.tools.turn.replied
    with pytest.raises(RuntimeError, match="does not serve"):
        _ = server.url


async def test_each_room_has_its_path() -> None:
    turns = OpenTurns()
    server = local(turns, room_bound=True, port_min=0)
    with trio.fail_after(10):
        async with serving(server), open_turn(turns, "r1") as one, open_turn(turns, "r2") as two:
            async with http_client(server.url_of("r2"), server.headers) as client:
                assert not (await client.call_tool("band_send_message", BODY)).is_error
            assert (one.tools.chat, two.tools.chat) == ([], ["hello"])
            async with http_client(server.url_of("r3"), server.headers) as client:
                result = await client.call_tool("band_send_message", BODY)
                assert result.is_error
                assert "no work under way" in text_of(result)
            with pytest.raises(RuntimeError):
                _ = server.url


def call(name: str, arguments: object) -> dict[str, object]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


async def test_a_session_stays_with_the_room_in_which_it_was_opened() -> None:
    turns = OpenTurns()
    server = local(turns, room_bound=True, port_min=0)
    about = {"protocolVersion": "2025-06-18", "capabilities": {}}
    about |= {"clientInfo": {"name": "c", "version": "1"}}
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    headers = {"Accept": "application/json, text/event-stream"}
    with trio.fail_after(10):
        async with (
            serving(server),
            open_turn(turns, "r1") as one,
            open_turn(turns, "r2") as two,
            httpx2.AsyncClient(headers={**server.headers, **headers}) as http,
        ):
            opened = await http.post(server.url_of("r1"), json=opening)
            http.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await http.post(server.url_of("r1"), json=ready)).is_success
            hello = call("band_send_message", BODY)
            for other in ("r2", "r3", "R1"):
                assert (await http.post(server.url_of(other), json=hello)).status_code == 404
                assert (await http.get(server.url_of(other))).status_code == 404
                assert (await http.delete(server.url_of(other))).status_code == 404
            assert (one.tools.chat, two.tools.chat) == ([], [])
            assert (await http.post(server.url_of("r1"), json=hello)).is_success
            assert (one.tools.chat, two.tools.chat) == (["hello"], [])


async def test_who_may_ask() -> None:
    turns = OpenTurns()
    server = local(turns)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with trio.fail_after(10):
        async with serving(server), httpx2.AsyncClient() as http:

            async def status(headers: dict[str, str], path: str | None = None) -> int:
                url = server.url if path is None else server.url.removesuffix("/mcp") + path
                send = (
                    http.post(url, json=ping, headers=headers)
                    if path is None
                    else http.get(url, headers=headers)
                )
                return (await send).status_code

            good = server.headers
            accept = {"Accept": "application/json, text/event-stream"}
            assert await status({}) == 401
            for wrong in ("Bearer wrong", f"Basic {server.token}", server.token, "Bearer", ""):
                assert await status({"Authorization": wrong}) == 401
            for scheme in ("bearer ", "BEARER ", "Bearer  "):
                written = {"Authorization": f"{scheme}{server.token}"}
                assert await status({**written, **accept}) < 401
            assert await status({**good, "Host": "evil.example"}) == 421
            assert await status({**good, "Host": f"localhost:{server.port}", **accept}) < 401
            assert await status({**good, "Origin": "http://evil.example"}) == 403
            assert await status({**good, "Origin": "null"}) == 403
            assert await status({}, "/healthz") == 200
            assert await status({"Host": "evil.example"}, "/healthz") == 421
            assert await status(good, "/nothing") == 404
    assert server.token not in repr(server)


async def test_without_a_token() -> None:
    turns = OpenTurns()
    server = local(turns, token="")
    with trio.fail_after(10):
        async with serving(server), http_client(server.url, {}) as client:
            assert (await client.list_tools()).tools
    assert server.headers == {}


async def test_ports_that_are_taken_are_passed_over() -> None:
    turns = OpenTurns()
    with trio.fail_after(10):
        async with serving(first := local(turns)):
            assert first.port is not None
            near = local(turns, port_min=first.port, port_max=min(first.port + 9, 65_535))
            async with serving(near):
                assert near.port != first.port
            taken = local(turns, port_min=first.port, port_max=first.port)
            with pytest.RaisesGroup(OSError):
                async with serving(taken):
                    raise AssertionError("it is bound")
    for wrong in ({"port_min": 5, "port_max": 4}, {"port_max": 70_000}, {"http_path": "mcp"}):
        with pytest.raises(BandConfigError):
            local(turns, **wrong)


async def test_a_call_under_way_does_not_hold_up_the_end() -> None:
    turns = OpenTurns()
    server = local(turns)
    ended: list[str] = []

    async def call() -> None:
        try:
            async with http_client(server.url, server.headers, "legacy") as client:
                await client.call_tool("band_send_message", HELLO)
                ended.append("answered")
        except* MCPError:
            ended.append("cut off")

    with trio.fail_after(10):
        async with open_turn(turns) as turn, turn.tools.hold_message("hello") as hold:
            async with trio.open_nursery() as clients:
                async with serving(server):
                    clients.start_soon(call)
                    await hold.reached()
            hold.release()
    assert ended == ["cut off"]
    assert turn.tools.chat == []

"""Nothing that clients do, and no order of it, hurts the platform."""

from __future__ import annotations

import ast
import sys
from contextlib import suppress
from pathlib import Path

import httpx  # noqa: ASYNC127 - a client that is not ours
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

import band_trio.localband
from band_trio.localband import Cut, LocalAgent, LocalBand, open_local_band
from band_trio.localband.hub import Session
from band_trio.localband.outbox import Close, Outbox
from tests.localband.kit import Gone, Refused, open_rest, open_socket
from tests.marks import guarantee
from tests.support.for_each import for_each

PURE = [
    "agent_api",
    "contacts",
    "contacts_api",
    "control",
    "delivery",
    "files_api",
    "memories_api",
    "mentions",
    "offer",
    "paging",
    "party",
    "files_api",
    "memories_api",
    "posting",
    "push",
    "tasks_api",
    "records",
    "room",
    "routes",
    "tasks_api",
    "user_api",
    "validate",
    "world",
]
NO_IO = {"trio", "httpx", "starlette", "hypercorn", "trio_websocket", "socket", "time"}


@for_each("name", PURE)
def test_the_world_does_no_io(name: str) -> None:
    folder = Path(band_trio.localband.__file__).parent
    tree = ast.parse((folder / f"{name}.py").read_text(encoding="utf-8"))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module)
    assert not {module.partition(".")[0] for module in imported} & NO_IO
    siblings = {m.rpartition(".")[2] for m in imported if m.startswith("band_trio.localband.")}
    assert siblings <= set(PURE)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["open", "polite", "fin", "rst", "silence", "close", "send", "settle"]),
        st.integers(0, 1),
    ),
    max_size=14,
)


async def visit(band: LocalBand, agent: LocalAgent, what: str) -> None:
    """Connect, join, and stay until it is over; every end is a possible one here."""
    polite = "&on_conflict=reject" if what == "polite" else ""
    with suppress(Refused, Gone, OSError, trio.BrokenResourceError, trio.TooSlowError):
        async with open_socket(band, agent, f"vsn=2.0.0&agent_id={agent.id}{polite}") as socket:
            await socket.join(f"agent_control:{agent.id}")
            for room_id in band.world.rooms:
                await socket.join(f"chat_room:{room_id}")
            while True:
                await socket.receive()


async def live(steps: list[tuple[str, int]]) -> None:
    async with open_local_band(memory=True) as band:
        agents = [band.register_agent(name) for name in ("One", "Two")]
        room = await band.user.create_room(None, agents)
        async with trio.open_nursery() as clients:
            for what, index in steps:
                agent = agents[index]
                if what in ("open", "polite"):
                    clients.start_soon(visit, band, agent, what)
                elif what in ("fin", "rst"):
                    band.cut(agent, Cut(what))
                elif what == "silence":
                    band.silence(agent)
                elif what == "close":
                    band.close(agent, 1012)
                elif what == "send":
                    await band.user.send(room, "hi", [agent])
                else:
                    await trio.testing.wait_all_tasks_blocked()
            await trio.testing.wait_all_tasks_blocked()
            clients.cancel_scope.cancel(reason="end of the example")
        await trio.sleep(200)  # what was silenced is found idle
        assert band.hub.sessions == {}
        assert band.hub.topics == {}


@given(STEPS)
def test_any_order_of_connects_and_cuts(steps: list[tuple[str, int]]) -> None:
    trio.run(live, steps, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("memory", [True, False])
async def test_closing_does_not_wait_for_what_hangs(memory: bool) -> None:
    async with trio.open_nursery() as clients:
        async with open_local_band(memory=memory) as band:
            agent = band.register_agent("Scribe")
            rule = band.faults.hang(route="me")

            async def ask() -> None:
                with suppress(httpx.RemoteProtocolError):  # an answer or a cut: both are an end
                    async with open_rest(band, agent) as rest:
                        await rest("GET", "/agent/me")

            clients.start_soon(ask)
            await band.until(lambda: rule.hits == 1)
            began = trio.current_time()
    assert trio.current_time() - began < 0.4


@pytest.mark.slow
async def test_closing_does_not_wait_for_a_deaf_client() -> None:
    async with open_local_band() as band:
        agent = band.register_agent("Scribe")
        room = await band.user.create_room(None, [agent])
        parts = band.ws_url.removeprefix("ws://").partition("/")
        port = int(parts[0].rpartition(":")[2])
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(
                f"GET /{parts[2]}?vsn=2.0.0&agent_id={agent.id} HTTP/1.1\r\nHost: x\r\n"
                f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nx-api-key: {agent.api_key}\r\n\r\n".encode()
            )
            await band.until(lambda: band.session(agent) is not None)
            session = band.session(agent)
            assert session is not None
            band.hub.join(session, f"chat_room:{room.id}", "1")
            for _ in range(40):
                await band.user.send(room, "x" * 500_000, [agent])
            await trio.sleep(0.1)
            began = trio.current_time()
            with trio.fail_after(20):
                await band.user.send(room, "last", [agent])
            band.close(agent, 1000)
    assert trio.current_time() - began < 3


@guarantee(86)
async def test_a_peer_that_falls_too_far_behind_is_closed() -> None:
    outbox = Outbox(limit=2 * sys.getsizeof("1"))
    with trio.CancelScope() as scope:
        session = Session(None, 1, outbox, scope, print, print)  # type: ignore[arg-type]
        assert [session.send(str(n)) for n in range(4)] == [True, True, False, False]
        assert session.ending == "too slow"
        assert scope.deadline <= trio.current_time() + 1
        # What waited is thrown away: its agent lists it when it is back.
        assert await outbox.take() == Close(1011, "too slow")


async def test_what_was_taken_makes_room() -> None:
    outbox = Outbox(limit=2 * sys.getsizeof("1"))
    for _ in range(5):
        assert [outbox.put(each) for each in "123"] == [True, True, False]
        assert [await outbox.take() for _ in range(2)] == ["1", "2"]

"""What the measurements share: the platform's process, an agent, the bare loop, the table."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from statistics import median
from typing import Any, Final, Literal, Protocol

import attrs
import httpx  # noqa: ASYNC127 - the bare loop talks to it directly
import trio

from band_trio import Agent, AgentConfig, SessionConfig, SimpleAdapter
from band_trio.protocol import codec
from benchmarks.pipes import Lines

PARALLEL: Final = AgentConfig().rest_priority
"""Requests of the bare loop at once: as many as the agent allows itself for claims and marks."""

QUIET: Final = SessionConfig(idle_resync_seconds=3600, idle_resync_max_seconds=3600)
"""Idle rooms do not poll, where that is not what is measured."""
AT_ONCE: Final = {"resync_rate": 10_000.0}
"""Nor is the first look at every room spread, where waiting for it is not what is measured."""


class Post(Protocol):
    """Sends one POST; an answer other than 2xx raises."""

    async def __call__(self, path: str, content: bytes | None = None, /) -> None: ...


# --------------------------------------------------------------------------- the platform


@attrs.frozen(eq=False)
class Identity:
    """An agent at the platform."""

    id: str
    key: str = attrs.field(repr=False)
    rooms: list[str]
    owner: str
    """Id of the person who writes to it."""


@attrs.frozen(eq=False)
class Server:
    """The platform in its own process."""

    rest_url: str
    ws_url: str
    _requests: trio.abc.SendStream
    _answers: Lines

    async def call(self, do: str, **arguments: Any) -> Any:
        """Run one command of `benchmarks.server.Commands` and return its answer."""
        await self._requests.send_all(codec.dumps({"do": do, **arguments}) + b"\n")
        return await self.answer()

    async def answer(self) -> Any:
        """Return the next line that the platform's process writes."""
        line = await self._answers.next()
        if line is None:
            raise RuntimeError("the platform's process has ended")
        return codec.loads(line)

    async def register(self, rooms: int) -> Identity:
        """Make an agent that is in so many rooms."""
        return Identity(**await self.call("agent", rooms=rooms))

    async def send(self, to: Identity, count: int) -> list[tuple[str, str]]:
        """Send so many messages, to one room after the other; return (room, message)."""
        sent: list[tuple[str, str]]
        sent = await self.call("send", agent=to.id, rooms=to.rooms, count=count)
        return sent

    async def burst(self, to: Identity, count: int) -> None:
        """Send so many messages, and wait until all are processed."""
        await self.call("burst", agent=to.id, rooms=to.rooms, count=count)

    async def requested(self, by: Identity) -> Counter[str]:
        """Return how many requests an agent has made since this was asked last, by route."""
        return Counter(await self.call("requested", agent=by.id))

    async def all_read(self, by: Identity) -> None:
        """Wait until an agent has joined all its topics and read the list of each room."""
        await self.call("joined", agent=by.id, topics=2 + 2 * len(by.rooms))
        await self.call("read", agent=by.id, rooms=len(by.rooms))

    async def quiet(self, seconds: float) -> None:
        """Wait until nobody has made a request for so long."""
        await self.call("quiet", seconds=seconds)


@asynccontextmanager
async def open_server() -> AsyncGenerator[Server]:
    """Start the platform's process; it ends with the block."""
    command = [sys.executable, "-m", "benchmarks.server"]
    pipe = subprocess.PIPE
    process = await trio.lowlevel.open_process(command, stdin=pipe, stdout=pipe)
    requests, answers = process.stdin, process.stdout
    assert requests is not None  # pipes were asked for
    assert answers is not None
    try:
        server = Server("", "", requests, Lines(answers))
        yield attrs.evolve(server, **await server.answer())
    finally:
        process.kill()
        with trio.move_on_after(5, shield=True):
            await process.wait()
            await requests.aclose()
            await answers.aclose()


# --------------------------------------------------------------------------- the agent


class Settle(SimpleAdapter[Any]):
    """The least a turn can do: what is measured is the runtime."""

    async def on_message(self, msg: Any, tools: Any, *news: Any, **more: Any) -> None:
        """Declare the message dealt with."""
        tools.turn.settle()


ANSWER: Final = "Done, thank you."


class Reply(SimpleAdapter[Any]):
    """Answers every message."""

    async def on_message(self, msg: Any, tools: Any, *news: Any, **more: Any) -> None:
        """Send a reply to whoever wrote."""
        await tools.send_message(ANSWER, [msg.sender_id])


def reply_body(identity: Identity) -> bytes:
    """Return the body of the POST that `Reply` makes."""
    mentions = [{"id": identity.owner}]
    return codec.dumps({"message": {"content": ANSWER, "mentions": mentions}})


@asynccontextmanager
async def running(
    server: Server,
    identity: Identity,
    adapter: SimpleAdapter[Any],
    session: SessionConfig | None = None,
    **options: Any,
) -> AsyncGenerator[Agent]:
    """Run an agent for the length of the block; *options* are those of `AgentConfig`."""
    agent = Agent.create(
        adapter=adapter,
        agent_id=identity.id,
        api_key=identity.key,
        rest_url=server.rest_url,
        ws_url=server.ws_url,
        config=AgentConfig(single_instance=False, **options),
        session_config=session or SessionConfig(),
    )
    async with agent:
        yield agent


# --------------------------------------------------------------------------- the bare loop


@asynccontextmanager
async def bare_connections(server: Server, identity: Identity) -> AsyncGenerator[Post]:
    """Post over httpx transports of one connection each, with nothing around them."""
    idle: list[httpx.AsyncHTTPTransport] = []
    headers = _headers(identity)
    limits = httpx.Limits(max_connections=1, max_keepalive_connections=1)

    async def post(path: str, content: bytes | None = None, /) -> None:
        transport = idle.pop() if idle else httpx.AsyncHTTPTransport(verify=False, limits=limits)
        await _post(transport, server.rest_url + path, headers, content)
        idle.append(transport)

    yield post
    for transport in idle:
        await transport.aclose()


@asynccontextmanager
async def bare_pool(server: Server, identity: Identity) -> AsyncGenerator[Post]:
    """Post over one transport with a pool of connections, with nothing around it."""
    headers = _headers(identity)
    async with httpx.AsyncHTTPTransport(verify=False) as transport:

        async def post(path: str, content: bytes | None = None, /) -> None:
            await _post(transport, server.rest_url + path, headers, content)

        yield post


async def _post(
    transport: httpx.AsyncHTTPTransport, url: str, headers: httpx.Headers, content: bytes | None
) -> None:
    request = httpx.Request("POST", url, headers=headers, content=content)
    response = await transport.handle_async_request(request)
    response.request = request
    codec.loads(await response.aread())
    response.raise_for_status()


@asynccontextmanager
async def bare_client(server: Server, identity: Identity) -> AsyncGenerator[Post]:
    """Post over an `httpx.AsyncClient`, as most programs do."""
    async with httpx.AsyncClient(base_url=server.rest_url, headers=_headers(identity)) as client:

        async def post(path: str, content: bytes | None = None, /) -> None:
            response = await client.post(path, content=content)
            codec.loads(response.content)
            response.raise_for_status()

        yield post


def _headers(identity: Identity) -> httpx.Headers:
    return httpx.Headers(
        {
            "X-API-Key": identity.key,
            "Accept": "application/json",
            "Content-Type": "application/json",
        }
    )


async def bare_loop(
    post: Post,
    work: Iterable[Sequence[str]],
    reply: bytes | None = None,
    *,
    parallel: int = PARALLEL,
) -> None:
    """Claim and settle all of *work*, (room, message), each room in order, so many in parallel.

    *reply* is posted in between.
    """
    rooms: dict[str, list[str]] = {}
    for room, message in work:
        rooms.setdefault(room, []).append(message)
    queue = list(rooms.items())

    async def worker() -> None:
        while queue:
            room, messages = queue.pop()
            path = f"/api/v1/agent/chats/{room}/messages"
            for message in messages:
                await post(f"{path}/{message}/processing")
                if reply is not None:
                    await post(path, reply)
                await post(f"{path}/{message}/processed")

    async with trio.open_nursery() as nursery:
        for _ in range(parallel):
            nursery.start_soon(worker)


# --------------------------------------------------------------------------- figures


@attrs.define
class Sample:
    """One measurement of this process."""

    wall: float = 0.0
    """Seconds that passed."""
    cpu: float = 0.0
    """Seconds of processor time that this process used."""


@contextmanager
def measure(*, collect: bool = True) -> Generator[Sample]:
    """Measure the block, garbage of earlier ones collected unless told otherwise.

    `process_time` is CLOCK_PROCESS_CPUTIME_ID: what the scheduler has accounted to all threads of
    this process, in nanoseconds, not sampled by ticks. It does not count time spent waiting for a
    core.
    """
    if collect:
        gc.collect()
    sample = Sample()
    wall, cpu = time.perf_counter(), time.process_time()
    yield sample
    sample.wall, sample.cpu = time.perf_counter() - wall, time.process_time() - cpu


Figure = Literal["wall", "cpu"]


def _values(samples: Iterable[Sample], what: Figure) -> list[float]:
    return [sample.wall if what == "wall" else sample.cpu for sample in samples]


def middle(samples: Iterable[Sample], what: Figure) -> float:
    """Return the median: others use the machine too."""
    return median(_values(samples, what))


def ratio(samples: Iterable[Sample], bases: Iterable[Sample], what: Figure) -> float:
    """Return the median of the ratios of each round: what slows a round down slows both."""
    pairs = zip(_values(samples, what), _values(bases, what), strict=True)
    return median(one / base for one, base in pairs)


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print figures in columns, the first one left-aligned."""
    cells = [[str(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n{title}")
    for first, *others in cells:
        numbers = "".join(
            f"  {cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)
        )
        print(f"  {first:<{widths[0]}}{numbers}")

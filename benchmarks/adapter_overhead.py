"""What an adapter for a model adds to its SDK: processor time of a turn against its bare calls.

A turn asks twice: the scripted model calls `band_send_message`, then ends. The bare calls are the
same two requests through the same client. The model runs in a process of its own, the room in
memory, so that neither REST nor the provider is part of the figures.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from itertools import cycle
from operator import truediv
from statistics import median
from typing import Any, Final

import attrs
import trio

from band_trio.adapters import (
    AnthropicAdapter,
    AnthropicConfig,
    ModelAdapter,
    ModelAdapterConfig,
    ModelLoopAdapter,
    OpenAIAdapter,
    OpenAIConfig,
)
from band_trio.testing import FakeAgentTools, make_message, run_turn
from band_trio.testing.scripted_anthropic import open_scripted_anthropic
from band_trio.testing.scripted_model import ScriptedModel, ScriptTurn, TextTurn, ToolTurn
from band_trio.testing.scripted_openai import open_scripted_openai
from benchmarks.harness import table
from benchmarks.pipes import Lines

PEOPLE: Final = [{"id": "u1", "handle": "maria", "name": "Maria"}, {"id": "me", "handle": "a/me"}]
OPENERS: Final = {"openai": open_scripted_openai, "anthropic": open_scripted_anthropic}

Adapter = ModelLoopAdapter[Any, Any]
Way = Callable[[], Awaitable[object]]


# --------------------------------------------------------------------------- the model's process


def answer(request: dict[str, Any]) -> ScriptTurn:
    """Call a tool where a person spoke last, else end."""
    newest = request["messages"][-1]
    content = newest["content"]
    spoken = newest["role"] == "user" and (
        isinstance(content, str) or content[0]["type"] == "text" or content[-1]["type"] == "text"
    )
    if spoken:
        return ToolTurn("band_send_message", {"content": "hi", "mentions": ["u1"]})
    return TextTurn("done")


async def serve(api: str) -> None:
    """Run the scripted model until standard input ends; print its address."""
    async with OPENERS[api](ScriptedModel(answer)) as server:
        print(server.base_url, server.api_key, flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)


@asynccontextmanager
async def open_model(api: str) -> AsyncGenerator[dict[str, Any]]:
    """Start the model's process; yields the options that lead to it."""
    command = [sys.executable, "-m", "benchmarks.adapter_overhead", "--serve", api]
    process = await trio.lowlevel.open_process(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    line = await Lines(process.stdout).next()
    assert line is not None, "the model's process ended"
    base_url, key = line.decode().split()
    try:
        yield {"base_url": base_url, "provider_key": key}
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
            await process.stdin.aclose()
            await process.wait()


# --------------------------------------------------------------------------- the ways


@attrs.frozen
class Kind:
    """An adapter, and where its SDK is called."""

    api: str
    make: Callable[..., Adapter]
    call_site: Callable[[Any], tuple[Any, str]]
    """The object and the name of its method that sends a request."""


def _direct(adapter: Any) -> tuple[Any, str]:
    from pydantic_ai import direct

    return direct, "model_request"


KINDS: Final = {
    "openai": Kind(
        "openai",
        lambda **options: OpenAIAdapter(OpenAIConfig(model="m", **options), emit=()),
        lambda adapter: (adapter._client.chat.completions, "create"),  # noqa: SLF001
    ),
    "anthropic": Kind(
        "anthropic",
        lambda **options: AnthropicAdapter(AnthropicConfig(model="m", **options), emit=()),
        lambda adapter: (adapter._client.messages, "create"),  # noqa: SLF001
    ),
    "pydantic-ai, openai": Kind(
        "openai",
        lambda **options: ModelAdapter(
            ModelAdapterConfig(model="openai-chat:m", **options), emit=()
        ),
        _direct,
    ),
}


@attrs.define
class Recorder:
    """The requests of one turn and their answers, to be sent again or played back."""

    owner: Any
    name: str
    calls: list[tuple[Any, Any]] = attrs.field(factory=list)
    answers: list[Any] = attrs.field(factory=list)
    send: Any = None

    async def record(self, turn: Way) -> None:
        """Run a turn and keep what it sends and gets."""
        self.send = getattr(self.owner, self.name)

        async def kept(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((args, kwargs))
            self.answers.append(await self.send(*args, **kwargs))
            return self.answers[-1]

        with self.replaced(kept):
            await turn()

    @contextmanager
    def replaced(self, function: Any) -> Generator[None]:
        """Let the adapter call *function* instead of its SDK."""
        setattr(self.owner, self.name, function)
        try:
            yield
        finally:
            setattr(self.owner, self.name, self.send)

    async def bare(self) -> None:
        """Send the requests again."""
        for args, kwargs in self.calls:
            await self.send(*args, **kwargs)

    def playback(self) -> Any:
        """Return a function that answers without the SDK."""
        answers = cycle(self.answers)

        async def answer(*args: Any, **kwargs: Any) -> Any:
            await trio.lowlevel.checkpoint()
            return next(answers)

        return answer


async def cpu(way: Way, turns: int) -> float:
    """Return seconds of processor time per turn."""
    began = time.process_time()
    for _ in range(turns):
        await way()
    return (time.process_time() - began) / turns


def history(items: int) -> list[dict[str, Any]]:
    """Return what was said in a room, as it is read at the first turn."""
    return [
        {
            "role": "assistant" if number % 4 == 3 else "user",
            "content": f"message {number}: " + "some words " * 10,
            "sender_name": "Maria",
            "message_type": "text",
        }
        for number in range(items)
    ]


@attrs.define
class Times:
    """Seconds of processor time per turn, of each round."""

    bare: list[float] = attrs.field(factory=list)
    """The SDK's calls alone."""
    turn: list[float] = attrs.field(factory=list)
    """The whole turn."""
    alone: list[float] = attrs.field(factory=list)
    """The turn without the SDK: its answers are played back."""


async def compare(
    kind: Kind, options: dict[str, Any], size: argparse.Namespace, *, first: bool
) -> Times:
    """Measure one adapter; ways alternate within each round."""
    items = history(size.history)
    message = make_message("hello", sender_id="u1")
    async with trio.open_nursery() as nursery:
        adapter = kind.make(**options)
        await nursery.start(adapter.serve)
        tools = FakeAgentTools(participants=PEOPLE, agent_id="me", features=adapter.features)
        # A repeated message starts from what was kept before it: all turns are equally long.
        await run_turn(adapter, make_message("hello", sender_id="u1"), tools, history=items)

        async def turn() -> None:
            result = await run_turn(
                adapter, message, tools, history=items if first else (), is_session_bootstrap=first
            )
            assert result.record == "processed", result.error

        recorder = Recorder(*kind.call_site(adapter))
        await recorder.record(turn)
        found = Times()
        for _ in range(size.rounds):
            found.bare.append(await cpu(recorder.bare, size.turns))
            found.turn.append(await cpu(turn, size.turns))
            with recorder.replaced(recorder.playback()):
                found.alone.append(await cpu(turn, size.turns))
        nursery.cancel_scope.cancel()
    return found


async def measure(size: argparse.Namespace) -> None:
    """Measure everything and print it."""
    rows = []
    async with open_model("openai") as openai, open_model("anthropic") as anthropic:
        options = {"openai": openai, "anthropic": anthropic}
        for name, kind in KINDS.items():
            for first in (False, True):
                found = await compare(kind, options[kind.api], size, first=first)
                rows.append(
                    (
                        f"{name}, {'first turn' if first else 'later turn'}",
                        f"{median(found.bare) * 1e3:.2f}",
                        f"{median(found.turn) * 1e3:.2f}",
                        f"{median(map(truediv, found.turn, found.bare)):.2f}",
                        f"{median(found.alone) * 1e3:.2f}",
                    )
                )
    header = ("", "bare calls, CPU ms", "turn, CPU ms", "of bare", "turn without the SDK, CPU ms")
    table(f"a turn of two requests, {size.history} messages of history", header, rows)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--history", type=int, default=100)
    parser.add_argument("--serve", choices=OPENERS, help=argparse.SUPPRESS)
    size = parser.parse_args()
    if size.serve:
        trio.run(serve, size.serve)
    else:
        trio.run(measure, size)


if __name__ == "__main__":
    main()

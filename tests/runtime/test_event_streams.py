"""Events of the agent: an iterator that may be left in any way and holds nothing open."""

from __future__ import annotations

import ast
import gc
from pathlib import Path

import pytest
import trio
import trio.testing

import band_trio
from band_trio.trace import Started, TraceEvent
from tests.marks import case, guarantee
from tests.runtime.lifecycle_kit import life, tasks
from tests.support.for_each import for_each


@case("C61")
def test_no_async_generator_holds_anything_open() -> None:
    """Every async function with a `yield` is a context manager, which its caller has to leave."""
    found = 0
    for path in Path(band_trio.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "yield" not in text or "async def" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.AsyncFunctionDef) and _yields(node):
                names = [ast.unparse(each) for each in node.decorator_list]
                assert "asynccontextmanager" in names, f"{path.name}: {node.name}"
                found += 1
    assert found > 5


def _yields(function: ast.AsyncFunctionDef) -> bool:
    """Tell whether a function has a `yield` of its own."""
    nodes: list[ast.AST] = list(function.body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Yield):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            nodes.extend(ast.iter_child_nodes(node))
    return False


@guarantee(46)
@case("C61")
@for_each("end", ["break", "raise", "collected"])
async def test_events_can_be_iterated_and_left_in_any_way(
    end: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The observer feeds a channel of the application; leaving it disturbs nobody."""
    async with life() as here:
        room = await here.room()
        send, receive = trio.open_memory_channel[TraceEvent](1000)

        def observe(event: TraceEvent) -> None:
            try:
                send.send_nowait(event)
            except trio.BrokenResourceError:
                here.observe(event)  # nobody listens any more

        async def first_start() -> str:
            async for event in receive:
                if isinstance(event, Started):
                    if end == "raise":
                        raise LookupError(event.message_id)
                    return event.message_id
            raise AssertionError("it never started")

        async with here.running(observer=observe):
            before = tasks()
            message = await here.say(room, "one")
            if end == "raise":
                with pytest.raises(LookupError, match=message):
                    await first_start()
            else:
                assert await first_start() == message
            if end == "collected":
                iterator = receive.__aiter__()
                await iterator.__anext__()
                del iterator
                gc.collect()
            receive.close()
            await here.settled(message, await here.say(room, "two"))
            await trio.sleep(5)
            assert tasks() == before
        await here.assert_nothing_left()

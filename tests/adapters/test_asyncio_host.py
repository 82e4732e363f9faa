"""Calls between trio and a loop of asyncio in its thread: results, errors, cancellation, the end."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import logging
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import Any

import attrs
import pytest
import trio
import trio.lowlevel
from hypothesis import given
from hypothesis import strategies as st

from band_trio.adapters.asyncio_host import AsyncioHost, HostCall, open_asyncio_host
from band_trio.errors import ProviderRunError, TurnClosedError
from tests.support.for_each import for_each


@pytest.fixture
async def host() -> AsyncGenerator[AsyncioHost]:
    with trio.fail_after(5):
        async with open_asyncio_host() as opened:
            yield opened
            left = await opened.call(_other_tasks)
            assert left == []


async def _other_tasks() -> list[str]:  # noqa: ASYNC124 - the shape is given
    return [str(t) for t in asyncio.all_tasks() - {asyncio.current_task()}]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something in the other thread, which cannot wake a task of this one."""
    with trio.fail_after(2):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.001)


async def double(value: int) -> int:
    await asyncio.sleep(0)
    return 2 * value


# --------------------------------------------------------------------------- results and errors


async def test_a_call_runs_on_asyncio_and_returns_its_result(host: AsyncioHost) -> None:
    async def where() -> tuple[int, str]:  # noqa: ASYNC124 - the shape is given
        return threading.get_ident(), type(asyncio.get_running_loop()).__name__

    assert await host.call(double, 21) == 42
    thread, loop = await host.call(where)
    assert thread != threading.get_ident()
    assert "EventLoop" in loop


class OwnError(Exception):
    pass


async def test_errors_come_out_bare_with_their_own_cause(host: AsyncioHost) -> None:
    async def fail() -> None:  # noqa: ASYNC124 - the shape is given
        try:
            raise KeyError("inner")
        except KeyError as exc:
            raise OwnError("outer") from exc

    with pytest.raises(OwnError, match="outer") as caught:
        await host.call(fail)
    assert isinstance(caught.value.__cause__, KeyError)


async def test_the_frameworks_own_group_stays_what_it_is(host: AsyncioHost) -> None:
    async def fail() -> None:
        async with asyncio.TaskGroup() as group:  # noqa: ASYNC112 - what makes the group
            group.create_task(_raise(OwnError("a")))

    with pytest.RaisesGroup(pytest.RaisesExc(OwnError, match="a")):
        await host.call(fail)


async def _raise(error: BaseException) -> None:  # noqa: ASYNC124 - the shape is given
    raise error


async def test_a_framework_that_cancels_itself_has_failed(host: AsyncioHost) -> None:
    async def cancel_myself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    for fn in (cancel_myself, lambda: _raise(asyncio.CancelledError())):
        with pytest.raises(ProviderRunError) as caught:
            await host.call(fn)
        assert caught.value.code == "cancelled"


@for_each("error", [SystemExit(3), KeyboardInterrupt()])
async def test_what_ends_the_program_comes_out_and_the_loop_goes_on(
    host: AsyncioHost, error: BaseException
) -> None:
    with pytest.raises(type(error)):
        await host.call(_raise, error)
    with pytest.raises(type(error)):
        await call_back(host, lambda: _raise(error))
    assert await host.call(double, 1) == 2


async def test_a_background_task_cannot_end_the_loop(
    host: AsyncioHost, caplog: pytest.LogCaptureFixture
) -> None:
    async def leave_one() -> asyncio.Task[None]:  # noqa: ASYNC124 - the shape is given
        return asyncio.create_task(_raise(SystemExit(3)))

    task = await host.call(leave_one)
    await until(task.done)
    assert "raised SystemExit" in caplog.text
    assert await host.call(double, 1) == 2
    task.exception()


async def test_a_call_runs_once(host: AsyncioHost) -> None:
    call = host.begin()
    await call.run(double, 1)
    with pytest.raises(RuntimeError, match="only once"):
        await call.run(double, 1)


# --------------------------------------------------------------------------- callbacks


async def call_back(host: AsyncioHost, fn: Any) -> Any:
    """Let the framework call *fn* back, and nothing else."""
    call = host.begin()
    return await call.run(call.hop(fn))


async def test_a_callback_runs_in_trio_and_returns_its_result(host: AsyncioHost) -> None:
    async def add(a: int, *, b: int) -> int:
        """Add."""
        await trio.lowlevel.checkpoint()
        return a + b + threading.get_ident()

    call = host.begin()
    tool = call.hop(add)

    async def framework() -> int:
        return await tool(1, b=2)

    assert await call.run(framework) == 3 + threading.get_ident()
    assert tool.__name__ == "add"
    assert tool.__doc__ == "Add."


async def test_an_error_of_a_callback_reaches_the_framework_and_can_be_handled(
    host: AsyncioHost,
) -> None:
    call = host.begin()
    tool = call.hop(_raise)

    async def framework(error: BaseException) -> str:
        try:
            await tool(error)
        except OwnError as exc:
            return f"handled {exc}"
        return "nothing"

    assert await call.run(framework, OwnError("x")) == "handled x"
    with pytest.raises(OwnError, match="y"):
        await call_back(host, lambda: _raise(OwnError("y")))


async def test_an_error_group_of_a_callback_reaches_the_framework(host: AsyncioHost) -> None:
    async def fail() -> None:
        async with trio.open_nursery() as nursery:  # noqa: ASYNC112 - what makes the group
            nursery.start_soon(_raise, OwnError("a"))

    with pytest.RaisesGroup(pytest.RaisesExc(OwnError, match="a")):
        await call_back(host, fail)


async def test_parallel_callbacks_run_concurrently(host: AsyncioHost) -> None:
    call = host.begin()
    all_here = trio.Event()
    here = 0

    async def meet(number: int) -> int:
        nonlocal here
        here += 1
        if here == 10:
            all_here.set()
        await all_here.wait()
        return number

    tool = call.hop(meet)

    async def framework() -> list[int]:
        return list(await asyncio.gather(*(tool(i) for i in range(10))))

    assert await call.run(framework) == list(range(10))


VALUE: contextvars.ContextVar[str] = contextvars.ContextVar("value", default="none")


async def test_context_variables_go_there_and_back(host: AsyncioHost) -> None:
    call = host.begin()
    seen: list[str] = []

    async def note() -> None:  # noqa: ASYNC124 - the shape is given
        seen.append(VALUE.get())

    tool = call.hop(note)

    async def framework() -> None:
        await tool()
        VALUE.set("framework")
        await tool()
        await asyncio.create_task(tool())  # noqa: ASYNC300 - returned and awaited

    VALUE.set("turn")
    await call.run(framework)

    assert seen == ["turn", "framework", "framework"]
    assert VALUE.get() == "turn"


async def test_a_worker_that_calls_share_calls_back_in_the_context_of_the_call(
    host: AsyncioHost,
) -> None:
    async def begin_worker() -> tuple[asyncio.Queue[Any], asyncio.Task[None]]:  # noqa: ASYNC124 - the shape is given
        queue: asyncio.Queue[Any] = asyncio.Queue()

        async def worker() -> None:
            while (item := await queue.get()) is not None:
                fn, done = item
                done.set_result(await fn())

        return queue, asyncio.create_task(worker())

    queue, task = await host.call(begin_worker)

    async def read() -> str:  # noqa: ASYNC124 - the shape is given
        return VALUE.get()

    async def ask(value: str) -> str:
        VALUE.set(value)
        call = host.begin()
        tool = call.hop(read)

        async def framework() -> str:
            done = asyncio.get_running_loop().create_future()
            await queue.put((tool, done))
            return str(await done)

        return await call.run(framework)

    assert await ask("one") == "one"
    assert await ask("two") == "two"

    async def end() -> None:
        await queue.put(None)
        await task

    await host.call(end)


async def test_a_callback_may_call_the_host_again(host: AsyncioHost) -> None:
    assert await call_back(host, lambda: call_back(host, lambda: host.call(double, 4))) == 8


async def test_callbacks_begun_are_waited_for_when_the_task_returns(host: AsyncioHost) -> None:
    call = host.begin()
    ended: list[str] = []

    async def slow() -> None:
        await trio.sleep(0.02)
        ended.append("slow")

    tool = call.hop(slow)
    kept = set()

    async def framework() -> str:
        kept.add(asyncio.create_task(tool()))
        await asyncio.sleep(0.005)
        return "returned"

    assert await call.run(framework) == "returned"
    assert ended == ["slow"]


async def test_callbacks_are_cancelled_when_the_task_raises(host: AsyncioHost) -> None:
    call = host.begin()
    tool = call.hop(trio.sleep_forever)
    errors: list[BaseException] = []

    async def behind() -> None:
        try:
            await tool()
        except TurnClosedError as exc:
            errors.append(exc)

    kept = []

    async def framework() -> None:
        kept.append(asyncio.create_task(behind()))
        await asyncio.sleep(0.005)
        raise OwnError

    with pytest.raises(OwnError):
        await call.run(framework)
    await host.call(asyncio.wait, kept)
    assert len(errors) == 1


async def test_late_callbacks_are_refused(host: AsyncioHost) -> None:
    call = host.begin()
    acted: list[str] = []

    async def act() -> None:  # noqa: ASYNC124 - the shape is given
        acted.append("acted")

    tool = call.hop(act)

    async def before() -> None:
        await tool()

    with pytest.raises(TurnClosedError):
        await host.call(before)  # its own call has not begun
    await call.run(before)
    with pytest.raises(TurnClosedError):
        await host.call(before)
    assert acted == ["acted"]


# --------------------------------------------------------------------------- cancellation


async def test_cancelling_the_call_cancels_the_task_and_waits_for_it(host: AsyncioHost) -> None:
    log: list[str] = []

    async def framework() -> None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            log.append("cancelled")
            await asyncio.sleep(0.02)  # noqa: ASYNC102 - asyncio has no shields
            log.append("cleaned")
            raise

    with trio.move_on_after(0.01) as scope:
        await host.call(framework)
    assert scope.cancelled_caught
    assert log == ["cancelled", "cleaned"]


async def test_a_call_in_a_cancelled_scope_does_not_begin(host: AsyncioHost) -> None:
    begun: list[int] = []

    async def framework() -> None:  # noqa: ASYNC124 - the shape is given
        begun.append(1)

    with trio.CancelScope() as scope:
        scope.cancel()
        await host.call(framework)
    assert scope.cancelled_caught
    await host.call(double, 1)
    assert begun == []


async def test_what_a_cancelled_task_returns_is_dropped(host: AsyncioHost) -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:  # noqa: ASYNC103 - bad code on purpose
            return "I go on"  # what bad code does  # noqa: ASYNC104 - bad code on purpose
        return "slept"

    with trio.move_on_after(0.01) as scope:
        await host.call(stubborn)
        raise AssertionError("it came back")
    assert scope.cancelled_caught


async def test_tasks_that_the_task_has_begun_are_cancelled_with_it(host: AsyncioHost) -> None:
    ended: list[str] = []

    async def behind(name: str) -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ended.append(name)

    async def framework() -> None:
        child = asyncio.create_task(behind("child"))
        await asyncio.shield(child)

    with trio.move_on_after(0.01):
        await host.call(framework)
    assert ended == ["child"]


async def test_a_task_that_ignores_its_cancellation_is_abandoned(
    host: AsyncioHost, caplog: pytest.LogCaptureFixture
) -> None:
    acted: list[str] = []
    refused: list[str] = []
    release = threading.Event()
    call = host.begin()

    async def act() -> None:  # noqa: ASYNC124 - the shape is given
        acted.append("acted")

    tool = call.hop(act)

    async def framework() -> str:
        await tool()
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.002)
        try:
            await tool()
        except TurnClosedError:
            refused.append("refused")
        return "late"

    began = trio.current_time()
    with trio.move_on_after(0.02) as scope:
        await call.run(framework, grace=0.03)
    assert scope.cancelled_caught
    assert 0.05 <= trio.current_time() - began < 0.5
    assert "ignored its cancellation for 0.03 s" in caplog.text
    release.set()
    await until(lambda: bool(refused))
    assert acted == ["acted"]


async def test_cancelling_the_call_cancels_a_callback_and_the_framework_sees_a_cancellation(
    host: AsyncioHost,
) -> None:
    for _ in range(20):  # trio wakes the two sides in any order
        log: list[str] = []
        call, begun = host.begin(), trio.Event()

        async def wait(log: list[str] = log, begun: trio.Event = begun) -> None:
            begun.set()
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                log.append("callback")
                raise

        async def framework(tool: Any, log: list[str] = log) -> None:
            try:
                await tool()
            except asyncio.CancelledError:
                log.append("framework")
                raise

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call.run, framework, call.hop(wait))
            await begun.wait()
            nursery.cancel_scope.cancel()
        assert log == ["callback", "framework"]


async def test_a_callback_that_the_framework_cancels_is_cancelled_alone(host: AsyncioHost) -> None:
    log: list[str] = []
    call = host.begin()

    async def wait(name: str, seconds: float) -> str:
        try:
            await trio.sleep(seconds)
        except trio.Cancelled:
            log.append(f"{name} cancelled")
            with trio.move_on_after(0.01, shield=True):
                await trio.sleep(0.005)
            log.append(f"{name} cleaned")
            raise
        return name

    tool = call.hop(wait)

    async def framework() -> str:
        other = asyncio.create_task(tool("other", 0.05))
        try:
            await asyncio.wait_for(tool("slow", 10), 0.005)
        except TimeoutError:
            log.append("timed out")
        return await other

    assert await call.run(framework) == "other"
    assert log == ["slow cancelled", "slow cleaned", "timed out"]


async def test_a_callback_may_have_scopes_of_its_own(host: AsyncioHost) -> None:
    async def bounded() -> str:
        with trio.move_on_after(0.001):
            await trio.sleep_forever()
        return "moved on"

    assert await call_back(host, bounded) == "moved on"


async def test_the_gate_is_closed_while_a_cancelled_task_cleans_up(host: AsyncioHost) -> None:
    call = host.begin()
    acted: list[str] = []
    refused: list[str] = []

    async def act() -> None:
        acted.append("acted")
        await trio.lowlevel.checkpoint()

    tool = call.hop(act)

    async def framework() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            try:
                await tool()  # noqa: ASYNC102 - asyncio has no shields
            except TurnClosedError:
                refused.append("refused")

    with trio.move_on_after(0.01):
        await call.run(framework)
    assert (acted, refused) == ([], ["refused"])


async def test_what_a_task_leaves_behind_cannot_call_back_while_callbacks_are_waited_for(
    host: AsyncioHost,
) -> None:
    call = host.begin()
    acted: list[str] = []
    left: list[Any] = []
    refused = trio.Event()
    token = trio.lowlevel.current_trio_token()

    async def act(name: str) -> None:
        acted.append(name)
        await refused.wait()

    tool = call.hop(act)

    async def later(whole: asyncio.Task[Any]) -> None:
        await asyncio.wait([whole])
        try:
            await tool("late")
        finally:
            token.run_sync_soon(refused.set)

    async def framework() -> None:
        whole = asyncio.current_task()
        assert whole is not None
        left.append(asyncio.create_task(later(whole)))
        left.append(asyncio.create_task(tool("begun")))
        while not acted:  # noqa: ASYNC110 - on asyncio
            await asyncio.sleep(0.001)

    await call.run(framework)
    outcome, _ = await host.call(_outcomes, left)
    assert isinstance(outcome, TurnClosedError)
    assert acted == ["begun"]


async def _outcomes(tasks: list[Any]) -> list[Any]:
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_cancelled_parts_of_a_group_stay_in_trio(host: AsyncioHost) -> None:
    """The framework is told the rest; the cancellation goes on to the call."""
    call = host.begin()
    told: list[BaseException] = []

    async def fail_when_cancelled() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise OwnError

    tool = call.hop(fail_when_cancelled)

    async def other_loop() -> None:
        try:
            await tool()
        except BaseExceptionGroup as exc:
            told.append(exc)

    async def framework() -> None:
        await asyncio.to_thread(lambda: asyncio.run(other_loop()))

    with trio.move_on_after(0.02) as scope:
        await call.run(framework)
    assert scope.cancelled_caught
    await until(lambda: bool(told))
    with pytest.RaisesGroup(pytest.RaisesExc(OwnError)):
        raise told[0]


@attrs.define
class Watch:
    """What happens in a run, and whether anything happens after it."""

    running: int = 0
    acted: int = 0
    late: int = 0
    over: bool = False

    async def tool(self, seconds: float) -> None:
        self.running += 1
        try:
            self.late += self.over
            await trio.sleep(seconds)
            self.late += self.over
            self.acted += 1
        finally:
            self.running -= 1

    async def framework(self, tool: Any, plan: list[float]) -> None:
        for seconds in plan:
            if seconds < 0.0008:
                await asyncio.gather(*(tool(seconds) for _ in range(3)), return_exceptions=True)
            else:
                try:
                    await asyncio.wait_for(tool(seconds), 0.001)
                except TimeoutError:
                    await asyncio.sleep(0)


@pytest.mark.slow
@given(
    plan=st.lists(st.floats(0, 0.002), min_size=1, max_size=6),
    moment=st.floats(0, 0.008),
    jobs=st.integers(1, 3),
)
def test_cancelled_at_any_moment_nothing_goes_on(
    plan: list[float], moment: float, jobs: int
) -> None:
    async def one(host: AsyncioHost, watch: Watch) -> None:
        call = host.begin()
        await call.run(watch.framework, call.hop(watch.tool), plan, grace=2)

    async def main() -> None:
        watch = Watch()
        with trio.fail_after(5):
            async with open_asyncio_host() as host:
                with trio.move_on_after(moment):
                    async with trio.open_nursery() as nursery:
                        for _ in range(jobs):
                            nursery.start_soon(one, host, watch)
                watch.over = True
                assert watch.running == 0
                assert await host.call(_other_tasks) == []
                acted = watch.acted
                await trio.sleep(0.003)
                assert (watch.late, watch.acted) == (0, acted)

    trio.run(main)


async def test_cancelled_at_every_step_nothing_goes_on(host: AsyncioHost) -> None:
    """The moment is a number of wake-ups of trio instead of a time."""
    for steps in range(30):
        watch, call = Watch(), host.begin()

        async def one(call: HostCall = call, watch: Watch = watch) -> None:
            await call.run(watch.framework, call.hop(watch.tool), [0.0, 0.0, 0.0])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        watch.over = True
        assert watch.running == 0
        assert await host.call(_other_tasks) == []
        assert watch.late == 0


# --------------------------------------------------------------------------- the end


async def test_the_end_cancels_what_is_left_and_joins_the_thread() -> None:
    ended: list[str] = []
    idents: list[int] = []

    async def generate() -> AsyncGenerator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)  # noqa: ASYNC102 - asyncio has no shields
            ended.append("generator")

    async def keeper() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ended.append("keeper")

    kept: list[Any] = []

    async def client() -> None:
        idents.append(threading.get_ident())
        kept.append(asyncio.create_task(keeper()))
        generator = generate()
        kept.append(generator)
        await anext(generator)

    async with open_asyncio_host() as host:
        await host.call(client)
        await host.call(asyncio.sleep, 0)  # its keeper outlives the call
        assert ended == []
    assert ended == ["keeper", "generator"]
    assert host._loop._loop is not None
    assert host._loop._loop.is_closed()


async def test_a_thread_that_is_blocked_is_abandoned_within_the_bound(
    caplog: pytest.LogCaptureFixture,
) -> None:
    release = threading.Event()

    async def block() -> None:  # noqa: ASYNC124 - the shape is given
        release.wait(5)

    began = trio.current_time()
    with trio.move_on_after(0.02):
        async with open_asyncio_host(stop_seconds=0.05) as host:
            await host.call(block, grace=0.01)
    assert trio.current_time() - began < 0.5
    assert "abandoned" in caplog.text
    assert any(record.levelno == logging.ERROR for record in caplog.records)
    release.set()
    loop = host._loop._loop
    assert loop is not None
    await until(loop.is_closed)


async def test_a_stubborn_task_does_not_hold_up_the_end(caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()

    async def stubborn() -> None:
        while not done.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.002)

    kept: list[Any] = []

    async def leave() -> None:  # noqa: ASYNC124 - the shape is given
        kept.append(asyncio.create_task(stubborn(), name="stubborn"))

    began = trio.current_time()
    async with open_asyncio_host(stop_seconds=0.06) as host:
        await host.call(leave)
    assert trio.current_time() - began < 0.5
    assert "stubborn ignores its cancellation" in caplog.text
    kept.pop()._log_destroy_pending = False


async def test_a_call_that_outlives_its_host_ends_with_an_error() -> None:
    errors: list[BaseException] = []

    async def outlive(host: AsyncioHost) -> None:
        try:
            await host.call(asyncio.sleep, 10)
        except (RuntimeError, ProviderRunError) as exc:
            errors.append(exc)

    with trio.fail_after(2):
        async with trio.open_nursery() as nursery:
            async with open_asyncio_host() as host:
                nursery.start_soon(outlive, host)  # noqa: ASYNC111 - it outlives the host on purpose
                await host.call(double, 1)
    assert len(errors) == 1
    with pytest.raises(RuntimeError, match="closed"):
        await host.call(double, 1)


async def test_a_call_on_a_blocked_thread_ends_with_the_host() -> None:
    release, blocked = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    async def block() -> None:  # noqa: ASYNC124 - the shape is given
        blocked.set()
        release.wait(5)

    async def outlive(host: AsyncioHost) -> None:
        try:
            await host.call(block)
        except RuntimeError as exc:
            errors.append(exc)

    with trio.fail_after(2):
        async with trio.open_nursery() as nursery:
            async with open_asyncio_host(stop_seconds=0.02) as host:
                nursery.start_soon(outlive, host)  # noqa: ASYNC111 - it outlives the host on purpose
                await until(blocked.is_set)
    assert "was closed during a call" in str(errors[0])
    release.set()
    loop = host._loop._loop
    assert loop is not None
    await until(loop.is_closed)


async def test_an_error_of_the_block_comes_out_bare() -> None:
    with pytest.raises(OwnError):
        async with open_asyncio_host():
            raise OwnError


async def test_cancelled_while_it_opens_it_ends() -> None:
    for _ in range(5):
        with trio.fail_after(2), trio.CancelScope() as scope:
            scope.cancel()
            async with open_asyncio_host():
                raise AssertionError("it opened")
        assert scope.cancelled_caught


def test_callbacks_after_the_end_of_trio_are_refused() -> None:
    outcomes: list[str] = []
    ended, asked = threading.Event(), threading.Event()

    async def main() -> None:
        async with open_asyncio_host(stop_seconds=0.01) as host:
            call = host.begin()
            tool = call.hop(trio.sleep_forever)

            def other_loop() -> None:
                ended.wait(5)
                try:
                    asyncio.run(tool())
                except TurnClosedError:
                    outcomes.append("refused")
                asked.set()

            threading.Thread(target=other_loop).start()
            await call.run(double, 1)

    trio.run(main)
    ended.set()
    assert asked.wait(5)
    assert outcomes == ["refused"]


@pytest.mark.slow
async def test_many_calls_leak_nothing(host: AsyncioHost) -> None:
    async def turn(number: int) -> None:
        call = host.begin()
        tool = call.hop(trio.sleep)

        async def framework() -> None:
            await tool(0 if number % 2 else 10)

        with trio.move_on_after(0.0005):
            await call.run(framework)
        kept.add(call)

    kept: weakref.WeakSet[HostCall] = weakref.WeakSet()
    before = threading.active_count()
    for number in range(200):
        await turn(number)
    assert await host.call(_other_tasks) == []
    gc.collect()
    assert len(kept) <= 1  # the last one may still be in a frame
    assert threading.active_count() <= before
    assert not host._calls

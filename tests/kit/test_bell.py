"""The bell: no ring is lost, many rings are one."""

from __future__ import annotations

import trio
import trio.testing

from band_trio.kit.bell import Bell


async def test_a_ring_before_the_wait_is_not_lost(autojump_clock: trio.abc.Clock) -> None:
    bell, began = Bell(), trio.current_time()
    bell.ring()
    bell.ring()
    with trio.testing.assert_checkpoints():
        await bell.wait_until(began + 10)
    assert trio.current_time() == began
    await bell.wait_until(began + 10)  # both rings were one
    assert trio.current_time() == began + 10


async def test_a_ring_wakes_the_one_that_waits(autojump_clock: trio.abc.Clock) -> None:
    bell, began = Bell(), trio.current_time()

    async def ring() -> None:
        await trio.sleep(3)
        bell.ring()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ring)
        await bell.wait_until(began + 10)
    assert trio.current_time() == began + 3


async def test_a_ring_in_the_tick_of_the_deadline_is_kept(autojump_clock: trio.abc.Clock) -> None:
    bell, began = Bell(), trio.current_time()

    async def ring() -> None:
        await trio.sleep(1)
        bell.ring()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ring)
        with trio.CancelScope(deadline=began + 1) as scope:
            await bell.wait()
        await trio.testing.wait_all_tasks_blocked()
        if scope.cancelled_caught:  # the deadline was first: the ring waits for the next wait
            with trio.fail_after(0.5):
                await bell.wait()
    assert trio.current_time() == began + 1


async def test_a_wait_that_is_cancelled_leaves_the_bell_usable(
    autojump_clock: trio.abc.Clock,
) -> None:
    bell = Bell()
    with trio.move_on_after(1):
        await bell.wait()
    bell.ring()
    with trio.fail_after(1):
        await bell.wait()

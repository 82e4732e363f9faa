"""Rooms and the record of crashes: what an agent does that finds an earlier process has died."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import trio
import trio.testing

from band_trio import SessionConfig
from band_trio.runtime.crashes import crash_file, open_crash_record
from band_trio.trace import GivenUp, Recorded
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Stage, reply, stage
from tests.runtime.views import started_at, starts


def died(here: Stage, folder: Path, *running: tuple[str, str]) -> None:
    """Leave behind what a process does that dies while it runs these (room, message)."""
    with open_crash_record(crash_file(folder, here.account.id)) as record:
        for room, message in running:
            record.begin(room, message)


def count(here: Stage, folder: Path, room: str, message: str) -> int:
    with open_crash_record(crash_file(folder, here.account.id)) as record:
        return record.count(room, message)


async def errors(here: Stage, room: str) -> int:
    rows = await here.band.user.messages(room)
    return sum(row["message_type"] == "error" for row in rows)


@guarantee(82)
@case("C64")
@pytest.mark.parametrize(("most", "deaths"), [(1, 1), (3, 3), (3, 5)])
async def test_after_so_many_deaths_it_is_failed_unrun_and_reported_once(
    most: int, deaths: int, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        killer, behind = await here.say(room, "killer"), await here.say(room, "behind")
        for _ in range(deaths):
            died(here, tmp_path, (room, killer))
        for _ in range(2):  # also in the process after that
            async with here.running(SessionConfig(max_crashes=most), state_dir=tmp_path):
                await here.settled(behind)
                await trio.sleep(100)
        assert here.adapter.texts == ["behind"]
        assert here.band.attempts(killer, here.account) == ["failed"]
        assert await errors(here, room) == 1
        assert [event.message_id for event in here.seen(GivenUp)] == [killer]


@case("C64")
async def test_below_that_it_runs_and_is_forgotten(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        message = await here.say(room, "m")
        died(here, tmp_path, (room, message))
        died(here, tmp_path, (room, message))
        async with here.running(state_dir=tmp_path):
            await here.settled(message)
        assert here.adapter.texts == ["m"]


@guarantee(82)
@case("C64")
async def test_a_message_that_has_run_is_forgotten(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        message = await here.say(room, "m")
        died(here, tmp_path, (room, message))
        async with here.running(state_dir=tmp_path):
            await here.settled(message)
        assert count(here, tmp_path, room, message) == 0


@guarantee(82)
@case("C64")
async def test_suspects_run_one_at_a_time_and_others_do_not_wait(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def slow(call: Call) -> None:
        await trio.sleep(2)
        await reply(call)

    async with stage(slow) as here:
        rooms = [await here.room() for _ in range(6)]
        messages = [await here.say(room, f"{n}") for n, room in enumerate(rooms)]
        died(here, tmp_path, *zip(rooms[:4], messages[:4], strict=True))
        async with here.running(state_dir=tmp_path):
            await here.settled(*messages)
        when = [started_at(here, each)[0] for each in messages]
        began = min(when)
        assert when[4:] == pytest.approx([began] * 2, abs=0.5)
        gaps = [after - before for before, after in pairwise(sorted(when[:4]))]
        assert all(2 <= gap <= 3.5 for gap in gaps), gaps


@guarantee(82)
async def test_a_suspect_that_waits_holds_its_room_up_for_hold_seconds_and_then_runs(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def slow(call: Call) -> None:
        await trio.sleep(600 if "suspect" in call.msg.content else 0)
        await reply(call)

    async with stage(slow) as here:
        rooms = [await here.room(), await here.room()]
        suspects = [await here.say(room, "suspect") for room in rooms]
        behind = [await here.say(room, "behind") for room in rooms]
        died(here, tmp_path, *zip(rooms, suspects, strict=True))
        async with here.running(SessionConfig(hold_seconds=30), state_dir=tmp_path):
            began = trio.current_time()
            await here.settled(*suspects, *behind)
        first, second = sorted(started_at(here, each)[0] for each in suspects)
        assert second - first >= 600
        assert min(started_at(here, each)[0] for each in behind) - began < 40
        assert here.adapter.texts.count("suspect") == 2


@guarantee(82)
async def test_a_suspect_that_waits_holds_no_claim_and_hears_a_stop(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def slow(call: Call) -> None:
        await trio.sleep(20)
        await reply(call)

    async with stage(slow) as here:
        first, second = await here.room(), await here.room()
        one = await here.say(first, "one")
        two = await here.say(second, "two")
        died(here, tmp_path, (first, one), (second, two))
        async with here.running(state_dir=tmp_path):
            await here.adapter.until_running()
            running = here.adapter.running[0].msg.id
            waiting = two if running == one else one
            await trio.sleep(1)
            assert here.band.state(waiting, here.account) in ("none", "delivered")
            await here.band.user.stop(second if waiting == two else first)
            await here.settled(running)
            await trio.sleep(5)
            assert starts(here) == [running]
            await here.band.user.play(second if waiting == two else first)
            await here.settled(waiting)


@case("C64")
async def test_turned_off_nothing_is_known(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        message = await here.say(room, "m")
        for _ in range(5):
            died(here, tmp_path, (room, message))
        async with here.running(state_dir=None):
            await here.settled(message)
        assert here.adapter.texts == ["m"]


@case("C64")
@pytest.mark.parametrize("grace", [0, 30])
async def test_a_polite_end_leaves_no_running_turn(
    grace: float, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def slow(call: Call) -> None:
        await trio.sleep(5)
        await reply(call)

    async with stage(slow) as here:
        room = await here.room()
        message = await here.say(room, "m")
        async with here.running(state_dir=tmp_path, grace=grace):
            await here.adapter.until_running()
        kinds = [event.kind for event in here.seen(Recorded)]
        assert kinds == ["processed" if grace else "released:shutdown"]
        assert count(here, tmp_path, room, message) == 0

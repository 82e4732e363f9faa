"""One run per agent and host: the kernel's lock, taken first and let go last."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing
from filelock import SoftFileLock

from band_trio import Agent, AgentAlreadyRunningError, BandAuthError, BandConfigError
from band_trio.runtime import instance_lock as module
from band_trio.runtime.instance_lock import instance_lock, lock_path
from tests.marks import case, guarantee
from tests.runtime.harness import Call
from tests.runtime.lifecycle_kit import Noted, life
from tests.support.for_each import for_each


@guarantee(61)
async def test_a_second_instance_is_refused_before_any_other_side_effect(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()
        async with here.running() as first:
            await here.settled(await here.say(room, "before"))
            requests, sockets = len(here.requests()), here.band.hub.opened
            second_adapter = Noted()
            second = Agent.create(
                adapter=second_adapter,
                **here.band.connection(here.account, single_instance=True),
            )
            began = trio.current_time()
            with pytest.raises(AgentAlreadyRunningError) as caught:
                await second.run()
            assert caught.type is AgentAlreadyRunningError
            assert f"pid {os.getpid()}" in str(caught.value)
            assert here.account.id in str(caught.value)
            assert trio.current_time() == began, "it does not wait"
            assert (len(here.requests()), here.band.hub.opened) == (requests, sockets)
            assert second_adapter.notes == []
            assert first.is_connected
            await here.settled(await here.say(room, "after"))
        await here.assert_nothing_left()


@guarantee(61)
@case("C55")
async def test_two_starts_at_one_moment_have_one_winner(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        errors: list[AgentAlreadyRunningError] = []
        agents = [here.agent(), here.agent(), here.agent()]

        async def run(agent: Agent) -> None:
            try:
                await agent.run()
            except AgentAlreadyRunningError as exc:
                errors.append(exc)

        async with trio.open_nursery() as nursery:
            for agent in agents:
                nursery.start_soon(run, agent)
            await trio.sleep(5)
            assert [agent.is_connected for agent in agents].count(True) == 1
            assert len(errors) == 2
            for agent in agents:
                agent.stop()
        await here.assert_nothing_left()


@guarantee(61)
@case("C55")
async def test_the_lock_is_held_until_the_last_turn_has_ended(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        room = await here.room()

        async def stubborn(call: Call) -> None:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 60):
                await trio.sleep_forever()

        here.adapter.behaviour = stubborn
        agent = here.agent()
        async with trio.open_nursery() as nursery:
            await nursery.start(agent.run)
            await here.say(room, "m")
            await trio.sleep(1)
            agent.stop(grace=0)
            await trio.sleep(50)
            with pytest.raises(AgentAlreadyRunningError):
                await here.agent().run()
        await here.assert_nothing_left()


@guarantee(61)
async def test_the_lock_can_be_turned_off(autojump_clock: trio.testing.MockClock) -> None:
    async with life() as here:
        with instance_lock(here.account.id):
            async with here.running(single_instance=False) as agent:
                assert agent.is_connected


@guarantee(61)
async def test_a_start_that_failed_has_let_go_of_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with life() as here:
        here.band.faults.refuse(401, route="me")
        with pytest.raises(BandAuthError):
            await here.agent().run()
        async with here.running():
            pass


@guarantee(61)
@case("C55")
def test_the_kernel_frees_the_lock_of_a_process_that_was_killed() -> None:
    code = (
        "import sys, tempfile, time\n"
        "tempfile.tempdir = sys.argv[1]\n"
        "from band_trio.runtime.instance_lock import instance_lock\n"
        "with instance_lock('a-1'):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    argv = [sys.executable, "-c", code, str(tempfile.tempdir)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with (
            pytest.raises(AgentAlreadyRunningError, match=f"pid {holder.pid}"),
            instance_lock("a-1"),
        ):
            raise AssertionError("two holders")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with instance_lock("a-1"):
        assert f"pid {os.getpid()}" in lock_path("a-1").read_text()
    assert lock_path("a-1").exists(), "the file is never removed"


@guarantee(61)
@case("C55")
def test_what_the_file_says_decides_nothing() -> None:
    lock_path("a-1").write_text("pid 1, since for ever\n")
    with instance_lock("a-1"):
        pass


@guarantee(61)
@case("C55")
def test_agents_and_temp_dirs_are_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with instance_lock("a-1"), instance_lock("a-2"):
        other = tmp_path / "other"
        other.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(other))
        with instance_lock("a-1"):
            pass


@guarantee(61)
def test_an_id_that_is_no_file_name_is_hashed() -> None:
    assert lock_path("Ab_0-9").name == "band-agent-Ab_0-9.lock"
    for odd in ("../../etc/passwd", "a b", "ä", "", "x" * 10 + "/"):
        name = lock_path(odd).name
        assert len(name) == len("band-agent-.lock") + 64
        assert lock_path(odd).parent == Path(str(tempfile.tempdir))
    assert lock_path("a b") != lock_path("a  b")


@guarantee(61)
@case("C55")
def test_a_file_that_cannot_be_opened_is_a_clear_error(tmp_path: Path) -> None:
    lock_path("a-1").mkdir()  # as good as forbidden, and works for root too
    with pytest.raises(BandConfigError, match="cannot be opened") as caught, instance_lock("a-1"):
        raise AssertionError("held")
    assert caught.type is BandConfigError
    assert str(lock_path("a-1")) in str(caught.value)


@guarantee(61)
@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_nothing_is_written_through_a_link_in_a_directory_of_everybody(
    tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")
    lock_path("a-1").parent.chmod(0o1777)
    link(lock_path("a-1"), target)
    with pytest.raises(BandConfigError, match="cannot be opened"), instance_lock("a-1"):
        raise AssertionError("held")
    assert target.read_text() == "precious"


@guarantee(61)
def test_the_text_goes_to_the_file_that_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody replaces the file between the moments in which it is locked and written."""
    target = tmp_path / "precious"
    target.write_text("precious")
    write = module._write_holder

    def replaced(file: int) -> None:
        lock_path("a-1").rename(tmp_path / "locked")
        lock_path("a-1").symlink_to(target)
        write(file)

    monkeypatch.setattr(module, "_write_holder", replaced)
    with instance_lock("a-1"):
        assert f"pid {os.getpid()}" in (tmp_path / "locked").read_text()
    assert target.read_text() == "precious"


@guarantee(61)
def test_an_earlier_longer_text_is_gone() -> None:
    lock_path("a-1").write_text("x" * 1_000)
    with instance_lock("a-1"):
        assert lock_path("a-1").read_text().startswith("pid ")
        assert "x" not in lock_path("a-1").read_text()


@guarantee(61)
@case("C72")
@for_each(
    ("text", "quoted"),
    [
        (b"pid 7\n\x1b[31mforged\r\n", r" (pid 7\\n\\x1b[31mforged)."),
        (b"\xff\xfe", " (\ufffd\ufffd)."),
        (b" \n", "host. Stop"),
        (b"x" * 1_000_000, f" ({'x' * 80})."),
    ],
)
def test_what_the_file_says_is_quoted_in_one_short_line(text: bytes, quoted: str) -> None:
    with instance_lock("a-1"):
        lock_path("a-1").write_bytes(text)
        with pytest.raises(AgentAlreadyRunningError) as caught, instance_lock("a-1"):
            raise AssertionError("two holders")
    told = str(caught.value)
    assert quoted.replace("\\\\", "\\") in told
    assert len(told.splitlines()) == 1


@guarantee(61)
def test_a_system_without_locks_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FileLock", SoftFileLock)
    with instance_lock("a-1"), instance_lock("a-1"):
        pass
    assert "no file lock" in caplog.text
    assert not lock_path("a-1").exists()


@guarantee(61)
def test_other_users_may_not_write_the_file() -> None:
    with instance_lock("a-1"):
        mode = lock_path("a-1").stat().st_mode
    assert not mode & stat.S_IWOTH


@case("C69")
def test_no_directory_for_the_file_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_usable() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none_usable)
    with pytest.raises(BandConfigError, match="TMPDIR"), instance_lock("a-1"):
        raise AssertionError("locked")

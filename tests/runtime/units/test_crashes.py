"""The file that tells which messages were being run when a process died."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from band_trio import AgentConfig, BandConfigError, SessionConfig
from band_trio.runtime import crashes
from band_trio.runtime.crashes import CrashRecord, crash_file, open_crash_record
from tests.marks import guarantee
from tests.support.for_each import for_each


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a-1.turns"


def die(path: Path, *messages: str) -> None:
    """Be a process that dies while it runs these messages."""
    with open_crash_record(path) as record:
        for message in messages:
            record.begin("room", message)


def counts(path: Path, *messages: str) -> list[int]:
    with open_crash_record(path) as record:
        return [record.count("room", message) for message in messages]


# --------------------------------------------------------------------------- what it counts


@guarantee(82)
def test_what_was_running_when_a_process_died_has_one_run_more(path: Path) -> None:
    die(path, "m1", "m2")
    die(path, "m1")
    with open_crash_record(path) as record:
        assert [record.count("room", each) for each in ("m1", "m2", "m3")] == [2, 1, 0]
        assert record.count("other", "m1") == 0
        assert len(record.counts) == 2


@guarantee(82)
def test_a_turn_that_has_ended_leaves_nothing_behind(path: Path) -> None:
    with open_crash_record(path) as record:
        record.begin("room", "m1")
        record.end("room", "m1")
    with open_crash_record(path) as record:
        assert len(record.counts) == 0


@guarantee(82)
def test_a_message_with_a_count_is_forgotten_once_it_has_its_record(path: Path) -> None:
    die(path, "ran", "unrun", "waits")
    with open_crash_record(path) as record:
        record.begin("room", "ran")
        assert record.count("room", "ran") == 1
        record.end("room", "ran")
        record.end("room", "unrun")
    assert counts(path, "ran", "unrun", "waits") == [0, 0, 1]


@guarantee(82)
@pytest.mark.slow
def test_a_real_process_that_exits_at_once_is_noticed(path: Path) -> None:
    code = (
        "import os, pathlib, sys\n"
        "from band_trio.runtime.crashes import open_crash_record\n"
        "with open_crash_record(pathlib.Path(sys.argv[1])) as record:\n"
        "    record.begin('room', 'before')\n"
        "    record.end('room', 'before')\n"
        "    record.begin('room', 'm1')\n"
        "    os._exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == 9
    assert counts(path, "before", "m1") == [0, 1]


_MESSAGES = st.sampled_from([f"m{number}" for number in range(6)])
_STEPS = st.lists(st.tuples(st.sampled_from(["begin", "end", "die"]), _MESSAGES), max_size=40)


@guarantee(82)
@given(_STEPS)
def test_it_counts_like_a_dict_whatever_begins_ends_and_dies(
    steps: list[tuple[str, str]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.turns"
        model: dict[str, int] = {}
        running: set[str] = set()
        context = open_crash_record(path)
        record = context.__enter__()
        for step, message in [*steps, ("die", "")]:
            if step == "begin":
                record.begin("room", message)
                running.add(message)
            elif step == "end":
                record.end("room", message)
                running.discard(message)
                model.pop(message, None)
            else:
                context.__exit__(None, None, None)  # what a kill leaves of it: nothing is written
                for each in running:
                    model[each] = model.get(each, 0) + 1
                running.clear()
                context = open_crash_record(path)
                record = context.__enter__()
            found = {f"m{n}": record.count("room", f"m{n}") for n in range(6)}
            assert {key: count for key, count in found.items() if count} == model
        context.__exit__(None, None, None)


@pytest.fixture
def _few_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crashes, "SLOTS", 4)
    monkeypatch.setattr(crashes, "_SIZE", 5 * 32)


@guarantee(82)
@pytest.mark.usefixtures("_few_slots")
def test_more_turns_than_slots_are_told_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_crash_record(path) as record:
        for number in range(7):
            record.begin("room", f"m{number}")
        record.end("room", "m6")
        record.end("room", "m0")
        record.begin("room", "m7")
    assert [each.getMessage() for each in caplog.records] == [
        "more than 4 turns run at once: not all are written down"
    ]
    assert counts(path, "m0", "m3", "m4", "m6", "m7") == [0, 1, 0, 0, 1]


@guarantee(82)
@pytest.mark.usefixtures("_few_slots")
def test_the_least_recent_count_gives_way_and_none_that_is_being_run(path: Path) -> None:
    die(path, "m1")
    die(path, "m2", "m3", "m4")
    with open_crash_record(path) as record:
        record.begin("room", "m1")
        record.begin("room", "new")
        assert [record.count("room", f"m{n}") for n in range(1, 5)] == [1, 0, 1, 1]
    assert counts(path, "m1", "m2", "m3", "m4", "new") == [2, 0, 1, 1, 1]


# --------------------------------------------------------------------------- what the file is


@guarantee(82)
@pytest.mark.parametrize("change", ["foreign", "short", "long", "header"])
def test_what_is_not_to_be_read_is_told_once_and_started_anew(
    change: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    die(path, "m1")
    ours = path.read_bytes()
    path.write_bytes(
        {
            "foreign": b"precious" * 10, "short": ours[:-1], "long": ours + b"\0",
            "header": ours.replace(b"turns 1", b"turns 2"),
        }[change]
    )  # fmt: skip
    assert counts(path, "m1") == [0]
    (told,) = caplog.messages
    assert str(path) in told
    assert "state_dir" in told
    die(path, "m2")
    assert counts(path, "m2") == [1]
    assert len(caplog.messages) == 1


@guarantee(82)
def test_a_process_killed_while_it_starts_the_file_does_no_harm(path: Path) -> None:
    path.touch()
    die(path, "m1")
    assert counts(path, "m1") == [1]


def _no_room(file: int, content: bytes, place: int) -> int:
    raise OSError(28, "No space left on device")


def _inert(record: CrashRecord) -> bool:
    record.begin("room", "m")
    record.end("room", "m")
    return len(record.counts) == record.count("room", "m") == 0


@guarantee(82)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.mkdir(),
        lambda path: os.mkfifo(path),
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.hardlink_to(path.with_name("precious")),
    ],
    ids=["directory", "pipe", "link", "hard link"],
)
def test_what_is_no_plain_file_is_left_alone_and_told_once(
    spoil: Callable[[Path], None], path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    precious = path.with_name("precious")
    precious.write_text("precious")
    spoil(path)
    with open_crash_record(path) as record:
        assert _inert(record)
    (told,) = caplog.messages
    assert str(path) in told
    assert "state_dir=None" in told
    assert precious.read_text() == "precious"


@guarantee(82)
def test_a_directory_that_cannot_be_made_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    with open_crash_record(tmp_path / "file" / "a.turns") as record:
        assert _inert(record)
    assert len(caplog.messages) == 1


@guarantee(82)
def test_a_directory_that_is_missing_is_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "er" / "a.turns"
    die(path, "m1")
    assert counts(path, "m1") == [1]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@guarantee(82)
def test_a_full_disk_is_told_once_and_ends_no_turn(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with open_crash_record(path) as record:
        monkeypatch.setattr(os, "pwrite", _no_room)
        record.begin("room", "m1")
        record.begin("room", "m2")
        record.end("room", "m1")
    assert len(caplog.messages) == 1
    assert "No space left" in caplog.messages[0]


@guarantee(82)
def test_a_full_disk_at_the_start_is_told_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "pwrite", lambda file, content, place: len(content) // 2)
    with open_crash_record(path) as record:
        assert _inert(record)
    assert len(caplog.messages) == 1


@guarantee(82)
def test_a_second_process_with_the_file_keeps_nothing(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_crash_record(path) as first, open_crash_record(path) as second:
        first.begin("room", "m1")
        assert _inert(second)
        assert "another process uses it" in caplog.text
    assert counts(path, "m1") == [1]


@guarantee(82)
def test_without_a_file_nothing_is_kept() -> None:
    with open_crash_record(None) as record:
        assert _inert(record)


# --------------------------------------------------------------------------- where the file is


@guarantee(82)
def test_the_file_is_named_by_the_agent_and_lies_where_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert crash_file(AgentConfig().state_dir, "a-1") == Path(tempfile.gettempdir()) / "a-1.turns"
    assert crash_file(str(tmp_path), "a-1") == crash_file(tmp_path, "a-1") == tmp_path / "a-1.turns"
    assert crash_file(None, "a-1") is None
    hashed = crash_file(tmp_path, "../../etc/passwd")
    assert hashed is not None
    assert hashed.parent == tmp_path
    assert len(hashed.stem) == 64

    def none_usable() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none_usable)
    assert crash_file("", "a-1") is None
    assert "state_dir" in caplog.text


@guarantee(82)
@for_each("folder", [1, b"/tmp", True, "a\0b", ["/tmp"]])
def test_a_directory_that_is_none_is_refused(folder: object) -> None:
    with pytest.raises(BandConfigError, match="state_dir must be the path of a directory"):
        AgentConfig(state_dir=folder)  # type: ignore[arg-type]


@guarantee(82)
def test_a_limit_below_one_is_refused() -> None:
    assert SessionConfig().max_crashes == 3
    with pytest.raises(BandConfigError, match="max_crashes"):
        SessionConfig(max_crashes=0)


# --------------------------------------------------------------------------- one at a time


@guarantee(82)
def test_rooms_with_suspects_are_let_in_one_by_one() -> None:
    record = CrashRecord()
    assert record.try_alone("a")
    assert record.try_alone("a"), "it is in already"
    assert not record.try_alone("b")
    record.done_alone("b")
    assert not record.try_alone("b"), "only the room that is in lets another in"
    record.done_alone("a")
    record.done_alone("a")
    assert record.try_alone("b"), "the first to ask again, whoever that is"
    assert not record.try_alone("a")

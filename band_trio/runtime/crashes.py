"""Which messages were being run when a process of the agent died: a file that a crash leaves behind.

Before a handler starts its message is written into a slot of the file, and taken out with the
verdict of its turn. A slot holds how many runs of the message were begun and not ended: what a new
process finds there is how many ended a process, and need not be changed for that.

A slot is written by one call, inside one page. The kernel copies so few bytes in one go: a process
that is killed at any instant leaves the slot old or new. Nothing is synced: what the kernel was
given outlives the process, if not the machine. The file is written to and not mapped into memory,
because a full disk is an error then, and a signal that kills the process otherwise.
"""

from __future__ import annotations

import logging
import os
import stat
import struct
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Final

import attrs

from band_trio.runtime.instance_lock import file_stem

if sys.platform != "win32":
    import fcntl

_log: Final = logging.getLogger(__name__)

SLOTS: Final = 4096
"""Running turns and messages with a count that can be told apart: 128 KiB."""
_MAGIC: Final = b"band-trio turns 1\n"
_SLOT: Final = struct.Struct("<16sQI4x")
"""Key, rising number of the write, runs: 0 is a free slot. Of 32 bytes, none lies on two pages."""
_HEADER: Final = _MAGIC.ljust(_SLOT.size, b"\0")
_SIZE: Final = _SLOT.size * (SLOTS + 1)
# Through no link: the directory may be everybody's, and what is in the way is emptied.
_CAUTIOUSLY: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_REMEDY: Final = (
    "A message that ends the process is run each time. Pass AgentConfig(state_dir=…) with a "
    "directory that this process alone writes to, or state_dir=None."
)


def crash_file(state_dir: str | Path | None, agent_id: str) -> Path | None:
    """Return the state file of an agent; an empty *state_dir* is the directory of its lock.

    None without a directory: it is turned off, or the system has no temporary one.
    """
    if state_dir is None:
        return None
    try:
        folder = Path(state_dir if state_dir != "" else tempfile.gettempdir())
    except FileNotFoundError:
        _log.warning("there is no directory for the state file. %s", _REMEDY)
        return None
    return folder / f"{file_stem(agent_id)}.turns"


@attrs.define(eq=False)
class CrashRecord:
    """The messages that are being run, and those whose runs ended a process, with how many did.

    Without a file it keeps nothing. All calls are synchronous, take microseconds and do not fail.
    """

    _file: int | None = None
    """Descriptor of the file, which is ours alone and has all its bytes."""
    _free: list[int] = attrs.field(factory=list, init=False)
    _slots: dict[bytes, int] = attrs.field(factory=dict, init=False)
    """Key → slot, of all that are written down."""
    counts: dict[bytes, int] = attrs.field(factory=dict, init=False)
    """Key → runs that ended a process; the least recent first."""
    _running: set[bytes] = attrs.field(factory=set, init=False)
    _serial: int = attrs.field(default=0, init=False)
    _told: bool = attrs.field(default=False, init=False)
    alone: str | None = attrs.field(default=None, init=False)
    """The room that runs a message with a count."""

    def __attrs_post_init__(self) -> None:
        if self._file is not None:
            self._take_over(os.pread(self._file, _SIZE, 0))

    def count(self, room_id: str, message_id: str) -> int:
        """Return how many runs of a message ended a process; 0 for nearly all."""
        return self.counts.get(_key(room_id, message_id), 0) if self.counts else 0

    def begin(self, room_id: str, message_id: str) -> None:
        """Write down that a message is being run: right before its handler starts."""
        if self._file is None:
            return
        key = _key(room_id, message_id)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._place()
        if slot is None:
            if not self._told:
                self._told = True
                _log.warning("more than %d turns run at once: not all are written down", SLOTS)
            return
        self._slots[key] = slot
        self._running.add(key)
        self._write(slot, key, self.counts.get(key, 0) + 1)

    def end(self, room_id: str, message_id: str) -> None:
        """Forget a message, count and all: with its verdict, whatever that is."""
        if not self._slots:
            return
        key = _key(room_id, message_id)
        slot = self._slots.pop(key, None)
        if slot is not None:
            self.counts.pop(key, None)
            self._running.discard(key)
            self._free.append(slot)
            self._write(slot, b"", 0)

    # ------------------------------------------------------------------ one suspect at a time

    def try_alone(self, room_id: str) -> bool:
        """Let a room run a message with a count, unless another room runs one.

        A room that was let in says `done_alone` with the verdict of the turn.
        """
        if self.alone is None:
            self.alone = room_id
        return self.alone == room_id

    def done_alone(self, room_id: str) -> None:
        """Let another room in, if it was this one."""
        if self.alone == room_id:
            self.alone = None

    # ------------------------------------------------------------------ slots

    def _take_over(self, content: bytes) -> None:
        """Read what earlier processes left behind: all of it are runs that they did not end."""
        found = []
        for slot, (key, serial, runs) in enumerate(_SLOT.iter_unpack(content)):
            if runs:
                found.append((serial, slot, key, runs))
            elif slot:  # the first one is the header
                self._free.append(slot)
        for serial, slot, key, runs in sorted(found):
            self._serial, self._slots[key], self.counts[key] = serial, slot, runs

    def _place(self) -> int | None:
        """Return a free slot, at the cost of the least recent count that waits if need be."""
        if self._free:
            return self._free.pop()
        oldest = next((key for key in self.counts if key not in self._running), None)
        if oldest is None:
            return None
        del self.counts[oldest]
        return self._slots.pop(oldest)

    def _write(self, slot: int, key: bytes, runs: int) -> None:
        if self._file is None:
            return
        self._serial += 1
        content = _SLOT.pack(key, self._serial, runs)
        try:
            os.pwrite(self._file, content, slot * _SLOT.size)
        except OSError as exc:
            self._file = None
            _log.warning("the state file cannot be written any more (%s). %s", exc, _REMEDY)


def _key(room_id: str, message_id: str) -> bytes:
    named = f"{room_id}\0{message_id}".encode("utf-8", "surrogatepass")
    return blake2b(named, digest_size=16).digest()


# --------------------------------------------------------------------------- the file


@contextmanager
def open_crash_record(path: Path | None) -> Generator[CrashRecord]:
    """Open the record in the file *path*; None is a record that keeps nothing.

    So is one whose file cannot be used, which is told in the log.
    """
    file = _open(path) if path is not None else None
    try:
        yield CrashRecord(file)
    finally:
        if file is not None:
            os.close(file)


def _open(path: Path) -> int | None:
    """Open the file and make it ours; None if that fails."""
    if sys.platform == "win32":
        _log.warning("this system has no locks for the state file %s. %s", path, _REMEDY)
        return None
    file = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | _CAUTIOUSLY, 0o600)
        _make_ours(file, path)
    except OSError as exc:
        _log.warning("the state file %s cannot be used: %s. %s", path, _why(exc), _REMEDY)
        if file is not None:
            os.close(file)
        return None
    return file


def _make_ours(file: int, path: Path) -> None:
    """Lock the file, and begin it if it is new or not to be read.

    Raises:
        OSError: it is used by another process, it is no plain file, or it cannot be written.
    """
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise OSError("it is no plain file")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError("another process uses it") from None
    if found.st_size == _SIZE and os.pread(file, _SLOT.size, 0) == _HEADER:
        return
    if found.st_size:
        _log.warning(
            "the state file %s is not to be read and was started anew: which messages ended the "
            "process before is forgotten. Where something else writes it, pass another "
            "AgentConfig(state_dir=…).",
            path,
        )
    os.ftruncate(file, 0)
    if os.pwrite(file, _HEADER.ljust(_SIZE, b"\0"), 0) != _SIZE:
        raise OSError("there is no room for it")


def _why(exc: OSError) -> str:
    return exc.strerror or str(exc)

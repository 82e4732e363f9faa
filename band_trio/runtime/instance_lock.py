"""At most one process per agent and host: a kernel lock that a crash frees.

The path is the one that other clients of the platform use, so that they exclude each other
(platform docs, Host lock). The file is never removed; its text decides nothing.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from filelock import FileLock, SoftFileLock, Timeout

from band_trio.errors import AgentAlreadyRunningError, BandConfigError

_log: Final = logging.getLogger(__name__)

HOLDER_BYTES: Final = 80
"""As much of the file's text is quoted."""


def file_stem(agent_id: str) -> str:
    """Return an agent's id as part of a file name; one with unusual characters is hashed."""
    if re.fullmatch(r"[A-Za-z0-9_-]+", agent_id):
        return agent_id
    return hashlib.sha256(agent_id.encode("utf-8", "surrogatepass")).hexdigest()


def lock_path(agent_id: str) -> Path:
    """Return the lock file of an agent."""
    return Path(tempfile.gettempdir()) / f"band-agent-{file_stem(agent_id)}.lock"


@contextmanager
def instance_lock(agent_id: str) -> Generator[None]:
    """Hold the agent's lock. Non-blocking, hence taken directly in the caller's task.

    Raises:
        AgentAlreadyRunningError: another run on this host holds it.
        BandConfigError: the file cannot be opened, or there is no place for it.
    """
    try:
        path = lock_path(agent_id)
    except FileNotFoundError:  # of a container, for example, in which nothing can be written
        raise BandConfigError(
            "There is no directory for the lock file, as no temporary one can be written to. "
            "Name one in TMPDIR, or pass AgentConfig(single_instance=False)."
        ) from None
    if FileLock is SoftFileLock:
        _log.warning("this system has no file lock; a second instance would not be noticed")
        yield
        return
    lock = FileLock(
        path, blocking=False, thread_local=False, preserve_lock_file=True, on_acquired=_write_holder
    )
    try:
        lock.acquire()
    except Timeout:
        raise AgentAlreadyRunningError(
            f"Agent {agent_id} already runs on this host{_holder(path)}. "
            "Stop it first, or pass AgentConfig(single_instance=False)."
        ) from None
    except OSError as exc:
        raise BandConfigError(
            f"The lock file {path} cannot be opened ({exc.strerror}). "
            "Remove it or change its owner, or pass AgentConfig(single_instance=False)."
        ) from None
    try:
        yield
    finally:
        lock.release()


def _write_holder(file: int) -> None:
    """Say in the locked file who holds it: by its descriptor, whatever its path leads to now."""
    text = f"pid {os.getpid()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\n"
    try:
        os.ftruncate(file, 0)
        os.write(file, text.encode("ascii"))
    except OSError as exc:
        _log.debug("the lock file holds no text: %s", exc)


def _holder(path: Path) -> str:
    """Return what the file says; anybody may have written it."""
    try:
        with path.open("rb") as file:
            text = file.read(HOLDER_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return f" ({text})" if text else ""

"""Loops inside a test that name the member that failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_CHARS = 300


@contextmanager
def member(*values: object) -> Iterator[None]:
    """Say which *values* a failure in the block is about."""
    try:
        yield
    except Exception as exc:
        exc.add_note(f"in the case {ascii(values)[:_CHARS]}")
        raise

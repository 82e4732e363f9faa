"""What a room should do next: the answers of its journal."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from band_trio.runtime.journal.entries import Entry
from band_trio.runtime.journal.reads import Dirty


@attrs.frozen
class Run:
    """Claim this message, and call the handler if it is ours."""

    entry: Entry


@attrs.frozen
class Settle:
    """Tell the platform this verdict: it was not tried yet."""

    entry: Entry


@attrs.frozen
class Read:
    """Read the list."""

    cause: Dirty


@attrs.frozen
class Probe:
    """Ask a stopped room's `next`: a message there says that it was resumed."""


@attrs.frozen
class Wait:
    """There is nothing to do before this time, unless something is told."""

    until: float


Todo: TypeAlias = Run | Settle | Read | Probe | Wait

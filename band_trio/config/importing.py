"""A target is being loaded by `band-trio run`: an agent that runs now would never let it end."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from band_trio.errors import BandConfigError


class StartedWhileLoadingError(BandConfigError):
    """Code that only had to make an agent has run one."""


# A context variable: trio.run takes it along into its tasks, wherever they open an agent.
_refusal: Final[ContextVar[str | None]] = ContextVar("band_trio_loading", default=None)


@contextmanager
def refusing_agents(text: str) -> Generator[None]:
    """Refuse, with *text*, every agent that is started by the code of this block."""
    token = _refusal.set(text)
    try:
        yield
    finally:
        _refusal.reset(token)


def refuse_while_loading() -> None:
    """Be called by whatever starts an agent.

    Raises:
        StartedWhileLoadingError: a target is being loaded.
    """
    text = _refusal.get()
    if text is not None:
        raise StartedWhileLoadingError(text)

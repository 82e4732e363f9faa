"""Nurseries that are nobody's business: errors leave them as they were raised."""

from __future__ import annotations

from types import TracebackType
from typing import TypeAlias, cast

import attrs
import trio

from band_trio.kit.leaves import leaf_errors

_Group: TypeAlias = BaseExceptionGroup[BaseException]


@attrs.frozen
class hide_nursery:
    """Keep a nursery of ours out of the errors that its caller sees.

    Put it around `async with trio.open_nursery()`. One real error comes out as itself, with its
    own cause and context; several stay a group, with a note that names *what*. A cancellation comes
    out bare, and not at all beside an error.
    """

    what: str
    """Name of the public thing that the nursery belongs to, for the note."""

    def __enter__(self) -> None:
        pass

    # A class, not a @contextmanager function: contextlib's frame would keep the group, the group
    # the error, the error its traceback, and the traceback that frame. Such a cycle keeps every
    # object of a failed session alive until the garbage collector comes by.
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not isinstance(exc, BaseExceptionGroup):
            return
        group = cast("_Group", exc)
        real = [each for each in group.exceptions if not is_cancellation(each)]
        if len(real) > 1:
            group.add_note(f"several tasks of {self.what} failed together; use except*")
            return
        only = real[0] if real else leaf_errors(group)[0]
        context = only.__context__
        try:
            raise only
        finally:
            only.__context__ = context  # raising it here has made the group its context
            del exc, traceback, group, real, only, context


class hidden_nursery:
    """`trio.open_nursery` inside `hide_nursery`: one `async with` for both."""

    def __init__(self, what: str) -> None:
        self._hidden = hide_nursery(what)
        self._manager = trio.open_nursery()

    async def __aenter__(self) -> trio.Nursery:
        return await self._manager.__aenter__()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        try:
            with self._hidden:
                return bool(await self._manager.__aexit__(exc_type, exc, traceback))  # noqa: ASYNC102 - trio's own
        finally:
            del exc, traceback  # no frame that an error came through may hold it


def is_cancellation(exc: BaseException) -> bool:
    """Tell whether *exc* is nothing but trio's cancellation, in groups or bare."""
    return all(isinstance(leaf, trio.Cancelled) for leaf in leaf_errors(exc))

"""The boundary to the person: what ends the program becomes one line and an exit code."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator, Sequence
from typing import Final

from band_trio.entry import texts
from band_trio.entry.exits import Exit
from band_trio.errors import AgentAlreadyRunningError, BandConfigError, BandError
from band_trio.kit.hygiene import clean_text, traceback_text
from band_trio.kit.leaves import leaf_errors, program_end

ERROR_CHARS: Final = 600
SECRET_CHARS: Final = 8
"""Length from which a key is looked for in texts. A shorter one is a mistake; masking it would
tear words apart."""


@contextlib.contextmanager
def told_errors(secrets: Sequence[str | None]) -> Generator[None]:
    """Turn what a program of the application raises into its last line.

    Errors of band_trio have no traceback, they say what to do; those of others have theirs.
    *secrets*, which may grow meanwhile, are masked in both.

    Raises:
        SystemExit: with the exit code, caused by the error; or as the block has raised it.
    """
    try:
        with bare_program_ends():
            yield
    except KeyboardInterrupt as exc:
        tell(texts.INTERRUPTED, secrets)
        raise SystemExit(Exit.FORCED) from exc
    except Exception as exc:
        foreign = not all(isinstance(each, BandError) for each in leaf_errors(exc))
        tell(describe(exc), secrets, exc if foreign else None)
        raise SystemExit(exit_code(exc)) from exc


@contextlib.contextmanager
def bare_program_ends() -> Generator[None]:
    """Take a wish to end the process out of the groups that nurseries put around it."""
    try:
        yield
    except BaseExceptionGroup as group:
        if (wish := program_end(group)) is not None:
            raise wish from None
        raise


def exit_code(error: BaseException) -> Exit:
    """Return the code for *error*: a setting to correct, or something that has happened."""
    setting = all(
        isinstance(each, BandConfigError) and not isinstance(each, AgentAlreadyRunningError)
        for each in leaf_errors(error)
    )
    return Exit.USAGE if setting else Exit.FAILED


def describe(error: BaseException) -> str:
    """Return *error* in one line: our own errors by their text, others by name and text."""
    leaves = leaf_errors(error)
    return "; ".join(dict.fromkeys(_describe_leaf(leaf) for leaf in leaves))


def _describe_leaf(error: BaseException) -> str:
    name = type(error).__name__
    if type(error).__module__.startswith("band_trio."):
        return str(error) or name
    return f"{name}: {error}" if str(error) else name


def tell(text: str, secrets: Sequence[str | None], error: BaseException | None = None) -> None:
    """Write *text* as one line to stderr, after the traceback of *error*, without *secrets*."""
    hidden = [each for each in secrets if each and len(each) >= SECRET_CHARS]
    trail = f"{traceback_text(error, hidden)}\n" if error is not None else ""
    # A reader that has gone, or no stderr at all, must not change the exit code.
    with contextlib.suppress(OSError, AttributeError):
        sys.stderr.write(f"{trail}band-trio: {clean_text(text, ERROR_CHARS, hidden)}\n")

"""A test over a family: one test, a loop over the members, and the failing ones named.

`@for_each("name, value", rows)` reads as `pytest.mark.parametrize` does. Use it where the members
are one fact (options, fields, files, answers); what has a story of its own is a test of its own.
"""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def for_each(
    names: str | Sequence[str], rows: Iterable[Any], *, ids: Any = None
) -> Callable[[F], F]:
    """Run the test once for every row, which stands for *names*, and tell all that fail.

    *ids* names the rows: texts, or a function of a value; else names or `repr` do.
    """
    fields = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
    members = [_member(fields, row, number, ids) for number, row in enumerate(rows)]
    assert members, f"no member of the family {names}"

    def decorate(test: F) -> F:
        signature = inspect.signature(test)
        rest = [p for name, p in signature.parameters.items() if name not in fields]

        if inspect.iscoroutinefunction(test):

            @wraps(test)
            async def run(**fixtures: Any) -> None:
                failed = list[Exception]()
                for label, values in members:
                    with _kept(failed, label):
                        await test(**values, **fixtures)
                _tell(failed, len(members))

        else:

            @wraps(test)
            def run(**fixtures: Any) -> None:
                failed = list[Exception]()
                for label, values in members:
                    with _kept(failed, label):
                        test(**values, **fixtures)
                _tell(failed, len(members))

        run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return run  # type: ignore[return-value]

    return decorate


def _member(fields: list[str], row: Any, number: int, ids: Any) -> tuple[str, dict[str, Any]]:
    named = None
    if hasattr(row, "marks"):  # pytest.param
        named, row = row.id, row.values if len(fields) > 1 else row.values[0]
    values = (row,) if len(fields) == 1 else tuple(row)
    assert len(values) == len(fields), f"{row!r} does not stand for {fields}"
    if callable(ids):
        label = ", ".join(str(ids(value)) for value in values)
    elif ids is not None:
        label = str(list(ids)[number])
    else:
        label = named or ", ".join(_text(value) for value in values)
    return label, dict(zip(fields, values, strict=True))


def _text(value: Any) -> str:
    return getattr(value, "__name__", None) or reprlib.repr(value)


@contextmanager
def _kept(failed: list[Exception], label: str) -> Generator[None]:
    try:
        yield
    except Exception as exc:  # noqa: BLE001 - told when all members have run
        exc.add_note(f"for {label}")
        failed.append(exc)


def _tell(failed: list[Exception], all_: int) -> None:
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise ExceptionGroup(f"{len(failed)} of {all_} members fail", failed)

"""The loop over a family runs every member and names all that fail."""

from __future__ import annotations

import pytest
import trio

from tests.support.for_each import for_each


def test_every_member_runs_and_those_that_fail_are_named() -> None:
    seen: list[tuple[int, str]] = []

    @for_each("letter", ["a", "b"])
    @for_each("number, limit", [(1, 5), (7, 5), (9, 5)])
    def check(number: int, limit: int, letter: str) -> None:
        seen.append((number, letter))
        assert number < limit

    with pytest.raises(ExceptionGroup) as caught:  # noqa: ASYNC401 - its notes are looked at
        check()  # type: ignore[call-arg]
    assert seen == [(n, letter) for letter in "ab" for n in (1, 7, 9)]
    notes = [(error.__notes__, sub.__notes__) for error in caught.value.exceptions
             if isinstance(error, ExceptionGroup) for sub in error.exceptions]  # fmt: skip
    assert notes == [(["for 'a'"], ["for 7, 5"]), (["for 'a'"], ["for 9, 5"]),
                     (["for 'b'"], ["for 7, 5"]), (["for 'b'"], ["for 9, 5"])]  # fmt: skip


async def test_an_async_test_waits_for_each_member_and_one_failure_is_itself() -> None:
    @for_each("number", [1, 2], ids=["one", "two"])
    async def check(number: int) -> None:
        await trio.lowlevel.checkpoint()
        assert number == 1

    with pytest.raises(AssertionError) as caught:
        await check()  # type: ignore[call-arg]
    assert caught.value.__notes__ == ["for two"]


def test_a_family_without_members_is_no_test() -> None:
    with pytest.raises(AssertionError, match="no member"):
        for_each("number", [])

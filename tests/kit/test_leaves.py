"""The errors inside groups: all of them, the only one, and the one that ends the program."""

from __future__ import annotations

import pytest

from band_trio.kit.leaves import leaf_errors, lone_leaf, program_end


def test_leaves_keep_their_order_however_deep() -> None:
    first, second = ValueError("1"), KeyError("2")
    error: Exception = ExceptionGroup("g", [first, second])
    for _ in range(3_000):
        error = ExceptionGroup("g", [error])
    assert leaf_errors(error) == [first, second]
    assert leaf_errors(first) == [first]


def test_a_lone_leaf_comes_out_and_several_stay_together() -> None:
    first, second = ValueError("1"), KeyError("2")
    assert lone_leaf(first) is first
    assert lone_leaf(ExceptionGroup("g", [ExceptionGroup("h", [first])])) is first
    several = ExceptionGroup("g", [first, second])
    assert lone_leaf(several) is several


@pytest.mark.parametrize("end", [SystemExit(3), KeyboardInterrupt()])
def test_what_ends_the_program_is_found_in_every_group(end: BaseException) -> None:
    assert program_end(end) is end
    group = BaseExceptionGroup("g", [ValueError(), BaseExceptionGroup("h", [end, SystemExit(4)])])
    assert program_end(group) is end
    assert program_end(ExceptionGroup("g", [ValueError()])) is None

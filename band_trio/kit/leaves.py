"""The errors inside exception groups."""

from __future__ import annotations


def leaf_errors(error: BaseException) -> list[BaseException]:
    """Return the errors of nested groups, in order; a plain error is its own leaf."""
    leaves, waiting = [], [error]
    while waiting:  # no recursion: groups can be nested deeper than the stack
        each = waiting.pop()
        if isinstance(each, BaseExceptionGroup):
            waiting.extend(reversed(each.exceptions))
        else:
            leaves.append(each)
    return leaves


def lone_leaf(error: BaseException) -> BaseException:
    """Return the one error that *error* is or holds; *error* itself when it holds several."""
    leaves = leaf_errors(error)
    return leaves[0] if len(leaves) == 1 else error


def program_end(error: BaseException) -> BaseException | None:
    """Return the first `SystemExit` or `KeyboardInterrupt` in *error*: it passes every boundary."""
    for leaf in leaf_errors(error):
        if isinstance(leaf, SystemExit | KeyboardInterrupt):
            return leaf
    return None

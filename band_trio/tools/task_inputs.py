"""Arguments of the task tools. The docstrings and descriptions are what a model reads."""

# ruff: noqa: RUF009 - `argument` declares an attrs field

from __future__ import annotations

from typing import Any, Final, Literal

import attrs

from band_trio import texts
from band_trio.tools.definitions import ID, argument, need_one_of

TaskListState = Literal["active", "cancelled", "superseded", "archived", "all"]
TaskStatus = Literal["pending", "in_progress", "blocked", "in_review", "failed", "completed"]
TaskState = Literal["active", "cancelled", "archived"]
Include = Literal["history"]

_REFERENCE: Final = "The number of the task in this room, or its id."


def _task_reference(description: str = _REFERENCE, **options: Any) -> Any:
    return argument(description, pattern=ID, prefix="#", **options)


@attrs.frozen
class ListTasksInput:
    """List the tasks of this room, by number."""

    state: TaskListState | None = argument("Which tasks; active ones if left out.", default=None)
    cursor: str | None = argument("The `next_cursor` of the page before.", default=None)
    limit: int | None = argument("Tasks per page, 1 to 100.", default=None, low=1, high=100)


@attrs.frozen
class CreateTaskInput:
    """Add a task to this room's board. That assigns it to nobody."""

    subject: str = argument("What is to be done, in one line.", visible=True, one_line=True)
    detail: str | None = argument("What else one has to know to do it.", default=None)
    supersedes_id: str | None = _task_reference(
        "The number or id of a task that this one replaces.", default=None
    )


@attrs.frozen
class GetTaskInput:
    """Read one task: who works on it and how it stands."""

    id: str = _task_reference()
    include: Include | None = argument("`history` adds what happened to it.", default=None)


@attrs.frozen
class UpdateTaskInput:
    """Change a task, or report your own progress on it. `status` and `active_form` are yours
    alone; your first status makes you one of its assignees. Subject, detail and state are shared
    by everybody. Give at least one of them."""

    id: str = _task_reference()
    status: TaskStatus | None = argument("How your own work on it stands.", default=None)
    active_form: str | None = argument(
        "What you are doing right now, in a few words.", default=None, one_line=True
    )
    comment: str | None = argument("A remark to keep in its history.", default=None)
    subject: str | None = argument("A new subject, in one line.", default=None, one_line=True)
    detail: str | None = argument("A new detail.", default=None)
    state: TaskState | None = argument("A new state of the whole task.", default=None)

    def __attrs_post_init__(self) -> None:
        need_one_of(
            self, texts.TASK_UNCHANGED,
            "status", "active_form", "comment", "subject", "detail", "state",
        )  # fmt: skip


@attrs.frozen
class GetTaskHistoryInput:
    """Read what happened to a task, oldest first."""

    id: str = _task_reference()
    cursor: str | None = argument("The `next_cursor` of the page before.", default=None)
    limit: int | None = argument("Entries per page, 1 to 100.", default=None, low=1, high=100)


@attrs.frozen
class GetBoardInput:
    """Read what this room works towards: its goal, if one is set."""

    include: Include | None = argument("`history` adds how it changed.", default=None)


@attrs.frozen
class SetBoardInput:
    """Change this room's goal. Give at least one of the two; the other stays as it is."""

    goal_title: str | None = argument("The goal in one line.", default=None, one_line=True)
    goal_summary: str | None = argument("The goal in full.", default=None)

    def __attrs_post_init__(self) -> None:
        need_one_of(self, texts.BOARD_UNCHANGED, "goal_title", "goal_summary")

"""Tasks and the board: what a room works on (platform docs, Tasks).

The docstrings and descriptions of the inputs are what a model reads.
"""

# ruff: noqa: RUF009 - `argument` declares an attrs field

from __future__ import annotations

from typing import Any, Final, Literal

import attrs

from band_trio import texts
from band_trio.kit.hygiene import one_line
from band_trio.link.rest.routes import Route, one, page_of, written
from band_trio.protocol.holdings import Board, Task, TaskEvent
from band_trio.tools.core import ToolCore, platform_tool
from band_trio.tools.definitions import ID, argument, need_one_of
from band_trio.tools.results import cursor_metadata, object_result, page_result
from band_trio.types import ToolCategory, TurnEffect

TASK_PAGE: Final = 50
"""Entries of a page where no limit is given (platform docs, Tasks)."""
_TASKS, _OBSERVE, _ACT = ToolCategory.TASKS, TurnEffect.OBSERVE, TurnEffect.ACT

# --------------------------------------------------------------------------- routes

_TASK: Final = "/chats/{room_id}/tasks/{task}"
"""By id or number; numbers travel as `3`, never `#3`."""
LIST_TASKS: Final = Route("GET", "/chats/{room_id}/tasks", page_of(Task))
CREATE_TASK: Final = Route("POST", "/chats/{room_id}/tasks", written(Task))
GET_TASK: Final = Route("GET", _TASK, one(Task))
UPDATE_TASK: Final = Route("POST", _TASK, written(Task))
GET_TASK_HISTORY: Final = Route("GET", f"{_TASK}/history", page_of(TaskEvent))
GET_BOARD: Final = Route("GET", "/chats/{room_id}/board", one(Board))
SET_BOARD: Final = Route("PUT", "/chats/{room_id}/board", written(Board))

# --------------------------------------------------------------------------- inputs

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


# --------------------------------------------------------------------------- tools


class Tasks(ToolCore):
    """The tools about tasks and the board. Errors: see `band_trio.tools.contacts.Contacts`.

    A task is named by its number, with or without `#`, or by its id.
    """

    @platform_tool(ListTasksInput, _TASKS, _OBSERVE, room_bound=True)
    async def list_tasks(
        self, state: str | None = None, cursor: str | None = None, limit: int | None = None
    ) -> dict[str, Any]:
        """Return one page of tasks, by number: `data` and `metadata`."""
        page = await self._ask(
            LIST_TASKS, room_id=self.room_id, state=state, cursor=cursor, limit=limit
        )
        return page_result(page, cursor_metadata(page, limit or TASK_PAGE))

    @platform_tool(CreateTaskInput, _TASKS, _ACT, room_bound=True)
    async def create_task(
        self, subject: str, detail: str | None = None, supersedes_id: str | None = None
    ) -> dict[str, Any]:
        """Add a task, in place of another one if given; return it."""
        subject = one_line(subject)
        replaced = _reference(supersedes_id) if supersedes_id is not None else None
        given = {"subject": subject, "detail": detail, "supersedes_id": replaced}
        task = await self._change(CREATE_TASK, room_id=self.room_id, **given)
        return object_result(task, {"subject": subject, "detail": detail, "state": "active"})

    @platform_tool(GetTaskInput, _TASKS, _OBSERVE, room_bound=True)
    async def get_task(self, id: str, include: str | None = None) -> dict[str, Any]:  # noqa: A002 - the platform's word
        """Return one task; *include* may be `history`."""
        task = await self._ask(GET_TASK, room_id=self.room_id, task=_reference(id), include=include)
        return object_result(task)

    @platform_tool(UpdateTaskInput, _TASKS, _ACT, room_bound=True)
    async def update_task(
        self,
        id: str,  # noqa: A002 - the platform's word
        status: str | None = None,
        active_form: str | None = None,
        comment: str | None = None,
        subject: str | None = None,
        detail: str | None = None,
        state: str | None = None,
    ) -> dict[str, Any]:
        """Change a task, or report one's own progress on it; return it."""
        changes = {
            "status": status,
            "active_form": _line(active_form),
            "comment": comment,
            "subject": _line(subject),
            "detail": detail,
            "state": state,
        }
        reference = _reference(id)
        task = await self._change(UPDATE_TASK, room_id=self.room_id, task=reference, **changes)
        return object_result(task, {"id": reference, **changes})

    @platform_tool(GetTaskHistoryInput, _TASKS, _OBSERVE, room_bound=True)
    async def get_task_history(
        self,
        id: str,  # noqa: A002 - the platform's word
        cursor: str | None = None,
        limit: int | None = None,
    ) -> dict[str, Any]:
        """Return one page of what happened to a task, oldest first: `data` and `metadata`."""
        page = await self._ask(
            GET_TASK_HISTORY, room_id=self.room_id, task=_reference(id), cursor=cursor, limit=limit
        )
        return page_result(page, cursor_metadata(page, limit or TASK_PAGE))

    @platform_tool(GetBoardInput, _TASKS, _OBSERVE, room_bound=True)
    async def get_board(self, include: str | None = None) -> dict[str, Any]:
        """Return the room's goal; *include* may be `history`."""
        return object_result(await self._ask(GET_BOARD, room_id=self.room_id, include=include))

    @platform_tool(SetBoardInput, _TASKS, _ACT, room_bound=True)
    async def set_board(
        self, goal_title: str | None = None, goal_summary: str | None = None
    ) -> dict[str, Any]:
        """Change the room's goal; what is None stays as it is. Return the board."""
        goal = {"goal_title": _line(goal_title), "goal_summary": goal_summary}
        board = await self._change(SET_BOARD, room_id=self.room_id, **goal)
        return object_result(board, {"chat_room_id": self.room_id, **goal})


def _reference(task: str) -> str:
    return str(task).strip().removeprefix("#")


def _line(text: str | None) -> str | None:
    return None if text is None else one_line(text)

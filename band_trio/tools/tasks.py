"""Tasks and the board: what a room works on."""

from __future__ import annotations

from typing import Any, Final

from band_trio import texts
from band_trio.errors import BandToolError
from band_trio.kit.hygiene import one_line
from band_trio.protocol.holdings import Board, Task
from band_trio.protocol.structure import unstructure
from band_trio.tools.core import ToolCore, platform_tool
from band_trio.tools.definitions import BandTool
from band_trio.tools.results import cursor_metadata, page_result, without_nulls

TASK_PAGE: Final = 50
"""Entries of a page where no limit is given (platform docs, Tasks)."""


class Tasks(ToolCore):
    """The tools about tasks and the board. Errors: see `band_trio.tools.contacts.Contacts`.

    A task is named by its number, with or without `#`, or by its id.
    """

    @platform_tool(BandTool.LIST_TASKS)
    async def list_tasks(
        self, state: str | None = None, cursor: str | None = None, limit: int | None = None
    ) -> dict[str, Any]:
        """Return one page of tasks, by number: `data` and `metadata`."""
        with self._reading(self._deadline()):
            page = await self.rest.list_tasks(self.room_id, state, cursor, limit)
        return page_result(page, cursor_metadata(page, limit or TASK_PAGE))

    @platform_tool(BandTool.CREATE_TASK)
    async def create_task(
        self, subject: str, detail: str | None = None, supersedes_id: str | None = None
    ) -> dict[str, Any]:
        """Add a task, in place of another one if given; return it."""
        subject = one_line(subject)
        replaced = _reference(supersedes_id) if supersedes_id is not None else None
        with self._changing():
            task = await self.rest.create_task(self.room_id, subject, detail, replaced)
        return _shown(task, {"subject": subject, "detail": detail, "state": "active"})

    @platform_tool(BandTool.GET_TASK)
    async def get_task(self, id: str, include: str | None = None) -> dict[str, Any]:  # noqa: A002 - the platform's word
        """Return one task; *include* may be `history`."""
        with self._reading(self._deadline()):
            return _shown(await self.rest.get_task(self.room_id, _reference(id), include), {})

    @platform_tool(BandTool.UPDATE_TASK)
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
        if all(value is None for value in changes.values()):
            raise BandToolError(texts.TASK_UNCHANGED)
        reference = _reference(id)
        with self._changing():
            task = await self.rest.update_task(self.room_id, reference, **changes)
        return _shown(task, {"id": reference, **changes})

    @platform_tool(BandTool.GET_TASK_HISTORY)
    async def get_task_history(
        self,
        id: str,  # noqa: A002 - the platform's word
        cursor: str | None = None,
        limit: int | None = None,
    ) -> dict[str, Any]:
        """Return one page of what happened to a task, oldest first: `data` and `metadata`."""
        with self._reading(self._deadline()):
            page = await self.rest.get_task_history(self.room_id, _reference(id), cursor, limit)
        return page_result(page, cursor_metadata(page, limit or TASK_PAGE))

    @platform_tool(BandTool.GET_BOARD)
    async def get_board(self, include: str | None = None) -> dict[str, Any]:
        """Return the room's goal; *include* may be `history`."""
        with self._reading(self._deadline()):
            return _shown(await self.rest.get_board(self.room_id, include), {})

    @platform_tool(BandTool.SET_BOARD)
    async def set_board(
        self, goal_title: str | None = None, goal_summary: str | None = None
    ) -> dict[str, Any]:
        """Change the room's goal; what is None stays as it is. Return the board."""
        goal = {"goal_title": _line(goal_title), "goal_summary": goal_summary}
        if all(value is None for value in goal.values()):
            raise BandToolError(texts.BOARD_UNCHANGED)
        with self._changing(repeated=True):
            board = await self.rest.set_board(self.room_id, **goal)
        return _shown(board, {"chat_room_id": self.room_id, **goal})


def _reference(task: str) -> str:
    return str(task).strip().removeprefix("#")


def _line(text: str | None) -> str | None:
    return None if text is None else one_line(text)


def _shown(value: Task | Board | None, known: dict[str, Any]) -> dict[str, Any]:
    """Return what a model sees; where the answer was odd, what is *known* of it."""
    return without_nulls(unstructure(value) if value is not None else known)

"""Tasks and the board of a room (platform docs, Tasks). Task numbers travel as `3`, never `#3`."""

from __future__ import annotations

import attrs

from band_trio.link.rest.routes import (
    Routes,
    given,
    query,
    read_object,
    read_page,
    read_written,
    room_path,
    segment,
)
from band_trio.protocol.holdings import Board, Task, TaskEvent
from band_trio.protocol.rest import Page


@attrs.frozen
class TaskRoutes(Routes):
    """Reads and `set_board` raise what `Api.repeat` raises, the others what `Api.post` raises."""

    async def list_tasks(
        self,
        room_id: str,
        state: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> Page[Task]:
        """Return one page of tasks by number; without *state* the active ones."""
        params = query(state=state, cursor=cursor, limit=limit)
        return read_page(
            await self.api.repeat("GET", f"{room_path(room_id)}/tasks", params=params), Task
        )

    async def create_task(
        self, room_id: str, subject: str, detail: str | None, supersedes_id: str | None
    ) -> Task | None:
        """Add a task, in place of *supersedes_id* if given; None when the answer is unreadable."""
        body = given(subject=subject, detail=detail, supersedes_id=supersedes_id)
        answer = await self.api.post("POST", f"{room_path(room_id)}/tasks", json=body)
        return read_written(answer, Task)

    async def get_task(self, room_id: str, task: str, include: str | None = None) -> Task:
        """Return a task by id or number, with its history if *include* is `history`."""
        answer = await self.api.repeat("GET", _task(room_id, task), params=query(include=include))
        return read_object(answer, Task)

    async def update_task(self, room_id: str, task: str, /, **changes: str | None) -> Task | None:
        """Change a task by id or number; None leaves a field as it is."""
        answer = await self.api.post("POST", _task(room_id, task), json=given(**changes))
        return read_written(answer, Task)

    async def get_task_history(
        self, room_id: str, task: str, cursor: str | None = None, limit: int | None = None
    ) -> Page[TaskEvent]:
        """Return one page of what happened to a task, oldest first."""
        params = query(cursor=cursor, limit=limit)
        path = f"{_task(room_id, task)}/history"
        return read_page(await self.api.repeat("GET", path, params=params), TaskEvent)

    async def get_board(self, room_id: str, include: str | None = None) -> Board:
        """Return the goal of a room, with its history if *include* is `history`."""
        path = f"{room_path(room_id)}/board"
        return read_object(await self.api.repeat("GET", path, params=query(include=include)), Board)

    async def set_board(self, room_id: str, /, **goal: str | None) -> Board | None:
        """Change the goal of a room; None leaves a field as it is. May be repeated."""
        answer = await self.api.repeat("PUT", f"{room_path(room_id)}/board", json=given(**goal))
        return read_written(answer, Board)


def _task(room_id: str, task: str) -> str:
    return f"{room_path(room_id)}/tasks/{segment(task)}"

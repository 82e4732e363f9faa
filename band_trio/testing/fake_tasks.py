"""Tasks and board of a fake room: the routes, over the platform's own store."""

from __future__ import annotations

from typing import Any, Final

import attrs

from band_trio.protocol.holdings import Board, Task, TaskEvent
from band_trio.protocol.rest import Page
from band_trio.stores.refusal import api_errors
from band_trio.stores.tasks import RoomTasks
from band_trio.testing.fake_contacts import cursor_page
from band_trio.testing.seeds import FAKE_ACTOR, FAKE_TIME_TEXT

_PAGE: Final = 50


@attrs.define(eq=False, slots=False, kw_only=True)
class FakeTasks:
    """The routes of tasks and of the board."""

    tasks: list[Task] = attrs.field(factory=list)
    first_board: Board = attrs.field(factory=Board)
    task_actor: str = FAKE_ACTOR
    """Who works here."""
    store: RoomTasks = attrs.field(init=False)

    @store.default
    def _new_store(self) -> RoomTasks:
        return RoomTasks(
            self.first_board.chat_room_id or "",
            lambda: f"task-{len(self.tasks) + 1}",
            lambda: FAKE_TIME_TEXT,
            self.tasks,
            self.first_board,
        )

    @property
    def board(self) -> Board:
        """The board."""
        return self.store.board

    @property
    def _actor(self) -> dict[str, Any]:
        return {"id": self.task_actor, "name": self.task_actor, "type": "Agent"}

    def _in(self, room_id: str) -> RoomTasks:
        self.store.room_id = room_id
        return self.store

    def list_tasks(
        self,
        room_id: str,
        state: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> Page[Task]:
        """Return a page of tasks by number; active ones unless a state is given."""
        return cursor_page(self.store.listed(state), cursor, limit or _PAGE)

    def create_task(
        self, room_id: str, subject: str, detail: str | None, supersedes_id: str | None
    ) -> Task | None:
        """Add a task, in place of another one if given; 404 if that is unknown."""
        with api_errors():
            return self._in(room_id).create(self._actor, subject, detail, supersedes_id)

    def get_task(self, room_id: str, task: str, include: str | None = None) -> Task:
        """Return a task by id or number; 404 if unknown."""
        with api_errors():
            found = self.store.find(task)
        return self.store.with_history(found) if include == "history" else found

    def update_task(self, room_id: str, task: str, **changes: str | None) -> Task | None:
        """Change a task by id or number; 404 if unknown, 422 for work on one that is closed."""
        with api_errors():
            return self.store.update(self._actor, self.store.find(task), changes)

    def get_task_history(
        self, room_id: str, task: str, cursor: str | None = None, limit: int | None = None
    ) -> Page[TaskEvent]:
        """Return a page of what happened to a task; 404 if unknown."""
        with api_errors():
            events = self.store.events(self.store.find(task))
        return cursor_page(events, cursor, limit or _PAGE)

    def get_board(self, room_id: str, include: str | None = None) -> Board:
        """Return the board."""
        shown = self.store.board_with_history() if include == "history" else self.board
        return attrs.evolve(shown, chat_room_id=shown.chat_room_id or room_id)

    def set_board(self, room_id: str, **goal: str | None) -> Board | None:
        """Change the goal; what is None stays."""
        with api_errors():
            return self._in(room_id).set_board(self._actor, goal)

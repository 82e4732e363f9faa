"""Tasks and board of a fake room: the platform's own store behind the routes of the client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from band_trio.protocol.holdings import Board, Task, TaskEvent
from band_trio.protocol.rest import Page
from band_trio.protocol.structure import structure
from band_trio.stores import tasks
from band_trio.stores.refusal import api_errors
from band_trio.stores.tasks import Actor, Assignment, RoomTasks
from band_trio.testing.fake_contacts import cursor_page
from band_trio.testing.seeds import FAKE_ACTOR, FAKE_ROOM, FAKE_TIME_TEXT

_PAGE: Final = 50


@attrs.define(eq=False, slots=False, kw_only=True)
class FakeTasks:
    """The routes of tasks and of the board. Errors are those of the platform."""

    work: RoomTasks = attrs.field(factory=lambda: room_tasks((), Board()))
    task_actor: str = FAKE_ACTOR
    """Who works here."""

    @property
    def _actor(self) -> Actor:
        return Actor(self.task_actor, self.task_actor, "Agent")

    def _in(self, room_id: str) -> RoomTasks:
        # One room, but tools without a room of their own follow each message into its own.
        self.work.room_id = self.work.board.room_id = room_id
        return self.work

    def list_tasks(
        self,
        room_id: str,
        state: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> Page[Task]:
        """Return a page of tasks by number; active ones unless a state is given."""
        hits = [_shown(task) for task in self.work.search(state or "active")]
        return cursor_page(hits, cursor, limit or _PAGE)

    def create_task(
        self, room_id: str, subject: str, detail: str | None, supersedes_id: str | None
    ) -> Task | None:
        """Add a task, in place of another one if given."""
        body = {"subject": subject, "detail": detail, "supersedes_id": supersedes_id}
        with api_errors():
            return _shown(self._in(room_id).create(self._actor, body))

    def get_task(self, room_id: str, task: str, include: str | None = None) -> Task:
        """Return a task by id or number."""
        with api_errors():
            return _shown(self.work.find(task), history=include == "history")

    def update_task(self, room_id: str, task: str, **changes: str | None) -> Task | None:
        """Change a task by id or number."""
        with api_errors():
            return _shown(self._in(room_id).update(self._actor, task, changes))

    def get_task_history(
        self, room_id: str, task: str, cursor: str | None = None, limit: int | None = None
    ) -> Page[TaskEvent]:
        """Return a page of what happened to a task."""
        with api_errors():
            events = self.work.find(task).past.events
        return cursor_page([structure(each, TaskEvent) for each in events], cursor, limit or _PAGE)

    def get_board(self, room_id: str, include: str | None = None) -> Board:
        """Return the board."""
        return _board(self._in(room_id).board, history=include == "history")

    def set_board(self, room_id: str, **goal: str | None) -> Board | None:
        """Change the goal; what is None stays."""
        given = {name: value for name, value in goal.items() if value is not None}
        with api_errors():
            return _board(self._in(room_id).set_board(self._actor, given))

    def all_tasks(self) -> list[Task]:
        """Return the tasks of the room, in every state."""
        return [_shown(task) for task in self.work.tasks]

    def shown_board(self) -> Board:
        """Return the board as it is now; empty while no goal is set."""
        board = self.work.board
        return _board(board) if board.goal_title or board.goal_summary else Board()


def room_tasks(seeds: Iterable[Task], board: Board) -> RoomTasks:
    """Return a store with seeds."""
    work = RoomTasks(FAKE_ROOM, lambda: f"task-{work.last_number + 1}", lambda: FAKE_TIME_TEXT)
    for seed in seeds:
        work.add(_task(seed))
    for name in attrs.fields_dict(Board):
        value = getattr(board, name)
        if value is not None and name in ("created_by", "updated_by"):
            value = _actor(value)
        if value is not None and hasattr(work.board, name):
            setattr(work.board, name, value)
    return work


def _task(seed: Task) -> tasks.Task:
    assignments = [_assignment(each) for each in seed.assignments]
    return tasks.Task(
        id=seed.id,
        number=seed.number or 0,
        room_id=seed.chat_room_id or FAKE_ROOM,
        subject=seed.subject or "",
        detail=seed.detail or "",
        created_by=_actor(seed.created_by) if seed.created_by else None,
        inserted_at=seed.inserted_at or FAKE_TIME_TEXT,
        updated_at=seed.updated_at or FAKE_TIME_TEXT,
        state=seed.state or "active",
        unassigned_status=seed.overall_status or "pending",
        superseded_by_id=seed.superseded_by_id,
        assignments={each.assignee.id: each for each in assignments},
        past=tasks.History(list(seed.history or ())),
    )


def _assignment(seed: Mapping[str, Any]) -> Assignment:
    texts = {n: str(seed[n]) for n in ("active_form", "linked_native_id") if seed.get(n)}
    at = str(seed.get("updated_at") or FAKE_TIME_TEXT)
    actor = _actor(seed.get("assignee") or {})
    return Assignment(actor, str(seed.get("status") or "pending"), **texts, updated_at=at)


def _actor(seed: Mapping[str, Any]) -> Actor:
    name = str(seed.get("name") or seed.get("id") or FAKE_ACTOR)
    return Actor(
        str(seed.get("id") or name), name, str(seed.get("type") or "Agent"), seed.get("handle")
    )


def _shown(task: tasks.Task, *, history: bool = False) -> Task:
    return structure(task.render(history=history), Task)


def _board(board: tasks.Board, *, history: bool = False) -> Board:
    return structure(board.render(history=history), Board)

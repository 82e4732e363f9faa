"""Tasks and board of a fake room: statuses per participant, lifecycle and history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from band_trio.errors import BandApiError
from band_trio.protocol.holdings import Board, Task, TaskEvent
from band_trio.protocol.rest import Page
from band_trio.protocol.structure import unstructure
from band_trio.testing.fake_contacts import cursor_page
from band_trio.testing.seeds import FAKE_ACTOR, FAKE_TIME_TEXT

_PAGE: Final = 50
_ROLL_UP: Final = ("failed", "blocked", "in_progress", "in_review", "pending", "completed")
"""The status of a task is the first of these that an assignee has."""
_LIFECYCLE: Final = {"cancelled": "cancelled", "archived": "archived", "active": "unarchived"}


@attrs.define(eq=False, slots=False, kw_only=True)
class FakeTasks:
    """The routes of tasks and of the board."""

    tasks: list[Task] = attrs.field(factory=list)
    board: Board = attrs.field(factory=Board)
    task_actor: str = FAKE_ACTOR
    """Who works here."""
    task_history: dict[str, list[TaskEvent]] = attrs.field(factory=dict, init=False)
    board_history: list[dict[str, Any]] = attrs.field(factory=list, init=False)

    @property
    def _actor(self) -> dict[str, Any]:
        return {"id": self.task_actor, "name": self.task_actor, "type": "Agent"}

    def list_tasks(
        self,
        room_id: str,
        state: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> Page[Task]:
        """Return a page of tasks by number; active ones unless a state is given."""
        hits = [task for task in self.tasks if (state or "active") in ("all", task.state)]
        return cursor_page(hits, cursor, limit or _PAGE)

    def create_task(
        self, room_id: str, subject: str, detail: str | None, supersedes_id: str | None
    ) -> Task | None:
        """Add a task, in place of another one if given; 404 if that is unknown."""
        replaced = self._find(supersedes_id) if supersedes_id is not None else None
        number = max((task.number or 0 for task in self.tasks), default=0) + 1
        task = Task(
            f"task-{number}", number, room_id, subject, detail, "active", "pending",
            created_by=self._actor, inserted_at=FAKE_TIME_TEXT, updated_at=FAKE_TIME_TEXT,
        )  # fmt: skip
        self.tasks.append(task)
        self._happened(task, "created", {"subject": subject, "detail": detail})
        if replaced is not None:
            change = {"from": replaced.state, "to": "superseded"}
            payload = {"state": change, "superseded_by_id": task.id}
            self._happened(replaced, "superseded", payload)
            self._put(attrs.evolve(replaced, state="superseded", superseded_by_id=task.id))
        return task

    def get_task(self, room_id: str, task: str, include: str | None = None) -> Task:
        """Return a task by id or number; 404 if unknown."""
        found = self._find(task)
        if include != "history":
            return found
        events = [unstructure(event) for event in self.task_history.get(found.id, ())]
        return attrs.evolve(found, history=events, history_truncated=False)

    def update_task(self, room_id: str, task: str, **changes: str | None) -> Task | None:
        """Change a task by id or number; 404 if unknown, 422 for work on one that is closed."""
        found = self._find(task)
        given = {name: value for name, value in changes.items() if value is not None}
        if found.state != "active" and given.keys() & {"status", "active_form"}:
            raise BandApiError(422, "validation_error", f"the task is {found.state}")
        if given.keys() & {"status", "active_form"}:
            found = self._work(found, given)
        if "comment" in given:
            self._happened(found, "commented", {"text": given["comment"]})
        edits: dict[str, Any] = {n: given[n] for n in ("subject", "detail") if n in given}
        for name, value in edits.items():
            self._happened(found, "edited", {name: {"from": getattr(found, name), "to": value}})
        found = attrs.evolve(found, **edits)
        if "state" in given and given["state"] != found.state:
            state = given["state"]
            payload = {"state": {"from": found.state, "to": state}}
            self._happened(found, _LIFECYCLE[state], payload)
            found = attrs.evolve(found, state=state)
        self._put(found)
        return found

    def _work(self, task: Task, given: Mapping[str, str]) -> Task:
        """Write the agent's own progress; the first makes it an assignee."""
        own = next((a for a in task.assignments if a["assignee"]["id"] == self.task_actor), None)
        others = [each for each in task.assignments if each is not own]
        before = own or {"assignee": self._actor, "status": None, "active_form": ""}
        after = {
            **before,
            "status": given.get("status") or before["status"] or "pending",
            "active_form": given.get("active_form", before["active_form"]),
            "updated_at": FAKE_TIME_TEXT,
        }
        if after["status"] != before["status"]:
            change = {"status": {"from": before["status"], "to": after["status"]}}
            self._happened(task, "status_changed", change)
        assignments = [*others, after]
        statuses = {each["status"] for each in assignments}
        overall = next(status for status in _ROLL_UP if status in statuses)
        return attrs.evolve(task, assignments=assignments, overall_status=overall)

    def get_task_history(
        self, room_id: str, task: str, cursor: str | None = None, limit: int | None = None
    ) -> Page[TaskEvent]:
        """Return a page of what happened to a task; 404 if unknown."""
        found = self._find(task)
        return cursor_page(self.task_history.get(found.id, ()), cursor, limit or _PAGE)

    def get_board(self, room_id: str, include: str | None = None) -> Board:
        """Return the board."""
        board = attrs.evolve(self.board, chat_room_id=self.board.chat_room_id or room_id)
        history = list(self.board_history) if include == "history" else None
        return attrs.evolve(board, history=history)

    def set_board(self, room_id: str, **goal: str | None) -> Board | None:
        """Change the goal; what is None stays."""
        given: dict[str, Any] = {name: value for name, value in goal.items() if value is not None}
        event = "goal_edited" if self.board.goal_title or self.board.goal_summary else "goal_set"
        self.board_history.append(
            {"event": event, "actor": self._actor, "at": FAKE_TIME_TEXT, "payload": given}
        )
        self.board = attrs.evolve(
            self.board, chat_room_id=room_id, updated_by=self._actor, updated_at=FAKE_TIME_TEXT,
            created_by=self.board.created_by or self._actor,
            inserted_at=self.board.inserted_at or FAKE_TIME_TEXT, **given,
        )  # fmt: skip
        return self.board

    def _find(self, reference: str) -> Task:
        for task in self.tasks:
            if reference in (task.id, str(task.number)):
                return task
        raise BandApiError(404, "not_found", "no such task")

    def _put(self, task: Task) -> None:
        places = [place for place, each in enumerate(self.tasks) if each.id == task.id]
        self.tasks[places[0]] = task

    def _happened(self, task: Task, event: str, payload: dict[str, Any]) -> None:
        entry = TaskEvent(event, FAKE_TIME_TEXT, self._actor, payload)
        self.task_history.setdefault(task.id, []).append(entry)

"""The tasks and the board of one room (platform docs, Tasks): statuses per participant, a roll-up,
a lifecycle, and a history that is only added to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from band_trio.protocol.holdings import Board, Task, TaskEvent
from band_trio.protocol.structure import unstructure
from band_trio.stores.refusal import invalid, not_found

Actor: TypeAlias = dict[str, Any]
"""Who does something: id, name, type and handle."""
STATUSES: Final = ("pending", "in_progress", "blocked", "in_review", "failed", "completed")
STATES: Final = ("active", "cancelled", "archived")
CHANGES: Final = (
    "status", "active_form", "comment", "subject", "detail", "state", "linked_native_id",
)  # fmt: skip
TEXT_CHARS: Final = 16_384
SHOWN: Final = 100
"""Events of the history that go with a task or board."""
_ROLL_UP: Final = ("failed", "blocked", "in_progress", "in_review", "pending", "completed")
"""The status of a task is the first of these that an assignee has."""
_LIFECYCLE: Final = {"cancelled": "cancelled", "archived": "archived", "active": "unarchived"}
_WORK: Final = frozenset({"status", "active_form", "linked_native_id"})


@attrs.define(eq=False)
class RoomTasks:
    """See the module."""

    room_id: str
    _new_id: Callable[[], str]
    _stamp: Callable[[], str]
    tasks: list[Task] = attrs.field(factory=list)
    """By number."""
    board: Board = attrs.field(factory=Board)
    history: dict[str, list[TaskEvent]] = attrs.field(factory=dict, init=False)
    """Task id → what happened to it."""
    board_history: list[dict[str, Any]] = attrs.field(factory=list, init=False)

    # ------------------------------------------------------------------ looking

    def listed(self, state: str | None = None) -> list[Task]:
        """Return the tasks in a state, or `all`; active ones by default."""
        return [task for task in self.tasks if (state or "active") in ("all", task.state)]

    def find(self, reference: str) -> Task:
        """Find a task by id or number.

        Raises:
            Refusal: 404.
        """
        for task in self.tasks:
            if reference in (task.id, str(task.number)):
                return task
        raise not_found("Task")

    def events(self, task: Task) -> list[TaskEvent]:
        """Return what happened to a task, oldest first."""
        return self.history.get(task.id, [])

    def with_history(self, task: Task) -> Task:
        """Return a task with the end of its history."""
        events = [unstructure(event) for event in self.events(task)]
        return attrs.evolve(task, history=events[-SHOWN:], history_truncated=len(events) > SHOWN)

    def board_with_history(self) -> Board:
        """Return the board with the end of its history."""
        events = self.board_history
        return attrs.evolve(
            self.board, history=events[-SHOWN:], history_truncated=len(events) > SHOWN
        )

    # ------------------------------------------------------------------ changes

    def create(
        self, by: Actor, subject: object, detail: object = None, supersedes: object = None
    ) -> Task:
        """Add a task, in place of another one if that is named; nobody is assigned.

        Raises:
            Refusal: 404, 422.
        """
        subject, detail = _text("subject", subject), _text("detail", detail, needed=False)
        replaced = self.find(str(supersedes).removeprefix("#")) if supersedes is not None else None
        number = max((task.number or 0 for task in self.tasks), default=0) + 1
        at = self._stamp()
        task = Task(
            self._new_id(), number, self.room_id, subject, detail, "active", "pending",
            created_by=by, inserted_at=at, updated_at=at,
        )  # fmt: skip
        self.tasks.append(task)
        self._happened(task, by, "created", {"subject": subject, "detail": detail})
        if replaced is not None:
            change = {"from": replaced.state, "to": "superseded"}
            self._happened(
                replaced, by, "superseded", {"state": change, "superseded_by_id": task.id}
            )
            self._put(attrs.evolve(replaced, state="superseded", superseded_by_id=task.id))
        return task

    def update(self, by: Actor, task: Task, changes: Mapping[str, Any]) -> Task:
        """Change a task: work is each participant's own, everything else is everybody's.

        Raises:
            Refusal: 422, also for work on a task that is closed.
        """
        given = {name: value for name, value in changes.items() if value is not None}
        _check_changes(given)
        if task.state != "active" and given.keys() & _WORK:
            raise invalid("/status", f"the task is {task.state}")
        if given.keys() & _WORK:
            task = self._work(by, task, given)
        if "comment" in given:
            self._happened(task, by, "commented", {"text": given["comment"]})
        edits: dict[str, Any] = {
            name: given[name] for name in ("subject", "detail") if name in given
        }
        for name, value in edits.items():
            self._happened(task, by, "edited", {name: {"from": getattr(task, name), "to": value}})
        task = attrs.evolve(task, **edits)
        if given.get("state", task.state) != task.state:
            state = given["state"]
            payload = {"state": {"from": task.state, "to": state}}
            self._happened(task, by, _LIFECYCLE[state], payload)
            task = attrs.evolve(task, state=state)
        task = attrs.evolve(task, updated_at=self._stamp())
        self._put(task)
        return task

    def set_board(self, by: Actor, changes: Mapping[str, Any]) -> Board:
        """Change the goal: what is not given stays.

        Raises:
            Refusal: 422.
        """
        given = {
            name: _text(name, changes[name], needed=False)
            for name in ("goal_title", "goal_summary")
            if changes.get(name) is not None
        }
        if not given:
            raise invalid("/goal_title", "goal_title or goal_summary is needed")
        board, at = self.board, self._stamp()
        event = "goal_edited" if board.goal_title or board.goal_summary else "goal_set"
        self.board_history.append({"event": event, "actor": by, "at": at, "payload": given})
        self.board = attrs.evolve(
            board, chat_room_id=self.room_id, updated_by=by, updated_at=at,
            created_by=board.created_by or by, inserted_at=board.inserted_at or at,
            goal_title=given.get("goal_title", board.goal_title),
            goal_summary=given.get("goal_summary", board.goal_summary),
        )  # fmt: skip
        return self.board

    def _work(self, by: Actor, task: Task, given: Mapping[str, str]) -> Task:
        """Write a participant's own progress; the first makes it an assignee."""
        own = next((a for a in task.assignments if a["assignee"]["id"] == by["id"]), None)
        others = [each for each in task.assignments if each is not own]
        before = own or {
            "assignee": by, "status": None, "active_form": "", "linked_native_id": "",
        }  # fmt: skip
        after = {
            **before,
            "status": given.get("status") or before["status"] or "pending",
            "active_form": given.get("active_form", before["active_form"]),
            "linked_native_id": given.get("linked_native_id", before.get("linked_native_id", "")),
            "updated_at": self._stamp(),
        }
        if after["status"] != before["status"]:
            change = {"status": {"from": before["status"], "to": after["status"]}}
            self._happened(task, by, "status_changed", change)
        assignments = [*others, after]
        statuses = {each["status"] for each in assignments}
        overall = next(status for status in _ROLL_UP if status in statuses)
        return attrs.evolve(task, assignments=assignments, overall_status=overall)

    def _put(self, task: Task) -> None:
        places = [place for place, each in enumerate(self.tasks) if each.id == task.id]
        self.tasks[places[0]] = task

    def _happened(self, task: Task, by: Actor, event: str, payload: dict[str, Any]) -> None:
        entry = TaskEvent(event, self._stamp(), by, payload)
        self.history.setdefault(task.id, []).append(entry)


def _text(name: str, value: object, *, needed: bool = True) -> str | None:
    if value is None and not needed:
        return None
    if not isinstance(value, str):
        raise invalid(f"/{name}", "can't be blank" if value is None else "must be a string")
    if needed and not value.strip():
        raise invalid(f"/{name}", "can't be blank")
    if len(value) > TEXT_CHARS:
        raise invalid(f"/{name}", f"should be at most {TEXT_CHARS} character(s)")
    return value


def _check_changes(given: Mapping[str, Any]) -> None:
    if not given.keys() & set(CHANGES):
        raise invalid("/status", f"one of {', '.join(CHANGES)} is needed")
    for name in given.keys() & set(CHANGES):
        _text(name, given[name], needed=name in ("subject", "comment", "status", "state"))
    if given.get("status") not in (None, *STATUSES):
        raise invalid("/status", "Invalid value for enum")
    if given.get("state") not in (None, *STATES):
        raise invalid("/state", "Invalid value for enum")

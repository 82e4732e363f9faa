"""Tasks and the board of a room: lifecycle, everybody's own progress, and what happened
(platform docs, Tasks).

There are no locks and no versions: a change names only what it changes, what it does not name
stays, and the last one wins. The history of a task replays to its present state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from band_trio.stores.bodies import one_of, text, whole, words
from band_trio.stores.refusal import invalid, not_found

STATES: Final = ("active", "cancelled", "superseded", "archived")
WRITABLE: Final = ("active", "cancelled", "archived")
STATUSES: Final = ("pending", "in_progress", "blocked", "in_review", "failed", "completed")
ROLL_UP: Final = ("failed", "blocked", "in_progress", "in_review", "pending", "completed")
"""The status of a task is the first of these that an assignee has."""
EVENT_OF_STATE: Final = {"cancelled": "cancelled", "archived": "archived", "active": "unarchived"}
NEWEST: Final = 100
"""Events that come with a task or a board."""

WORK: Final = ("status", "active_form", "linked_native_id")
TEXTS: Final = ("subject", "detail")
CHANGES: Final = (*WORK, "comment", *TEXTS, "state")
GOAL: Final = ("goal_title", "goal_summary")


@attrs.frozen
class Actor:
    """Who did it, as the platform shows it."""

    id: str
    name: str
    type: str
    handle: str | None = None

    def render(self) -> dict[str, Any]:
        """Return the `TaskActor`."""
        return {k: v for k, v in attrs.asdict(self).items() if v is not None}


@attrs.define(eq=False)
class History:
    """What happened, oldest first; nothing is ever taken out."""

    events: list[dict[str, Any]] = attrs.field(factory=list)

    def add(self, event: str, actor: Actor, at: str, payload: Mapping[str, Any]) -> None:
        """Note an event."""
        row = {"event": event, "actor": actor.render(), "at": at, "payload": dict(payload)}
        self.events.append(row)

    def newest(self) -> dict[str, Any]:
        """Return the newest events, and whether there are older ones."""
        return {
            "history": self.events[-NEWEST:],
            "history_truncated": len(self.events) > NEWEST,
        }


@attrs.define(eq=False)
class Assignment:
    """The work of one participant on a task."""

    assignee: Actor
    status: str
    active_form: str = ""
    linked_native_id: str = ""
    updated_at: str = ""

    def render(self) -> dict[str, Any]:
        """Return the `TaskAssignment`."""
        return attrs.asdict(self, recurse=False) | {"assignee": self.assignee.render()}


@attrs.define(eq=False, kw_only=True)
class Task:
    """A task; never deleted."""

    id: str
    number: int
    """Counted per room from 1."""
    room_id: str
    subject: str
    detail: str
    created_by: Actor | None
    inserted_at: str
    updated_at: str
    state: str = "active"
    unassigned_status: str = "pending"
    """How it stands while nobody is assigned."""
    superseded_by_id: str | None = None
    assignments: dict[str, Assignment] = attrs.field(factory=dict)
    """Participant id → its work, in the order of joining."""
    past: History = attrs.field(factory=History, repr=False)

    @property
    def overall_status(self) -> str:
        """What the assignments amount to."""
        present = {each.status for each in self.assignments.values()}
        return next((status for status in ROLL_UP if status in present), self.unassigned_status)

    def render(self, *, history: bool = False) -> dict[str, Any]:
        """Return the `Task`, on demand with its newest events."""
        row = {
            "id": self.id,
            "number": self.number,
            "chat_room_id": self.room_id,
            "subject": self.subject,
            "detail": self.detail,
            "state": self.state,
            "overall_status": self.overall_status,
            "assignments": [each.render() for each in self.assignments.values()],
            "created_by": _shown(self.created_by),
            "superseded_by_id": self.superseded_by_id,
            "inserted_at": self.inserted_at,
            "updated_at": self.updated_at,
        }
        return row | self.past.newest() if history else row


@attrs.define(eq=False, kw_only=True)
class Board:
    """The goal of a room."""

    room_id: str
    goal_title: str | None = None
    goal_summary: str | None = None
    created_by: Actor | None = None
    updated_by: Actor | None = None
    inserted_at: str | None = None
    updated_at: str | None = None
    past: History = attrs.field(factory=History, repr=False)

    def render(self, *, history: bool = False) -> dict[str, Any]:
        """Return the `Board`, null where nothing is set, on demand with its newest events."""
        row: dict[str, Any] = {"chat_room_id": self.room_id}
        for name in (*GOAL, "inserted_at", "updated_at"):
            row[name] = getattr(self, name)
        for name in ("created_by", "updated_by"):
            row[name] = _shown(getattr(self, name))
        return row | self.past.newest() if history else row


def _shown(actor: Actor | None) -> dict[str, Any] | None:
    return actor.render() if actor is not None else None


@attrs.define(eq=False)
class RoomTasks:
    """The tasks and the board of one room."""

    room_id: str
    new_id: Callable[[], str] = attrs.field(repr=False)
    now: Callable[[], str] = attrs.field(repr=False)
    """The time as it is written."""
    tasks: list[Task] = attrs.field(factory=list)
    """By number."""
    board: Board = attrs.field(
        default=attrs.Factory(lambda self: Board(room_id=self.room_id), takes_self=True)
    )
    last_number: int = 0
    """The highest number ever given."""
    _by_id: dict[str, Task] = attrs.field(factory=dict, repr=False)

    # ------------------------------------------------------------------ tasks

    def add(self, task: Task) -> None:
        """Take in a task whose fields are known to be right."""
        self.tasks.append(task)
        self.last_number = max(self.last_number, task.number)
        self._by_id[task.id] = task

    def search(self, state: str = "active") -> list[Task]:
        """Return the tasks in a state, or `all`, by number."""
        return [task for task in self.tasks if state in ("all", task.state)]

    def find(self, reference: str) -> Task:
        """Return a task by its id or its number.

        Raises:
            Refusal: 404.
        """
        task = self._by_id.get(reference)
        if task is None and reference.isdecimal():
            task = next((each for each in self.tasks if str(each.number) == reference), None)
        if task is None:
            raise not_found("Task")
        return task

    def create(self, actor: Actor, body: Any) -> Task:
        """Add a task, in place of another one if that is named; nobody is assigned.

        Raises:
            Refusal: 404 the other one is unknown, 422.
        """
        given = body if isinstance(body, dict) else {}
        subject = text(given.get("subject"), "/subject")
        detail = given.get("detail")
        detail = "" if detail is None else words(detail, "/detail")
        replaced = self._replaced(given.get("supersedes_id"))
        at = self.now()
        task = Task(
            id=self.new_id(),
            number=self.last_number + 1,
            room_id=self.room_id,
            subject=subject,
            detail=detail,
            created_by=actor,
            inserted_at=at,
            updated_at=at,
        )
        task.past.add("created", actor, at, {"subject": subject, "detail": detail})
        self.add(task)
        if replaced is not None:
            change = {"from": replaced.state, "to": "superseded"}
            replaced.state, replaced.superseded_by_id = "superseded", task.id
            replaced.updated_at = at
            payload = {"state": change, "superseded_by_id": task.id}
            replaced.past.add("superseded", actor, at, payload)
        return task

    def _replaced(self, reference: Any) -> Task | None:
        if reference is None:
            return None
        if isinstance(reference, bool) or not isinstance(reference, str | int):
            raise invalid("/supersedes_id", "must be the id or the number of a task")
        task = self.find(str(reference))
        if task.state == "superseded":
            raise invalid("/supersedes_id", "the task is superseded already")
        return task

    def update(self, actor: Actor, reference: str, body: Any) -> Task:
        """Change a task, all of it or nothing; what changes nothing leaves no trace.

        `status`, `active_form` and `linked_native_id` are the actor's own: they need an active
        task, before or after the call, and the first status makes it an assignee. Everything else
        is everybody's.

        Raises:
            Refusal: 404, 422.
        """
        task = self.find(reference)
        given = _checked(task, actor, whole(body, known=CHANGES))
        at = self.now()
        if given.get("state") == "active":
            _move(task, actor, at, "active")
        if any(name in given for name in WORK):
            _work(task, actor, at, given)
        _edit(task, actor, at, given)
        if "comment" in given:
            _note(task, "commented", actor, at, {"text": given["comment"]})
        if "state" in given:
            _move(task, actor, at, given["state"])
        return task

    # ------------------------------------------------------------------ the board

    def set_board(self, actor: Actor, body: Any) -> Board:
        """Change the goal; a field that is not sent stays, null takes it away.

        Raises:
            Refusal: 422.
        """
        board = self.board
        given = {k: v for k, v in body.items() if k in GOAL} if isinstance(body, dict) else {}
        if not given:
            raise invalid("/", f"at least one of {', '.join(GOAL)} is needed")
        for name, value in given.items():
            if value is not None:
                words(value, f"/{name}")
        changed = {k: v for k, v in given.items() if v != getattr(board, k)}
        if not changed:
            return board
        at = self.now()
        event = "goal_set" if board.goal_title is board.goal_summary is None else "goal_edited"
        payload = {k: {"from": getattr(board, k), "to": v} for k, v in changed.items()}
        board.past.add(event, actor, at, payload)
        for name, value in changed.items():
            setattr(board, name, value)
        board.created_by, board.inserted_at = board.created_by or actor, board.inserted_at or at
        board.updated_by, board.updated_at = actor, at
        return board


# --------------------------------------------------------------------------- one change


def _checked(task: Task, actor: Actor, given: dict[str, Any]) -> dict[str, Any]:
    """Check a change against the task as it is; nothing has been done yet."""
    checks: dict[str, Callable[[Any, str], str]] = {
        "status": lambda value, pointer: one_of(value, pointer, STATUSES),
        "state": lambda value, pointer: one_of(value, pointer, WRITABLE),
        "subject": text,
        "comment": text,
    }
    for name, value in given.items():
        checks.get(name, words)(value, f"/{name}")
    if task.state == "superseded" and "state" in given:
        raise invalid("/state", f"the task is superseded, by task {task.superseded_by_id}")
    work = [name for name in WORK if name in given]
    if work and "active" not in (task.state, given.get("state")):
        raise invalid(f"/{work[0]}", f"the task is {task.state}; only an active one is worked on")
    if work and "status" not in given and actor.id not in task.assignments:
        raise invalid(f"/{work[0]}", "join the task first, by giving a status of your own")
    return given


def _note(task: Task, event: str, actor: Actor, at: str, payload: Mapping[str, Any]) -> None:
    task.past.add(event, actor, at, payload)
    task.updated_at = at


def _move(task: Task, actor: Actor, at: str, state: str) -> None:
    if task.state != state:
        payload = {"state": {"from": task.state, "to": state}}
        _note(task, EVENT_OF_STATE[state], actor, at, payload)
        task.state = state


def _work(task: Task, actor: Actor, at: str, given: Mapping[str, str]) -> None:
    own = task.assignments.get(actor.id)
    before = own.status if own is not None else None
    if own is None:
        own = task.assignments[actor.id] = Assignment(actor, given["status"])
    if given.get("status", before) != before:
        payload = {"status": {"from": before, "to": given["status"]}}
        _note(task, "status_changed", actor, at, payload)
        own.status, own.updated_at = given["status"], at
    for name in WORK[1:]:
        if given.get(name, getattr(own, name)) != getattr(own, name):
            setattr(own, name, given[name])
            own.updated_at = task.updated_at = at


def _edit(task: Task, actor: Actor, at: str, given: Mapping[str, str]) -> None:
    changed = {n: given[n] for n in TEXTS if n in given and given[n] != getattr(task, n)}
    if changed:
        payload = {n: {"from": getattr(task, n), "to": value} for n, value in changed.items()}
        _note(task, "edited", actor, at, payload)
    for name, value in changed.items():
        setattr(task, name, value)

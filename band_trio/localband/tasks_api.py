"""The REST routes of tasks and of the board (platform docs, Tasks)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import attrs

from band_trio.localband.paging import CURSOR, View, choice
from band_trio.localband.routes import Call, Reply, Route, data, listed
from band_trio.localband.world import World
from band_trio.protocol.holdings import Board, Task
from band_trio.protocol.structure import unstructure
from band_trio.stores.refusal import invalid

PAGE: Final = 50


def _object(call: Call) -> dict[str, Any]:
    if not isinstance(call.body, dict):
        raise invalid("/", "must be an object")
    return call.body


def _actor(call: Call) -> dict[str, Any]:
    party = call.party
    return {"id": party.id, "name": party.name, "type": party.kind, "handle": party.handle}


def render(task: Task) -> dict[str, Any]:
    """Return a `Task`, null where a value is not set; the history only where it is there."""
    return _without_history(attrs.asdict(task))


def _without_history(row: dict[str, Any]) -> dict[str, Any]:
    if row["history"] is None:
        del row["history"], row["history_truncated"]
    return row


def _render_board(call: Call, board: Board) -> dict[str, Any]:
    return _without_history(attrs.asdict(board) | {"chat_room_id": call.room.id})


def _tell(call: Call, event: str, row: dict[str, Any]) -> None:
    agents = [agent.id for agent in call.room.agents()]
    call.world.push(f"room_tasks:{call.room.id}", event, lambda: row, agents=agents)
    for user_id in (m.party.id for m in call.room.members.values() if m.party.kind == "User"):
        if event != "board_updated":
            call.world.push(f"tasks:{user_id}", event, lambda: row)


def tasks(call: Call) -> Reply:
    """List the tasks of the room, by number."""
    state = call.query.get("state", "active")
    found = {task.number or 0: task for task in call.world.tasks_of(call.room).listed(state)}
    page = View(f"tasks:{state}", sorted(found)).page(call.query, PAGE)
    return listed([render(found[number]) for number in page.rows], page.metadata)


def create(call: Call) -> Reply:
    """Add a task."""
    row = _object(call)
    task = call.world.tasks_of(call.room).create(
        _actor(call), row.get("subject"), row.get("detail"), row.get("supersedes_id")
    )
    _tell(call, "task_created", render(task))
    return data(render(task), 201)


def task(call: Call) -> Reply:
    """Show a task."""
    store = call.world.tasks_of(call.room)
    found = store.find(call.path["id"])
    history = call.query.get("include") == "history"
    return data(render(store.with_history(found) if history else found))


def update(call: Call) -> Reply:
    """Change a task, or report work on it."""
    store = call.world.tasks_of(call.room)
    changed = store.update(_actor(call), store.find(call.path["id"]), _object(call))
    _tell(call, "task_updated", render(changed))
    return data(render(changed))


def history(call: Call) -> Reply:
    """List what happened to a task, oldest first."""
    store = call.world.tasks_of(call.room)
    found = store.find(call.path["id"])
    events = store.events(found)
    page = View(f"history:{found.id}", range(len(events))).page(call.query, PAGE)
    return listed([unstructure(events[number]) for number in page.rows], page.metadata)


def board(call: Call) -> Reply:
    """Show the board; empty where nothing is set."""
    store = call.world.tasks_of(call.room)
    shown = call.query.get("include") == "history"
    return data(_render_board(call, store.board_with_history() if shown else store.board))


def set_board(call: Call) -> Reply:
    """Change the goal of the room."""
    row = _render_board(call, call.world.tasks_of(call.room).set_board(_actor(call), _object(call)))
    _tell(call, "board_updated", row)
    return data(row)


_ROOM: Final = "/api/v1/agent/chats/{chat_id}"
_TASK: Final = f"{_ROOM}/tasks/{{id}}"
_HISTORY: Final = {"include": choice("history")}
_in_room: Final = partial(Route, caller="Agent", room=World.room_of, feature="tasks")

AGENT_ROUTES: Final = (
    _in_room(
        "tasks",
        "GET",
        f"{_ROOM}/tasks",
        tasks,
        query={**CURSOR, "state": choice("active", "cancelled", "superseded", "archived", "all")},
    ),
    _in_room("create_task", "POST", f"{_ROOM}/tasks", create, reads_body=True),
    _in_room("task", "GET", _TASK, task, query=_HISTORY),
    _in_room("update_task", "POST", _TASK, update, reads_body=True),
    _in_room("task_history", "GET", f"{_TASK}/history", history, query=CURSOR),
    _in_room("board", "GET", f"{_ROOM}/board", board, query=_HISTORY),
    _in_room("set_board", "PUT", f"{_ROOM}/board", set_board, reads_body=True),
)

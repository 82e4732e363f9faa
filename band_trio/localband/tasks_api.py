"""The REST routes of tasks and the board (platform docs, Tasks)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from band_trio.localband.paging import CURSOR, View, choice
from band_trio.localband.party import Party, User
from band_trio.localband.routes import Call, Reply, Route, data, listed
from band_trio.localband.world import World
from band_trio.stores.tasks import STATES, Actor, RoomTasks, Task

TASKS_PAGE: Final = 50


def actor(party: Party) -> Actor:
    """Return a party as tasks show it."""
    return Actor(party.id, party.name, party.kind, party.handle)


def _kept(call: Call) -> RoomTasks:
    return call.world.tasks_of(call.room)


def _history(call: Call) -> bool:
    return call.query.get("include") == "history"


def _tell(call: Call, event: str, make: Callable[[], dict[str, Any]]) -> None:
    agents = [agent.id for agent in call.room.agents()]
    call.world.push(f"room_tasks:{call.room.id}", event, make, agents=agents)


def _tell_of_task(call: Call, event: str, task: Task) -> None:
    """Tell the room, and the persons in it wherever they look."""
    _tell(call, event, task.render)
    for member in list(call.room.members.values()):
        if isinstance(member.party, User):
            call.world.push(f"tasks:{member.party.id}", event, task.render)


def tasks(call: Call) -> Reply:
    """List the tasks of the room, by number."""
    state = call.query.get("state", "active")
    found = {task.number: task for task in _kept(call).search(state)}
    page = View(f"tasks:{state}", list(found)).page(call.query, TASKS_PAGE)
    return listed([found[number].render() for number in page.rows], page.metadata)


def create_task(call: Call) -> Reply:
    """Add a task."""
    task = _kept(call).create(actor(call.party), call.body)
    for other in _kept(call).tasks:
        if other.superseded_by_id == task.id:
            _tell_of_task(call, "task_updated", other)
    _tell_of_task(call, "task_created", task)
    return data(task.render(), 201)


def task(call: Call) -> Reply:
    """Show a task."""
    return data(_kept(call).find(call.path["task"]).render(history=_history(call)))


def update_task(call: Call) -> Reply:
    """Change a task."""
    before = _kept(call).find(call.path["task"]).updated_at
    changed = _kept(call).update(actor(call.party), call.path["task"], call.body)
    if changed.updated_at != before:
        _tell_of_task(call, "task_updated", changed)
    return data(changed.render())


def task_history(call: Call) -> Reply:
    """List what happened to a task, oldest first."""
    found = _kept(call).find(call.path["task"])
    events = found.past.events
    page = View(f"history:{found.id}", range(len(events))).page(call.query, TASKS_PAGE)
    return listed([events[number] for number in page.rows], page.metadata)


def board(call: Call) -> Reply:
    """Show the goal of the room."""
    return data(_kept(call).board.render(history=_history(call)))


def set_board(call: Call) -> Reply:
    """Change the goal of the room."""
    before = _kept(call).board.updated_at
    changed = _kept(call).set_board(actor(call.party), call.body)
    if changed.updated_at != before:
        _tell(call, "board_updated", changed.render)
    return data(changed.render())


# --------------------------------------------------------------------------- the table

_ROOM: Final = "/api/v1/agent/chats/{chat_id}"
_TASK: Final = f"{_ROOM}/tasks/{{task}}"
_INCLUDE: Final = {"include": choice("history")}
_in_room: Final = partial(Route, caller="Agent", room=World.room_of, offer="tasks")

ROUTES: Final = (
    _in_room(
        "tasks", "GET", f"{_ROOM}/tasks", tasks, query=CURSOR | {"state": choice(*STATES, "all")}
    ),
    _in_room("create_task", "POST", f"{_ROOM}/tasks", create_task, reads_body=True),
    _in_room("task", "GET", _TASK, task, query=_INCLUDE),
    _in_room("update_task", "POST", _TASK, update_task, reads_body=True),
    _in_room("task_history", "GET", f"{_TASK}/history", task_history, query=CURSOR),
    _in_room("board", "GET", f"{_ROOM}/board", board, query=_INCLUDE),
    _in_room("set_board", "PUT", f"{_ROOM}/board", set_board, reads_body=True),
)

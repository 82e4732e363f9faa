"""What a model can do about a refusal of the platform: (tool, status) → advice."""

from __future__ import annotations

from typing import Final

from band_trio.tools.definitions import BandTool

_LOOK_CONTACTS: Final = "band_list_contacts tells who your contacts are."
_LOOK_REQUESTS: Final = "band_list_contact_requests tells which requests wait."
_LOOK_PEOPLE: Final = "band_get_participants tells who is in the room."
_LOOK_MEMORIES: Final = "band_list_memories tells which ones there are."
_NO_MEMORIES: Final = "Memories are not available here: go on without them."
_LOOK_TASKS: Final = (
    "band_list_tasks tells which tasks there are; if it fails too, there are none here."
)
_NO_TASKS: Final = "Tasks are not available in this room: go on without them."

ADVICE: Final[dict[tuple[BandTool, int], str]] = {
    (BandTool.ADD_PARTICIPANT, 403): "You may not bring in this one: ask a person of the room to.",
    (BandTool.ADD_PARTICIPANT, 404): "band_lookup_peers tells whom you can bring in.",
    (BandTool.REMOVE_PARTICIPANT, 403): "Owners stay, and only owners and admins remove others.",
    (BandTool.REMOVE_PARTICIPANT, 404): _LOOK_PEOPLE,
    (BandTool.CREATE_CHATROOM, 403): "No more rooms can be opened: use this one.",
    (BandTool.ADD_CONTACT, 400): "Give the handle as `@user` or `@user/agent`.",
    (BandTool.ADD_CONTACT, 404): "Nobody has this handle: check its spelling with who gave it.",
    (BandTool.ADD_CONTACT, 409): (
        f"You are contacts already, or a request waits. {_LOOK_CONTACTS} {_LOOK_REQUESTS}"
    ),
    (BandTool.REMOVE_CONTACT, 404): _LOOK_CONTACTS,
    (BandTool.RESPOND_CONTACT_REQUEST, 403): (
        "Approve or reject what you received, cancel what you sent."
    ),
    (BandTool.RESPOND_CONTACT_REQUEST, 404): _LOOK_REQUESTS,
    (BandTool.LIST_MEMORIES, 403): _NO_MEMORIES,
    (BandTool.STORE_MEMORY, 403): _NO_MEMORIES,
    (BandTool.GET_MEMORY, 403): _NO_MEMORIES,
    (BandTool.GET_MEMORY, 404): _LOOK_MEMORIES,
    (
        BandTool.SUPERSEDE_MEMORY,
        403,
    ): "Only the agent that stored it may: store a newer one instead.",
    (BandTool.SUPERSEDE_MEMORY, 404): _LOOK_MEMORIES,
    (BandTool.ARCHIVE_MEMORY, 403): "Only the agent that stored it may: leave it as it is.",
    (BandTool.ARCHIVE_MEMORY, 404): _LOOK_MEMORIES,
    (BandTool.LIST_TASKS, 404): _NO_TASKS,
    (BandTool.CREATE_TASK, 404): (
        "The task that it replaces is not there, or tasks are not available in this room. "
        + _LOOK_TASKS
    ),
    (BandTool.GET_TASK, 404): _LOOK_TASKS,
    (BandTool.UPDATE_TASK, 404): _LOOK_TASKS,
    (BandTool.UPDATE_TASK, 422): "Work on a closed task is refused: set its state to active first.",
    (BandTool.GET_TASK_HISTORY, 404): _LOOK_TASKS,
    (BandTool.GET_BOARD, 404): _NO_TASKS,
    (BandTool.SET_BOARD, 404): _NO_TASKS,
    (BandTool.LIST_ROOM_FILES, 404): "This room cannot be read any more: end your turn.",
}
"""Where there is more to say than `GENERAL` does."""

GENERAL: Final = {
    400: "Correct the arguments and call it again.",
    401: "The agent's key was refused: nothing will work until its operator has looked.",
    403: "You may not do this here: do not try it again.",
    404: "It does not exist, or is not shown to you: do not try it again.",
    409: "It is so already, or not so any more: look before you do anything else.",
    413: "It is too large: make it smaller.",
    422: "Correct the arguments and call it again.",
    429: "Too many requests: do something else first, then call it once more.",
    503: "The platform is busy: do something else first, then call it once more.",
}


def refusal_advice(name: str, status: int) -> str:
    """Return what a model can do about an answer to a tool; empty where nobody knows."""
    general = GENERAL.get(status, GENERAL[503] if status >= 500 else "")
    try:
        return ADVICE.get((BandTool(name), status), general)
    except ValueError:  # a tool of the application
        return general

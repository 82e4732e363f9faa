"""What a model reads for each answer of the platform to the tools of memories, tasks and files.

The platform is the embedded one, in the state that leads to the answer; what it never says by
itself is said by a fault. Each row is a text somebody has to act on: change one on purpose only.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
from trio.testing import MockClock

from band_trio import texts
from band_trio.localband import LocalBand, Offer, open_local_band
from band_trio.tools.agent_tools import AgentTools
from band_trio.tools.refusals import refusal_advice
from tests.localband.kit import NOBODY, furnish, open_tools
from tests.support.for_each import for_each

MEMORY: Final[dict[str, Any]] = {
    "content": "x", "system": "long_term", "type": "semantic", "segment": "user", "thought": "y",
    "scope": "agent",
}  # fmt: skip
ABOUT: Final = {"scope": "subject", "subject_id": NOBODY}

# Tool → its route at the platform, and arguments that work; names in braces are ids.
TOOLS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "list_memories": ("memories", {}),
    "store_memory": ("store_memory", MEMORY),
    "get_memory": ("memory", {"memory_id": "{own}"}),
    "supersede_memory": ("supersede_memory", {"memory_id": "{own}"}),
    "archive_memory": ("archive_memory", {"memory_id": "{own}"}),
    "list_tasks": ("tasks", {}),
    "create_task": ("create_task", {"subject": "s"}),
    "get_task": ("task", {"id": "2"}),
    "update_task": ("update_task", {"id": "2", "status": "pending"}),
    "get_task_history": ("task_history", {"id": "2"}),
    "get_board": ("board", {}),
    "set_board": ("set_board", {"goal_title": "g"}),
    "list_room_files": ("context", {}),
    "read_room_file": ("get_file", {"file_id": "{file}"}),
    "send_room_file": ("put_file", {"content": "c", "filename": "b", "mentions": ["{other}"]}),
}
MEMORIES: Final = [tool for tool in TOOLS if "memor" in tool]
TASKS: Final = [tool for tool in TOOLS if "task" in tool or "board" in tool]
WRITES: Final = {
    "store_memory", "supersede_memory", "archive_memory", "create_task", "update_task", "set_board",
}  # fmt: skip


@attrs.frozen
class Scene:
    band: LocalBand
    tools: AgentTools
    wrong_key: AgentTools
    room_id: str
    ids: dict[str, str]

    async def call(self, tool: str, *, wrong_key: bool = False, **changes: Any) -> str:
        """Call a tool that must fail; return the text for the model."""
        arguments = {name: self._filled(v) for name, v in (TOOLS[tool][1] | changes).items()}
        tools = self.wrong_key if wrong_key else self.tools
        outcome = await tools.execute_tool_call_structured(f"band_{tool}", arguments)
        assert not outcome.ok, (tool, outcome.value)
        said = str(outcome.value)
        assert said.startswith(f"Error executing band_{tool}: ")
        assert said.isprintable()
        said = said.removeprefix(f"Error executing band_{tool}: ")
        if said[:3].isdigit():  # what the platform says, and what can be done about it
            advice = refusal_advice(f"band_{tool}", int(said[:3]))
            assert advice
            assert said.endswith(f". {advice}"), said
            said = said.removesuffix(f". {advice}")
        return said

    def _filled(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        return value.format(**self.ids) if isinstance(value, str) else value


@asynccontextmanager
async def open_scene(**offer: Any) -> AsyncGenerator[Scene]:
    """An agent with a memory, one of somebody else, tasks in every state, and a file."""
    async with open_local_band(memory=True, offer=Offer(file_bytes=1000)) as band:
        agent, other, room = await furnish(band)
        await band.user.add(room, other)
        async with (
            open_tools(band, agent, room) as tools,
            open_tools(band, other, room) as others,
            open_tools(band, agent, room, key="wrong") as wrong,
        ):
            own = await tools.store_memory(**MEMORY)
            theirs = await others.store_memory(
                **{**MEMORY, "scope": "subject", "subject_id": band.user.id}
            )
            await tools.create_task("one")
            await tools.create_task("two", supersedes_id="1")
            await tools.create_task("three")
            await tools.update_task("3", state="archived")
            file = await band.user.put_file(room, "a.txt", b"abc")
            await band.user.send(room, "see", [agent], attachment_ids=[file])
            ids = {"own": own["id"], "theirs": theirs["id"], "file": file, "other": other.id}
            for name, value in offer.items():
                setattr(band.world.offer, name, value)
            yield Scene(band, tools, wrong, room.id, ids)


# --------------------------------------------------------------------------- by itself

INVALID: Final = "422 validation_error: Request validation failed "
NO_MEMORY: Final = "404 not_found: Memory not found"
NO_TASK: Final = "404 not_found: Task not found"

# Tool, what is asked differently → text.
SAID: Final[list[tuple[str, dict[str, Any], str]]] = [
    ("get_memory", {"memory_id": NOBODY}, NO_MEMORY),
    ("supersede_memory", {"memory_id": NOBODY}, NO_MEMORY),
    ("archive_memory", {"memory_id": NOBODY}, NO_MEMORY),
    *(
        (tool, {"memory_id": "{theirs}"},
         "403 forbidden: Only the agent that stored a memory may change it")
        for tool in ("supersede_memory", "archive_memory")
    ),
    ("store_memory", {"scope": "organization"}, texts.NO_ORGANIZATION),
    ("store_memory", ABOUT, INVALID + "(/memory/subject_id: does not exist)"),
    ("get_task", {"id": "9"}, NO_TASK),
    ("update_task", {"id": "9"}, NO_TASK),
    ("get_task_history", {"id": "9"}, NO_TASK),
    ("create_task", {"supersedes_id": "9"}, NO_TASK),
    ("create_task", {"supersedes_id": "1"},
     INVALID + "(/supersedes_id: the task is superseded already)"),
    ("update_task", {"id": "3"},
     INVALID + "(/status: the task is archived; only an active one is worked on)"),
    ("update_task", {"status": None, "active_form": "digging"},
     INVALID + "(/active_form: join the task first, by giving a status of your own)"),
    ("list_tasks", {"cursor": "nonsense"}, INVALID + "(/cursor: is invalid)"),
    ("get_task_history", {"cursor": "nonsense"}, INVALID + "(/cursor: is invalid)"),
    ("list_room_files", {"cursor": "nonsense"}, INVALID + "(/cursor: is invalid)"),
    ("read_room_file", {"file_id": NOBODY}, texts.NO_SUCH_FILE),
    ("send_room_file", {"content": "x" * 1001},
     "413 payload_too_large: The body is larger than 1000 bytes"),
]  # fmt: skip


async def test_what_the_platform_says_by_itself() -> None:
    async with open_scene() as scene:
        for tool, changes, text in SAID:
            assert await scene.call(tool, **changes) == text, (tool, changes)


async def test_a_key_that_is_not_good() -> None:
    async with open_scene() as scene:
        for tool in TOOLS:
            said = await scene.call(tool, wrong_key=True)
            assert said == "401 unauthorized: Missing or unknown API key", tool


async def test_what_is_not_offered() -> None:
    async with open_scene(files=False, tasks=False, memories=False) as scene:
        for tool in MEMORIES:
            assert await scene.call(tool) == "403 forbidden: Memories are not part of the plan"
        for tool in TASKS:
            assert await scene.call(tool) == "404 not_found: Route not found"
        for tool in ("read_room_file", "send_room_file"):
            assert await scene.call(tool) == texts.NO_SUCH_FILE


async def test_a_room_that_the_agent_was_taken_out_of() -> None:
    async with open_scene() as scene:
        await scene.band.user.remove(scene.room_id, scene.tools.agent_id or "")
        for tool in (*TASKS, "list_room_files", "read_room_file"):
            assert await scene.call(tool) == "404 not_found: Chat room not found", tool
        assert await scene.call("send_room_file") == texts.NO_SUCH_FILE


# --------------------------------------------------------------------------- by a fault


@for_each(
    ("status", "read"),
    [
        (403, "403 forbidden: Injected fault"),
        (429, "429 too_many_requests: Injected fault"),
        (500, "500 internal_error: Injected fault"),
        (503, "503 unavailable: Injected fault"),
    ],
)
async def test_what_a_fault_says(status: int, read: str, autojump_clock: MockClock) -> None:
    async with open_scene() as scene:
        for tool, (route, _) in TOOLS.items():
            told = 9999 if status == 429 else None
            rule = scene.band.faults.refuse(status, route=route, times=None, retry_after=told)
            wanted = read
            if status >= 500:  # nobody knows whether it was done
                wanted = texts.MAY_HAVE_WORKED if tool in WRITES else read
                wanted = texts.UPLOAD_UNKNOWN if tool == "send_room_file" else wanted
            assert await scene.call(tool) == wanted, tool
            rule.lift()

"""Each documented answer to a tool becomes words that a model can act on."""

from __future__ import annotations

from typing import Any, Final

from band_trio.tools.definitions import BandTool
from band_trio.tools.refusals import ADVICE, GENERAL, refusal_advice
from tests.support.for_each import for_each
from tests.tools.kit import Platform, open_tools, refusal
from tests.tools.test_holdings import CALLS

DOCUMENTED: Final[dict[str, tuple[int, ...]]] = {
    "band_list_contacts": (401,),
    "band_add_contact": (400, 401, 404, 409),
    "band_remove_contact": (400, 401, 404),
    "band_list_contact_requests": (401,),
    "band_respond_contact_request": (400, 401, 403, 404, 409),
    "band_list_memories": (401, 403, 422),
    "band_store_memory": (401, 403, 422),
    "band_get_memory": (401, 403, 404),
    "band_supersede_memory": (401, 403, 404),
    "band_archive_memory": (401, 403, 404),
    "band_list_tasks": (401, 404, 422),
    "band_create_task": (401, 404, 422),
    "band_get_task": (401, 404, 422),
    "band_update_task": (401, 404, 422),
    "band_get_task_history": (401, 404, 422),
    "band_get_board": (401, 404, 422),
    "band_set_board": (401, 404, 422),
}
"""Tool → statuses (platform docs, the tables of the Agent API)."""
ARGUMENTS: Final = {call[0]: call[1:4] for call in CALLS}


@for_each(
    ("tool", "status"),
    [(tool, status) for tool, statuses in DOCUMENTED.items() for status in statuses],
)
async def test_a_refusal_says_what_to_do(tool: str, status: int) -> None:
    args, method, path = ARGUMENTS[tool]
    platform = Platform()
    for _ in range(2):
        platform.answer(method, path, refusal(status, "code", "As the platform says."))
    async with open_tools(platform) as tools:
        told: Any = await tools.execute_tool_call(tool, args)
    advice = refusal_advice(tool, status)
    if (tool, status) == ("band_respond_contact_request", 409):
        advice = "The request is no longer pending, so there is nothing to answer."
    else:
        assert "As the platform says." in told
    assert told.startswith(f"Error executing {tool}: ")
    assert advice, "there is something to do"
    assert told.endswith(advice), told
    assert "\n" not in told


def test_a_tool_of_the_application_gets_the_general_words() -> None:
    assert refusal_advice("own_tool", 403) == GENERAL[403]
    assert refusal_advice("band_get_task", 500) == GENERAL[503]
    assert refusal_advice("band_get_task", 302) == ""


def test_advice_names_tools_that_there_are() -> None:
    known = {str(tool) for tool in BandTool}
    for text in ADVICE.values():
        for word in text.replace(".", " ").replace(",", " ").replace(";", " ").split():
            assert not word.startswith("band_") or word in known, word

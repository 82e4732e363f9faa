# /// script
# requires-python = ">=3.11"
# dependencies = ["band-trio[local]", "pydantic-ai-slim"]
# ///
"""A pydantic-ai Agent with a tool of its own. Its model is a script: put any other there."""

# expects: Keeper: There are 3 bolts.
import pydantic_ai
import trio
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from band_trio import Agent
from band_trio.adapters import AsyncioAdapter
from band_trio.localband import open_local_band
from band_trio.types import TurnUsage


def script(messages, info):
    last = messages[-1].parts[-1]
    if not isinstance(last, ToolReturnPart):
        return ModelResponse([ToolCallPart("stock", {"item": "bolts"})])
    if last.tool_name != "stock":
        return ModelResponse([TextPart("done")])
    args = {"content": f"There are {last.content} bolts.", "mentions": ["@your-name"]}
    return ModelResponse([ToolCallPart("band_send_message", args)])


keeper = pydantic_ai.Agent(FunctionModel(script))
rooms = {}  # what was said; a turn that is cut off leaves it as it was


@keeper.tool_plain
async def stock(item: str) -> int:  # noqa: ASYNC124 - a sync one runs in a thread
    return {"bolts": 3}.get(item, 0)


async def answer(turn):
    prompt = f"{turn.history}\n\n{turn.prompt}".strip()
    make = pydantic_ai.Tool.from_schema
    room = [make(t, t.name, t.description, t.parameters) for t in turn.tools]
    about = {"message_history": rooms.get(turn.room_id), "instructions": turn.system_prompt}
    result = await keeper.run(prompt, toolsets=[FunctionToolset(room)], **about)
    turn.usage += TurnUsage.from_object(result.usage, input="input_tokens", output="output_tokens")
    rooms[turn.room_id] = result.all_messages()


async def main():
    async with open_local_band(user_name="Your Name") as band:
        account = band.register_agent("Keeper")
        room = await band.user.create_room(members=[account])
        async with Agent.create(adapter=AsyncioAdapter(handler=answer), **band.connection(account)):
            message = await band.user.send(room, "how many bolts?", mentions=[account])
            await band.until(lambda: band.state(message, account) == "processed")
        texts = [m for m in await band.user.messages(room) if m["message_type"] == "text"]
        print(f"Keeper: {texts[-1]['content'].partition(' ')[2]}")


trio.run(main)

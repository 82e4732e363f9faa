# /// script
# requires-python = ">=3.11"
# dependencies = ["band-trio[local]", "pydantic-ai-slim"]
# ///
"""A pydantic-ai Agent with a tool of its own. Its model is a script: put any other there."""

# expects: Keeper: There are 3 bolts.
import pydantic_ai
import trio
from pydantic_ai import FunctionToolset, Tool
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from band_trio import Agent, TurnUsage
from band_trio.adapters import AsyncioAdapter
from band_trio.localband import open_local_band


def script(messages, info):
    last = messages[-1].parts[-1]
    if not isinstance(last, ToolReturnPart):
        return ModelResponse([ToolCallPart("stock", {"item": "bolts"})])
    args = {"content": f"There are {last.content} bolts.", "mentions": ["@your-name"]}
    send = ToolCallPart("band_send_message", args)
    return ModelResponse([send if last.tool_name == "stock" else TextPart("done")])


keeper = pydantic_ai.Agent(FunctionModel(script))


@keeper.tool_plain
async def stock(item: str) -> int:  # noqa: ASYNC124 - a sync one runs in a thread
    return {"bolts": 3}.get(item, 0)


async def answer(turn):
    tools = [Tool.from_schema(t, t.name, t.description, t.parameters) for t in turn.tools]
    about = {"instructions": turn.system_prompt, "message_history": turn.memory.get("said")}
    prompt = f"{turn.history}\n\n{turn.prompt}".strip()
    async with keeper.iter(prompt, toolsets=[FunctionToolset(tools)], **about) as run:
        async for node in run:
            if keeper.is_model_request_node(node):  # no result is missing
                turn.memory["said"] = [*run.all_messages(), node.request]
    turn.memory["said"] = run.all_messages()
    turn.usage += TurnUsage.from_object(run.usage, input="input_tokens", output="output_tokens")


async def main():
    async with open_local_band(user_name="Your Name") as band:
        account = band.register_agent("Keeper")
        room = await band.user.create_room(members=[account])
        async with Agent.create(adapter=AsyncioAdapter(handler=answer), **band.connection(account)):
            message = await band.user.send(room, "how many bolts?", mentions=[account])
            await band.until(lambda: band.state(message, account) == "processed")
        texts = [m for m in await band.user.messages(room) if m["message_type"] == "text"]
        print(f"Keeper: {texts[-1]['content'].partition(' ')[2]}")


if __name__ == "__main__":
    trio.run(main)

# /// script
# requires-python = ">=3.11"
# dependencies = ["band-trio[local]", "langgraph"]
# ///
"""A LangGraph agent on an asyncio loop. Its model is a script: put any other of LangChain there."""

# expects: Graph: Good day.
import trio
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from band_trio import Agent
from band_trio.adapters import AsyncioAdapter
from band_trio.localband import open_local_band


class Script(FakeMessagesListChatModel):
    def bind_tools(self, tools, **options):
        return self


ARGS = {"content": "Good day.", "mentions": ["@your-name"]}
CALL = AIMessage("", tool_calls=[{"name": "band_send_message", "args": ARGS, "id": "call_1"}])


async def answer(turn):
    tools = [StructuredTool.from_function(coroutine=t.as_function()) for t in turn.tools]
    model = Script(responses=[CALL, AIMessage("done")]).bind_tools(tools)

    async def think(state):
        prompt = [SystemMessage(turn.system_prompt), *state["messages"]]
        return {"messages": [await model.ainvoke(prompt)]}

    graph = StateGraph(MessagesState).add_node("think", think).add_node("tools", ToolNode(tools))
    graph.add_edge(START, "think").add_edge("tools", "think")
    graph.add_conditional_edges("think", tools_condition)
    said = turn.memory.get("said") or [HumanMessage(turn.history)] * bool(turn.history)
    start = {"messages": [*said, HumanMessage(turn.prompt)]}
    async for state in graph.compile().astream(start, stream_mode="values"):
        if not getattr(state["messages"][-1], "tool_calls", None):  # no result is missing
            turn.memory["said"] = state["messages"]


async def main():
    async with open_local_band(user_name="Your Name") as band:
        account = band.register_agent("Graph")
        room = await band.user.create_room(members=[account])
        async with Agent.create(adapter=AsyncioAdapter(handler=answer), **band.connection(account)):
            message = await band.user.send(room, "hello", mentions=[account])
            await band.until(lambda: band.state(message, account) == "processed")
        said = [m["content"] for m in await band.user.messages(room) if m["message_type"] == "text"]
        print(f"Graph: {said[-1].partition(' ')[2]}")


if __name__ == "__main__":
    trio.run(main)

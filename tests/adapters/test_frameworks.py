"""Real frameworks over the bridge: cut off in the middle of a tool, the next turn runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pydantic_ai
import pytest
import trio
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from band_trio.adapters.bridge import AsyncioAdapter
from band_trio.adapters.bridged import BridgedTurn
from band_trio.testing import make_message, run_turn, serving
from tests.adapters.kit import make_tools
from tests.marks import case
from tests.support.for_each import for_each

pytestmark = pytest.mark.slow

Handler = Callable[[BridgedTurn[str]], Awaitable[None]]


class Script(FakeMessagesListChatModel):
    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def langgraph() -> Handler:
    async def handler(turn: BridgedTurn[str]) -> None:
        tools = [StructuredTool.from_function(coroutine=t.as_function()) for t in turn.tools]
        call = {
            "name": "band_send_message",
            "args": {"content": turn.msg.content, "mentions": ["u1"]},
        }
        calls = [{**call, "id": "a"}, {"name": "band_get_participants", "args": {}, "id": "b"}]
        model = Script(responses=[AIMessage("", tool_calls=calls), AIMessage("done")])

        async def think(state: MessagesState) -> dict[str, Any]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        graph = StateGraph(MessagesState)
        graph.add_node("think", think)
        graph.add_node("tools", ToolNode(tools))
        graph.add_edge(START, "think")
        graph.add_conditional_edges("think", tools_condition)
        graph.add_edge("tools", "think")
        before = turn.memory.get("said", [])
        asked: Any = {"messages": [*before, HumanMessage(turn.prompt)]}
        async for state in graph.compile().astream(asked, stream_mode="values"):
            if not getattr(state["messages"][-1], "tool_calls", None):
                turn.memory["said"] = state["messages"]
        kinds = [m.type for m in turn.memory["said"]]
        assert kinds == ["human"] * (1 + len(before)) + ["ai", "tool", "tool", "ai"]

    return handler


def pydantic_agent() -> Handler:
    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse([TextPart("done")])
        args = {"content": str(getattr(last, "content", "")), "mentions": ["u1"]}
        return ModelResponse(
            [ToolCallPart("band_send_message", args), ToolCallPart("band_get_participants", {})]
        )

    agent = pydantic_ai.Agent(FunctionModel(script))

    async def handler(turn: BridgedTurn[str]) -> None:
        tools: Any = FunctionToolset([tool.as_function() for tool in turn.tools])
        before = turn.memory.get("said", [])
        prompt = turn.msg.content
        async with agent.iter(prompt, message_history=before, toolsets=[tools]) as run:
            async for node in run:
                if agent.is_model_request_node(node):
                    turn.memory["said"] = [*run.all_messages(), node.request]
        turn.memory["said"] = run.all_messages()
        assert len(turn.memory["said"]) == 4
        assert len(turn.memory["said"][0].parts) == 1 + len(before)

    return handler


@for_each("make", [langgraph, pydantic_agent])
async def test_cut_off_in_a_tool_the_next_turn_runs(make: Callable[[], Handler]) -> None:
    """And knows the message of the first."""
    adapter = AsyncioAdapter[str](handler=make(), emit=())
    tools: Any = make_tools(adapter)  # type: ignore[arg-type]
    with trio.fail_after(20):
        async with serving(adapter):

            async def turn(content: str) -> str:
                message = make_message(content, sender_id="u1")
                result = await run_turn(adapter, message, tools, is_session_bootstrap=False)
                assert result.error is None
                return result.record

            async with tools.hold_message("first") as hold, trio.open_nursery() as nursery:
                nursery.start_soon(turn, "first")
                await hold.reached()
                nursery.cancel_scope.cancel()
            assert tools.chat == []
            assert await turn("second") == "processed"
            assert "first" in str(adapter._rooms)
    assert tools.chat == ["second"]


@for_each("make", [langgraph, pydantic_agent])
async def test_rooms_run_side_by_side(make: Callable[[], Handler]) -> None:
    adapter = AsyncioAdapter[str](handler=make(), emit=())
    rooms: dict[str, Any] = {f"r{n}": make_tools(adapter) for n in range(4)}  # type: ignore[arg-type]
    with trio.fail_after(20):
        async with serving(adapter), trio.open_nursery() as nursery:
            for room_id, tools in rooms.items():
                message = make_message(f"for {room_id}", sender_id="u1", room_id=room_id)
                nursery.start_soon(run_turn, adapter, message, tools)
    assert {room_id: tools.chat for room_id, tools in rooms.items()} == {
        room_id: [f"for {room_id}"] for room_id in rooms
    }


async def with_langchain(turn: BridgedTurn[str], arguments: dict[str, Any]) -> Any:
    tool = StructuredTool.from_function(coroutine=turn.tool("band_send_message").as_function())
    await tool.ainvoke(arguments)
    schema: Any = tool.args_schema
    return schema.model_json_schema()["properties"]


async def with_pydantic_ai(turn: BridgedTurn[str], arguments: dict[str, Any]) -> Any:
    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        shown.append(info.function_tools[0].parameters_json_schema["properties"])
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart("band_send_message", arguments)])

    shown: list[Any] = []
    tool = turn.tool("band_send_message").as_function()
    agent = pydantic_ai.Agent(FunctionModel(script), tools=[tool], retries=0)
    await agent.run("go")
    return shown[0]


@case("C30")
@for_each("use", [with_langchain, with_pydantic_ai])
@for_each("mentions", ["@maria", '["@maria"]', [{"id": "u1", "handle": "maria"}]])
async def test_arguments_are_repaired_behind_a_signature_too(use: Any, mentions: Any) -> None:
    seen: list[Any] = []

    async def handler(turn: BridgedTurn[str]) -> None:
        seen.append(turn.tool("band_send_message").parameters["properties"])
        seen.append(await use(turn, {"content": "hi", "mentions": mentions}))

    adapter = AsyncioAdapter[str](handler=handler, emit=())
    tools: Any = make_tools(adapter)  # type: ignore[arg-type]
    with trio.fail_after(20):
        async with serving(adapter):
            result = await run_turn(adapter, make_message("go", sender_id="u1"), tools)
    assert result.error is None
    assert tools.chat == ["hi"]
    offered, shown = seen
    for name, schema in offered.items():  # a model still sees what is wanted
        assert {**shown[name], **schema} == shown[name]

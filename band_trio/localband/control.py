"""Stop, play, interrupt: states of (agent, room), told to agents as signals (platform docs,
Stop, play, interrupt)."""

from __future__ import annotations

from typing import Any

from band_trio.localband.party import Agent
from band_trio.localband.room import Room
from band_trio.localband.validate import known_or_uuid
from band_trio.localband.world import World
from band_trio.protocol import events
from band_trio.protocol.events import Mode
from band_trio.stores.refusal import not_found


def signal(
    world: World,
    agent: Agent,
    mode: Mode,
    *,
    room_id: str | None,
    execution_id: str | None = None,
    correlation_id: str | None = None,
) -> str:
    """Push one `agent.control`, without any change of state; return its correlation id.

    A room id makes it a signal for that room; none makes it one for all of the agent's rooms.
    """
    correlation = correlation_id or world.new_id()

    def payload() -> dict[str, Any]:
        return {
            "type": "agent.control",
            "mode": mode,
            "scope": "agent" if room_id is None else "room",
            "agent_id": agent.id,
            "execution_id": execution_id,
            "room_id": room_id,
            "reason": "user_requested",
            "correlation_id": correlation,
        }

    topic = events.agent_control(agent.id)
    world.push(topic, "agent.control", payload, agents=[agent.id], users=False)
    return correlation


def stop_room(world: World, room: Room) -> None:
    """Stop every agent that is in the room now; those added later are not stopped."""
    _set(world, room, "stop", stopped=True)


def play_room(world: World, room: Room) -> None:
    """Let every agent of the room go on."""
    _set(world, room, "play", stopped=False)


def _set(world: World, room: Room, mode: Mode, *, stopped: bool) -> None:
    agents = room.agents()
    for agent in agents:
        room.executions[agent.id].stopped = stopped
    # The states first: whoever acts on a signal must find them changed.
    for agent in agents:
        execution = room.executions[agent.id]
        signal(world, agent, mode, room_id=room.id, execution_id=execution.id)


def interrupt(world: World, agent: Agent, execution_id: str) -> str:
    """End what the agent is running, in all its rooms; return the correlation id.

    Raises:
        Refusal: 404, no such execution of the agent.
    """
    for room in world.rooms_of[agent.id].values():
        if room.executions[agent.id].id == execution_id:
            return signal(world, agent, "interrupt", room_id=None, execution_id=execution_id)
    raise known_or_uuid("execution_id", execution_id, not_found("Execution"))


def executions(world: World, agent: Agent) -> list[dict[str, Any]]:
    """Return the rows of an agent's executions, one per room."""
    rows = []
    for room in world.rooms_of[agent.id].values():
        execution = room.executions[agent.id]
        rows.append(
            {
                "id": execution.id,
                "agent_id": agent.id,
                "chat_room_id": room.id,
                "status": "stopped" if execution.stopped else "running",
                "inserted_at": execution.inserted_at,
            }
        )
    return rows

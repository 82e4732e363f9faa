"""The script of the demo: what a person does, scene by scene, and what to wait for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final

import attrs
import trio

from band_trio.agent import Agent
from band_trio.cli import texts
from band_trio.cli.demo_agents import CLERK, GUIDE, POLLY
from band_trio.cli.transcript import Transcript
from band_trio.cli.verdict import Asked, Conversation, Step
from band_trio.entry.console import Style
from band_trio.localband import Cut, LocalAgent, LocalBand, LocalRoom
from band_trio.trace import Ended, EpochBegan, Started, TraceEvent

SCENE_SECONDS: Final = 8.0
"""A scene that takes longer has lost something."""
PAUSE_SECONDS: Final = 0.5
"""Between two scenes, for the eye."""


@attrs.define(eq=False)
class Actor:
    """An agent of the demo and what its observer saw."""

    account: LocalAgent
    transcript: Transcript
    agent: Agent = attrs.field(init=False)
    steps: dict[str, list[Step]] = attrs.field(factory=dict, init=False)
    """Room id → beginnings and ends of handlers."""
    connections: int = attrs.field(default=0, init=False)

    def observe(self, event: TraceEvent) -> None:
        """Be the observer of the agent."""
        self.transcript.connection(self.account.name, event)
        if isinstance(event, EpochBegan):
            self.connections = event.number
        elif isinstance(event, Started | Ended):
            begins = isinstance(event, Started)
            step = Step(event.message_id, begins, trio.current_time())
            self.steps.setdefault(event.room_id, []).append(step)

    def has_begun(self, message_id: str) -> bool:
        """Tell whether a handler ran or runs for a message."""
        return any(step.message_id == message_id for steps in self.steps.values() for step in steps)


@attrs.define(eq=False)
class Stage:
    """The platform, the agents and the person of one demo."""

    band: LocalBand
    transcript: Transcript
    actors: dict[str, Actor]
    must_fail: set[str] = attrs.field(factory=set, init=False)
    """Ids of messages whose handler is to raise."""
    unfinished: list[str] = attrs.field(factory=list, init=False)
    """Scenes that took too long."""

    def account(self, name: str) -> LocalAgent:
        """Return an agent as the platform knows it."""
        return self.actors[name].account

    async def room(self, title: str, *names: str) -> LocalRoom:
        """Open a room with agents in it."""
        return await self.band.user.create_room(title, [self.account(name) for name in names])

    async def ask(self, room: LocalRoom, name: str, text: str) -> str:
        """Let the person write to an agent; return the message's id."""
        return await self.band.user.send(room, text, [self.account(name)])

    async def settled(self, name: str, *message_ids: str) -> None:
        """Wait until the platform has the outcome of messages."""
        account = self.account(name)
        await self.band.until(
            lambda: all(self.band.state(each, account) in _FINAL for each in message_ids)
        )

    async def begun(self, name: str, message_id: str) -> None:
        """Wait until an agent has begun with a message."""
        await self.band.until(lambda: self.actors[name].has_begun(message_id))

    @contextmanager
    def scene(self, title: str) -> Generator[None]:
        """Surround a scene: its headline, and its limit."""
        self.transcript.title(title)
        with trio.move_on_after(SCENE_SECONDS) as limit:
            yield
        if limit.cancelled_caught:
            self.unfinished.append(f"not finished within {SCENE_SECONDS:g} s: {title}")

    # ------------------------------------------------------------------ for the verdict

    def conversations(self) -> list[Conversation]:
        """Collect what platform and observers know, by room and agent."""
        return [
            self._conversation(actor, room_id)
            for actor in self.actors.values()
            for room_id in self.band.world.rooms_of[actor.account.id]
        ]

    def _conversation(self, actor: Actor, room_id: str) -> Conversation:
        room, account = self.band.world.rooms[room_id], actor.account
        asked = [
            Asked(
                row.id,
                self.transcript.text(row.content),
                self.band.state(row.id, account),
                tuple(self.band.attempts(row.id, account)),
                row.id in self.must_fail,
            )
            for row in room.messages
            if row.addressed_to(account.id)
        ]
        own = [row.message_type for row in room.messages if row.sender.id == account.id]
        return Conversation(
            agent=account.name,
            room=room.title or room_id,
            asked=tuple(asked),
            steps=tuple(actor.steps.get(room_id, ())),
            answers=own.count("text"),
            errors=own.count("error"),
        )


_FINAL: Final = frozenset({"processed", "failed"})


# --------------------------------------------------------------------------- the scenes


async def _question(stage: Stage) -> None:
    desk = await stage.room("Desk", CLERK)
    await stage.settled(CLERK, await stage.ask(desk, CLERK, "What is 6 times 7?"))


async def _delegation(stage: Stage) -> None:
    travel = await stage.room("Travel", GUIDE)
    await stage.ask(travel, GUIDE, "What is 'good morning' in French?")
    world, guide, polly = stage.band.world, stage.account(GUIDE), stage.account(POLLY)

    def reported() -> bool:
        rows = world.rooms[travel.id].messages
        answers = [row for row in rows if row.sender.id == polly.id]
        return bool(answers) and stage.band.state(answers[-1].id, guide) in _FINAL

    await stage.band.until(reported)


async def _two_rooms(stage: Stage) -> None:
    north, south = await stage.room("North", CLERK), await stage.room("South", CLERK)
    sent = [
        await stage.ask(room, CLERK, f"Do step {number}, please.")
        for number in (1, 2, 3)
        for room in (north, south)
    ]
    await stage.settled(CLERK, *sent)


async def _failure(stage: Stage) -> None:
    maths = await stage.room("Maths", CLERK)
    bad = await stage.ask(maths, CLERK, "What is 1 divided by 0?")
    stage.must_fail.add(bad)
    good = await stage.ask(maths, CLERK, "And 9 divided by 3?")
    await stage.settled(CLERK, bad, good)
    rows = stage.band.world.rooms[maths.id].messages
    await stage.band.until(lambda: any(row.message_type == "error" for row in rows))


async def _cut(stage: Stage) -> None:
    sums, clerk = await stage.room("Sums", CLERK), stage.actors[CLERK]
    before = clerk.connections
    long = await stage.ask(sums, CLERK, "Please count to 3.")
    await stage.begun(CLERK, long)
    stage.transcript.line("", texts.CABLE_PULLED, Style.BAD)
    stage.band.cut(clerk.account, Cut.RST)
    await stage.band.until(lambda: stage.band.session(clerk.account) is None)
    meanwhile = await stage.ask(sums, CLERK, "What is 7 times 8?")
    await stage.settled(CLERK, long, meanwhile)
    await stage.band.until(lambda: clerk.connections > before)


SCENES: Final[tuple[tuple[str, Callable[[Stage], Awaitable[None]]], ...]] = (
    (texts.SCENE_QUESTION, _question),
    (texts.SCENE_DELEGATION, _delegation),
    (texts.SCENE_TWO_ROOMS, _two_rooms),
    (texts.SCENE_FAILURE, _failure),
    (texts.SCENE_CUT, _cut),
)


async def play(stage: Stage) -> None:
    """Play all scenes but the last, which is the stop."""
    for title, scene in SCENES:
        with stage.scene(title):
            await scene(stage)
        await trio.sleep(PAUSE_SECONDS)


async def last_question(stage: Stage) -> None:
    """Ask something that is still being answered when the stop comes."""
    with stage.scene(texts.SCENE_STOP):
        bye = await stage.room("Bye", CLERK)
        await stage.begun(CLERK, await stage.ask(bye, CLERK, "Please count to 2."))

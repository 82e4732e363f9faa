"""Contact events: callbacks, turns in the one hub room, lines in every room; nothing waits for them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import pytest
import trio
import trio.lowlevel
import trio.testing

from band_trio import (
    ContactAdded,
    ContactEvent,
    ContactEventConfig,
    ContactRemoved,
    ContactRequestReceived,
    ContactStrategy,
    ContactTools,
    SessionConfig,
)
from band_trio.localband import contacts
from band_trio.protocol.events import ContactRequestUpdated
from band_trio.trace import ActivityReported, Claimed, ContactHandled, Marked, Read
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Stage, reply, stage

HUB: Final = ContactEventConfig(strategy=ContactStrategy.HUB_ROOM)


class Callback:
    """What the application does with events; *wrong* is what happens to the first calls."""

    def __init__(self, *wrong: Exception | float) -> None:
        self.wrong = list(wrong)
        self.calls: list[tuple[float, ContactEvent]] = []

    async def __call__(self, event: ContactEvent, tools: ContactTools) -> None:
        self.calls.append((trio.current_time(), event))
        if self.wrong:
            what = self.wrong.pop(0)
            if isinstance(what, Exception):
                raise what
            await trio.sleep(what)
        if isinstance(event, ContactRequestReceived):
            await tools.respond_contact_request("approve", request_id=event.id)

    @property
    def kinds(self) -> list[str]:
        return [event.kind for _, event in self.calls]

    def config(self, **options: Any) -> ContactEventConfig:
        return ContactEventConfig(strategy=ContactStrategy.CALLBACK, on_event=self, **options)


async def until(condition: Callable[[], bool]) -> None:
    """Look every tenth of a second, for ten minutes at most."""
    with trio.fail_after(600):
        while not condition():  # noqa: ASYNC110 - no event tells of it
            await trio.sleep(0.1)


async def handled(here: Stage, count: int) -> list[ContactHandled]:
    """Wait until so many events were handled."""
    await until(lambda: len(here.seen(ContactHandled)) >= count)
    return here.seen(ContactHandled)


# --------------------------------------------------------------------------- callback


@guarantee(73)
async def test_a_callback_is_told_of_each_event_once_and_may_answer_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    callback = Callback()
    async with stage() as here, here.running(contact_config=callback.config()):
        ann = here.band.add_user("Ann")
        await ann.request_contact(here.account.handle, "let us talk")
        await handled(here, 3)
        assert await ann.contacts() == [here.account.handle]
        await ann.remove_contact(here.account.handle)
        await handled(here, 4)
    assert callback.kinds == [
        "contact_request_received",
        "contact_request_updated",
        "contact_added",
        "contact_removed",
    ]
    first, _, added, removed = (event for _, event in callback.calls)
    assert isinstance(first, ContactRequestReceived)
    assert (first.from_handle, first.from_name, first.message) == ("ann", "Ann", "let us talk")
    assert isinstance(added, ContactAdded)
    assert isinstance(removed, ContactRemoved)
    assert removed == ContactRemoved(added.id, "ann", "Ann"), "who it was is filled in"


@guarantee(73)
async def test_a_callback_that_fails_or_hangs_is_called_again_and_then_reported(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    callback = Callback(ValueError("no"), 1000.0, ValueError("no"))
    async with stage() as here, here.running(contact_config=callback.config()) as agent:
        ann = here.band.add_user("Ann")
        await ann.request_contact(here.account.handle)
        (done,) = (await handled(here, 1))[:1]
        assert done.worked
        times = [at for at, _ in callback.calls][:4]
        waits = [round(later - earlier) for earlier, later in pairwise(times)]
        assert waits == [1, 30 + 5, 30], "after 1, 5 and 30 seconds; the hanging one had 30"
        callback.wrong = [ValueError("no")] * 4
        bob = here.band.add_user("Bob")
        await bob.request_contact(here.account.handle)
        last = (await handled(here, 4))[-1]
        assert (last.kind, last.worked) == ("contact_request_received", False)
        assert any("it failed 4 times" in each for each in agent.health().problems)
    assert "contact_request_received" in caplog.text


@guarantee(75)
async def test_a_callback_that_hangs_delays_no_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    callback = Callback(1000.0)
    async with stage() as here:
        room = await here.room()
        async with here.running(contact_config=callback.config()):
            await here.band.add_user("Ann").request_contact(here.account.handle)
            await until(lambda: bool(callback.calls))
            began = trio.current_time()
            await here.settled(await here.say(room, "hello"))
            assert trio.current_time() - began < 1


@guarantee(73)
async def test_what_was_missed_in_an_outage_is_told_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    callback = Callback()
    async with stage() as here:
        band = here.band
        old, new, asks = (band.add_user(name) for name in ("Old", "New", "Asks"))
        agent = band.world.parties[here.account.id]
        _befriend(here, old.handle)
        async with here.running(contact_config=callback.config()):
            await trio.sleep(5)
            assert callback.calls == [], "contacts of before the start are no news"
            band.cut(here.account)
            contacts.remove(band.world, agent, handle=old.handle)
            _befriend(here, new.handle)
            await asks.request_contact(here.account.handle)
            await handled(here, 3)
            await trio.sleep(60)
            band.cut(here.account)
            await trio.sleep(60)
    told = Counter((e.kind, getattr(e, "handle", None)) for _, e in callback.calls)
    assert told["contact_removed", "old"] == 1
    assert told["contact_added", "new"] == 1
    assert told["contact_request_received", None] == 1
    assert max(told.values()) == 1


def _befriend(here: Stage, handle: str) -> None:
    """Make somebody a contact of the agent, without any program."""
    world = here.band.world
    agent, person = world.parties[here.account.id], world.by_handle(handle)
    assert person is not None
    request = contacts.ask(world, agent, handle)
    contacts.respond(world, person, "approve", request_id=request.id)


@guarantee(77)
@case("C59")
async def test_ten_thousand_events_behind_a_hanging_callback(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    callback = Callback(1000.0)
    async with stage() as here, here.running(contact_config=callback.config()) as agent:
        await trio.sleep(5)
        topic = f"agent_contacts:{here.account.id}"
        for number in range(10_000):
            payload = {"id": f"r{number}", "status": "approved"}
            here.band.send_frame(here.account, topic, "contact_request_updated", payload)
            if number % 100 == 0:
                await trio.lowlevel.checkpoint()
        await trio.sleep(5)
        assert agent.health().contact_events == 256
        with caplog.at_level(logging.WARNING):
            ann = here.band.add_user("Ann")
            await ann.request_contact(here.account.handle)
        assert "found no place" in caplog.text
        await handled(here, 256 + 1)
        # Found on the list once there was room again.
        await until(lambda: bool(here.band.world.contacts.of(ann.id)))
    assert callback.kinds.count("contact_request_received") == 1


async def test_lists_that_cannot_be_read_are_read_again_and_events_go_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    callback = Callback()
    async with stage() as here:
        here.band.faults.refuse(503, route="contact_requests", times=4)
        async with here.running(contact_config=callback.config()):
            await here.band.add_user("Ann").request_contact(here.account.handle)
            await handled(here, 3)
            await until(lambda: Read("", "contacts") in here.seen(Read))
    assert callback.kinds.count("contact_request_received") == 1


# --------------------------------------------------------------------------- lines in rooms


@guarantee(74)
async def test_a_change_is_told_in_each_room_once_whatever_the_strategy(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        rooms = [await here.room() for _ in range(3)]
        config = ContactEventConfig(broadcast_changes=True)
        async with here.running(contact_config=config):
            await trio.sleep(5)
            here.band.add_user("Ann")
            _befriend(here, "ann")
            await trio.sleep(1)
            for text in ("one", "two"):
                await here.settled(*[await here.say(room, text) for room in rooms])
    told = {(call.room_id, call.text): call.contacts_msg for call in here.adapter.calls}
    line = "@ann — Ann (User) has become a contact of yours."
    assert told == {
        (room, text): line if text == "one" else None for room in rooms for text in ("one", "two")
    }


@guarantee(74)
async def test_a_line_of_a_turn_that_failed_is_told_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def fails_first(call: Call) -> None:
        if len(here.adapter.calls) == 1:
            raise ValueError("no")
        await reply(call)

    async with stage(fails_first) as here:
        room = await here.room()
        session = SessionConfig(max_message_retries=2)
        config = ContactEventConfig(broadcast_changes=True)
        async with here.running(session, contact_config=config):
            await trio.sleep(5)
            here.band.add_user("Ann")
            _befriend(here, "ann")
            await trio.sleep(1)
            await here.settled(await here.say(room, "hello"))
    assert len({call.contacts_msg for call in here.adapter.calls}) == 1
    assert len(here.adapter.calls) == 2


# --------------------------------------------------------------------------- hub room


async def approve(call: Call) -> None:
    """Do in the hub room what a model would: approve by the id that the message names."""
    if call.msg.sender_type != "System":
        return await reply(call)
    request_id = call.text.partition("Request id: ")[2].split()[:1]
    if request_id:
        arguments = {"action": "approve", "request_id": request_id[0].rstrip(".")}
        await call.tools.execute_tool_call("band_respond_contact_request", arguments)
    return None


def hubs(here: Stage) -> list[str]:
    """Return the ids of the rooms that are called as the hub room is, oldest first."""
    return [room.id for room in here.band.world.rooms.values() if room.title == "Contacts"]


@guarantee(73, 75)
async def test_events_are_turns_in_the_one_hub_room_with_contact_tools(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(approve) as here:
        for name in ("Ann", "Bob"):  # before and after a restart
            async with here.running(contact_config=HUB):
                person = here.band.add_user(name)
                await person.request_contact(here.account.handle, 'I say "hi"')
                await handled(here, 3 if name == "Ann" else 6)
                assert await person.contacts() == [here.account.handle]
        (hub,) = hubs(here)
        rows = await here.band.user.messages(hub)
    calls = [call for call in here.adapter.calls if call.room_id == hub]
    first = calls[0]
    assert "Contact request from @ann — Ann. Request id: " in first.msg.content
    assert "Their message: \"I say 'hi'\"" in first.msg.content
    assert first.contacts_msg is not None, "the first turn is told what the room is for"
    assert calls[1].contacts_msg is None
    assert first.tools.is_hub_room
    assert not first.tools.turn.judged
    assert len(calls) == 6
    assert [row["message_type"] for row in rows] == ["task"] * 6
    assert rows[0]["metadata"] == {"contact_event_type": "contact_request_received"}
    assert not [event for kind in (Claimed, Marked, ActivityReported) for event in here.seen(kind)]


@guarantee(75)
@pytest.mark.parametrize("how", ["lost answer", "refused twice"])
async def test_there_is_one_hub_room_even_if_its_creation_is_in_doubt(
    autojump_clock: trio.testing.MockClock, how: str
) -> None:
    async with stage(approve) as here:
        faults = here.band.faults
        if how == "refused twice":
            faults.refuse(403, route="create_chat", times=2)
        else:
            faults.cut_request(route="create_chat", times=1)
        async with here.running(contact_config=HUB):
            await here.band.add_user("Ann").request_contact(here.account.handle)
            await handled(here, 3)
        assert len(hubs(here)) == 1


@guarantee(75)
async def test_of_two_candidates_the_oldest_of_ours_is_taken(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(approve) as here:
        world, band = here.band.world, here.band
        foreign = await band.user.create_room("Contacts", [here.account])
        ours = [world.create_room(world.parties[here.account.id], "Contacts").id for _ in range(2)]
        async with here.running(contact_config=HUB):
            await band.add_user("Ann").request_contact(here.account.handle)
            await handled(here, 3)
        assert {call.room_id for call in here.adapter.calls} == {ours[0]}
        assert len(hubs(here)) == 3
        assert foreign.id in hubs(here)


@guarantee(75)
async def test_a_hub_room_is_known_by_its_task_where_one_is_given_and_passes_the_filter(
    autojump_clock: trio.testing.MockClock,
) -> None:
    task = "11111111-2222-4333-8444-555555555555"
    config = ContactEventConfig(strategy=ContactStrategy.HUB_ROOM, hub_task_id=task)
    async with stage(approve) as here:
        for name in ("Ann", "Bob"):
            async with here.running(contact_config=config, room_filter=lambda *_: False):
                await here.band.add_user(name).request_contact(here.account.handle)
                await handled(here, 3 if name == "Ann" else 6)
        (room,) = here.band.world.rooms.values()
        assert room.task_id == task


@guarantee(73)
async def test_a_hub_turn_that_fails_is_repeated_and_one_that_was_stopped_goes_on_after_the_play(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def fails_first(call: Call) -> None:
        if len(here.adapter.calls) == 1:
            raise ValueError("no")
        if len(here.adapter.calls) == 2:
            await trio.sleep_forever()
        await approve(call)

    async with stage(fails_first) as here, here.running(contact_config=HUB):
        ann = here.band.add_user("Ann")
        await ann.request_contact(here.account.handle)
        await here.adapter.until_running()
        await until(lambda: len(here.adapter.calls) == 2)
        hub = here.band.world.rooms[hubs(here)[0]]
        here.band.signal(here.account, "stop", room_id=hub.id)
        await trio.sleep(20)
        assert len(here.adapter.calls) == 2
        here.band.signal(here.account, "play", room_id=hub.id)
        done = (await handled(here, 3))[0]
        assert done.worked
        assert await ann.contacts() == [here.account.handle]


async def test_a_hub_room_that_is_deleted_is_made_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(approve) as here, here.running(contact_config=HUB):
        await here.band.add_user("Ann").request_contact(here.account.handle)
        await handled(here, 3)
        here.band.world.delete_room(here.band.world.rooms[hubs(here)[0]])
        bob = here.band.add_user("Bob")
        await bob.request_contact(here.account.handle)
        await handled(here, 6)
        assert len(hubs(here)) == 1
        assert await bob.contacts() == [here.account.handle]


async def test_a_stop_does_not_wait_for_contacts(autojump_clock: trio.testing.MockClock) -> None:
    callback = Callback(1000.0)
    async with stage() as here:
        async with here.running(contact_config=callback.config(), grace=5):
            await here.band.add_user("Ann").request_contact(here.account.handle)
            await until(lambda: bool(callback.calls))
            began = trio.current_time()
        assert trio.current_time() - began < 8
    assert isinstance(callback.calls[0][1], ContactRequestReceived | ContactRequestUpdated)

"""What turns are given: history, roster text and system lines, and when that is committed."""

from __future__ import annotations

import json
from typing import Any

import attrs
import trio
import trio.testing

from band_trio import InputNotAccepted, SessionConfig
from band_trio.localband import posting
from band_trio.runtime.room.execution import ExecutionContext
from tests.marks import case, guarantee
from tests.runtime.harness import Call, Stage, reply, stage
from tests.runtime.views import fail, hang, lasting, reads, sent
from tests.support.for_each import for_each

QUIET = SessionConfig(idle_resync_seconds=1e7, idle_resync_max_seconds=1e7)


def contents(call: Call) -> list[str]:
    """Return the history of a call as bare texts."""
    texts = [row["content"] for row in call.history.raw]
    return [text.split(" ", 1)[-1] if text.startswith("@") else text for text in texts]


def child(here: Stage, agent: Any, room: str) -> ExecutionContext:
    """Return what serves a room."""
    served = agent._runtime._presence.room(room)
    assert isinstance(served, ExecutionContext)
    return served


async def talk(here: Stage, room: str, count: int, since: int = 0) -> list[str]:
    """Say things to the agent while it is down."""
    return [await here.say(room, f"m{n}") for n in range(since, since + count)]


async def done_before(here: Stage, room: str, count: int) -> list[str]:
    """Fill a room with messages that an earlier run has handled, each without a reply."""

    async def silent(call: Call) -> None:
        await call.tools.no_reply()

    here.adapter.behaviour = silent
    async with here.running(QUIET):
        messages = await talk(here, room, count)
        await here.settled(*messages)
    here.adapter.behaviour = reply
    here.adapter.calls.clear()
    here.trace.clear()
    return messages


# --------------------------------------------------------------------------- history


@guarantee(63)
@case("C33")
async def test_the_newest_items_before_the_trigger_oldest_first(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        await done_before(here, room, 249)
        async with here.running(attrs.evolve(QUIET, max_context_messages=100)):
            await here.settled(*await talk(here, room, 1, since=249))

        (call,) = here.adapter.calls
        assert call.bootstrap
        assert contents(call) == [f"m{n}" for n in range(149, 249)]
        assert reads(here, room).count("context") == 3


@guarantee(63)
@case("C37")
async def test_history_never_holds_the_trigger_or_what_comes_after_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """No turn is committed before the third, so each gets a bootstrap of its own."""

    async def third_time(call: Call) -> None:
        if call.text in ("m0", "m1"):
            raise ValueError("no")
        await reply(call)

    async with stage(third_time) as here:
        room = await here.room()
        messages = await talk(here, room, 4)
        session = attrs.evolve(QUIET, report_turn_failures_to_room=False)
        async with here.running(session):
            await here.settled(*messages[2:])

        assert [call.bootstrap for call in here.adapter.calls] == [True, True, True, False]
        assert [contents(call) for call in here.adapter.calls] == [[], ["m0"], ["m0", "m1"], []]


@guarantee(63)
@case("C37")
async def test_a_set_aside_trigger_that_runs_later_sees_nothing_of_the_future(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The load for a later message has gone beyond it already."""

    async def never(call: Call) -> None:
        if len(here.adapter.calls) < 4:
            raise ValueError("no")
        await reply(call)

    async with stage(never) as here:
        room = await here.room()
        messages = await talk(here, room, 3)
        session = attrs.evolve(
            QUIET, max_message_retries=9, retry_base_seconds=40, hold_seconds=1,
            report_turn_failures_to_room=False,
        )  # fmt: skip
        async with here.running(session):
            await here.settled(*messages)

        for call in here.adapter.calls:
            if call.bootstrap:
                number = int(call.text[1:])
                said = [text for text in contents(call) if text.startswith("m")]
                assert said == [f"m{n}" for n in range(number)]
        assert here.adapter.texts[:3] == ["m0", "m1", "m2"]
        assert here.adapter.texts[3] in ("m0", "m1", "m2")


@guarantee(63)
@case("C36")
async def test_own_replies_are_in_the_history_once_and_as_ours(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        other = here.band.register_agent("Other")
        await here.band.user.add(room, other)
        async with here.running(QUIET):
            await here.settled(*await talk(here, room, 1))
            await here.settled(say_as(here, room, other.id, "m1"))
        assert [call.msg.sender_name for call in here.adapter.calls] == ["Demo User", "Other"]
        here.adapter.calls.clear()
        async with here.running(QUIET):
            await here.settled(*await talk(here, room, 1, since=2))

        (call,) = here.adapter.calls  # nothing is answered a second time
        assert [
            (row["role"], row["sender_type"], row["sender_name"]) for row in call.history.raw
        ] == [
            ("user", "User", "Demo User"),
            ("assistant", "Agent", "Scribe"),
            ("user", "Agent", "Other"),
            ("assistant", "Agent", "Scribe"),
        ]
        assert contents(call) == ["m0", "re: m0", "m1", "re: m1"]
        assert len([row for row in await here.band.user.messages(room) if "re:" in str(row)]) == 3


def say_as(here: Stage, room_id: str, sender_id: str, content: str) -> str:
    """Let another agent say something to ours; return the message's id."""
    world = here.band.world
    mention = {"id": here.account.id}
    body = {"message": {"content": content, "mentions": [mention]}}
    return posting.post_message(world, world.rooms[room_id], world.parties[sender_id], body).id


@guarantee(63)
async def test_later_turns_get_an_empty_history_and_no_bootstrap(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        await done_before(here, room, 3)
        async with here.running(QUIET):
            await here.settled(*await talk(here, room, 3, since=3))
        assert [(call.bootstrap, len(call.history.raw)) for call in here.adapter.calls] == [
            (True, 3),
            (False, 0),
            (False, 0),
        ]
        assert reads(here, room).count("context") == 1


@guarantee(63)
async def test_without_hydration_the_bootstrap_is_empty(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        await done_before(here, room, 3)
        async with here.running(attrs.evolve(QUIET, enable_context_hydration=False)):
            await here.settled(*await talk(here, room, 2, since=3))
        assert [(call.bootstrap, len(call.history.raw)) for call in here.adapter.calls] == [
            (True, 0),
            (False, 0),
        ]
        assert reads(here, room).count("context") == 0


@guarantee(64)
@case("C34")
@for_each("how", ["403", "500", "hang"])
async def test_a_history_that_cannot_be_read_is_never_taken_for_an_empty_one(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        await done_before(here, room, 3)
        if how != "hang":
            rule = here.band.faults.refuse(int(how), route="context", times=None)
        else:
            rule = here.band.faults.hang(route="context", times=None)
        async with here.running(attrs.evolve(QUIET, history_seconds=8)):
            began = trio.current_time()
            await here.settled(*await talk(here, room, 1, since=3))
            assert trio.current_time() - began <= 8.01
            tried = len(sent(here, "context")) - 1
            assert tried == 3 if how == "403" else tried >= 1
            rule.lift()
            await here.settled(*await talk(here, room, 2, since=4))

        assert [(call.bootstrap, len(call.history.raw)) for call in here.adapter.calls] == [
            (False, 0),
            (True, 5),  # three, the message of the first turn, and its reply
            (False, 0),
        ]


@guarantee(64)
@case("C34")
async def test_one_failed_page_is_read_again_in_the_same_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        await done_before(here, room, 120)
        here.band.faults.refuse(403, route="context", skip=1)
        async with here.running(attrs.evolve(QUIET, max_context_messages=110)):
            await here.settled(*await talk(here, room, 1, since=120))
        (call,) = here.adapter.calls
        assert contents(call) == [f"m{n}" for n in range(10, 120)]
        assert reads(here, room).count("context") == 2


# --------------------------------------------------------------------------- what is not committed


async def not_accepted(call: Call) -> None:
    await trio.lowlevel.checkpoint()
    raise InputNotAccepted("busy")


async def silent(call: Call) -> None:
    await trio.lowlevel.checkpoint()


@guarantee(64, 65, 66)
@for_each("end", ["raise", "say nothing", "not accepted", "interrupt", "stop"])
async def test_a_turn_that_was_not_completed_is_told_again(
    end: str, autojump_clock: trio.testing.MockClock
) -> None:
    behaviours = {"raise": fail, "say nothing": silent, "not accepted": not_accepted}
    async with stage(behaviours.get(end, hang)) as here:
        room = await here.room()
        await done_before(here, room, 2)
        here.adapter.behaviour = behaviours.get(end, hang)
        session = attrs.evolve(QUIET, max_message_retries=2, report_turn_failures_to_room=False)
        async with here.running(session) as agent:
            await here.band.until(lambda: agent._runtime._presence.room(room) is not None)  # type: ignore[union-attr]
            child(here, agent, room).briefing.inject_system_message("news")
            first = await here.say(room, "first")
            await here.band.until(lambda: len(here.adapter.calls) == 1)
            here.adapter.behaviour = reply
            child(here, agent, room).briefing.inject_system_message("more news")
            if end == "interrupt":
                await here.band.user.interrupt(here.account)
            elif end == "stop":
                await here.band.user.stop(room)
                await here.band.user.play(room)
            await here.settled(first)
            second = await here.say(room, "second")
            await here.settled(second)
            await here.settled(await here.say(room, "third"))

        given = [
            (call.text, call.bootstrap, contents(call), call.participants_msg is not None,
             call.contacts_msg)
            for call in here.adapter.calls
        ]  # fmt: skip
        again = "second" if end == "interrupt" else "first"
        seen = ["m0", "m1"] + (["first"] if end == "interrupt" else [])
        assert given[0] == ("first", True, ["m0", "m1"], True, "news")
        assert given[1] == (again, True, seen, True, "news\nmore news")
        assert all(rest[1:] == (False, [], False, None) for rest in given[2:])
        assert given[-1][0] == "third"


@guarantee(64)
async def test_a_retry_reuses_the_load(autojump_clock: trio.testing.MockClock) -> None:
    async with stage() as here:
        room = await here.room()
        await done_before(here, room, 3)
        here.adapter.behaviour = fail
        async with here.running(attrs.evolve(QUIET, max_message_retries=3)):
            message = await here.say(room, "first")
            await here.settled(message, state="failed")
            await trio.sleep(60)
        assert [contents(call) for call in here.adapter.calls] == [["m0", "m1", "m2"]] * 3
        # One for what was said before, and one for each later run for what we have said since.
        assert reads(here, room).count("context") == 3


# --------------------------------------------------------------------------- system lines


@guarantee(65)
async def test_lines_that_come_during_a_turn_are_for_the_next(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(lasting(5)) as here:
        room = await here.room()
        async with here.running(QUIET) as agent:
            await here.settled(await here.say(room, "m0"))
            lines = child(here, agent, room).briefing
            lines.inject_system_message("one")
            message = await here.say(room, "m1")
            await here.adapter.until_running()
            lines.inject_system_message("two")
            lines.inject_system_message("three")
            await here.settled(message, await here.say(room, "m2"), await here.say(room, "m3"))
        assert [call.contacts_msg for call in here.adapter.calls] == [
            None,
            "one",
            "two\nthree",
            None,
        ]


@guarantee(65)
async def test_too_many_lines_are_counted(autojump_clock: trio.testing.MockClock) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(attrs.evolve(QUIET, system_lines=3)) as agent:
            await here.settled(await here.say(room, "m0"))
            for n in range(8):
                child(here, agent, room).briefing.inject_system_message(f"line {n}")
            await here.settled(await here.say(room, "m1"))
        assert here.adapter.calls[1].contacts_msg == (
            "(5 earlier updates are left out)\nline 5\nline 6\nline 7"
        )


# --------------------------------------------------------------------------- roster


@guarantee(66)
async def test_the_roster_is_told_when_it_differs_and_only_then(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        guest = here.band.register_agent("Guest", description="a guest")

        async def turn(text: str) -> str | None:
            await here.settled(await here.say(room, text))
            await trio.sleep(1)
            return here.adapter.calls[-1].participants_msg

        async with here.running(QUIET):
            await trio.sleep(1)
            first = await turn("m0")
            assert first is not None
            assert "Guest" not in first
            assert await turn("m1") is None
            await here.band.user.add(room, guest)
            await trio.sleep(1)
            assert "Guest" in str(await turn("m2"))
            assert await turn("m3") is None
            await here.band.user.remove(room, guest)
            await trio.sleep(1)
            assert await turn("m4") == first
            await here.band.user.add(room, guest)
            await here.band.user.remove(room, guest)
            await trio.sleep(1)
            assert await turn("m5") is None  # it is as it was told last


@guarantee(66)
async def test_an_unchanged_roster_is_not_told_again_after_a_reconnect(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            for text in ("m0", "m1"):
                await here.settled(await here.say(room, text))
                await trio.sleep(1)
            before = reads(here, room).count("participants")
            here.band.cut(here.account)
            await trio.sleep(5)
            await here.settled(await here.say(room, "m2"))
            assert reads(here, room).count("participants") > before  # it was stale
        assert [call.participants_msg is None for call in here.adapter.calls] == [
            False,
            True,
            True,
        ]


@guarantee(66)
async def test_a_change_during_a_turn_is_told_to_the_next(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage(lasting(5)) as here:
        room = await here.room()
        guest = here.band.register_agent("Guest")
        async with here.running(QUIET):
            await trio.sleep(1)
            messages = [await here.say(room, "m0")]
            await here.adapter.until_running()
            await here.band.user.add(room, guest)
            messages += [await here.say(room, "m1"), await here.say(room, "m2")]
            await here.settled(*messages)
        told = [call.participants_msg for call in here.adapter.calls]
        assert "Guest" not in str(told[0])
        assert "Guest" in str(told[1])
        assert told[2] is None


@guarantee(33)
async def test_the_roster_is_stale_after_a_reconnect_although_its_topic_is_not_joined(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        guest = here.band.register_agent("Guest")
        async with here.running(QUIET):
            for text in ("m0", "m1"):  # the second one reads the roster after the join
                await here.settled(await here.say(room, text))
                await trio.sleep(1)
            here.band.faults.ignore_join(f"room_participants:{room}", times=None)
            here.band.cut(here.account)
            await here.band.user.add(room, guest)
            await trio.sleep(5)
            await here.settled(await here.say(room, "m2"))
        assert "Guest" in str(here.adapter.calls[2].participants_msg)


@guarantee(33)
@case("C34")
@for_each("by", ["runtime", "tool"])
@for_each("rows", ["one is odd", "none"])
async def test_who_is_missing_from_an_incomplete_roster_has_not_left(
    rows: str, by: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Those who left are told once the roster can be read; the one who came is told at once."""
    heard: list[str] = []

    async def came(room_id: str, person: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        heard.append(f"+{person['name']}")

    async def went(room_id: str, person: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        heard.append(f"-{person['name']}")

    async def asks(call: Call) -> None:
        if call.text == "ask":
            await call.tools.execute_tool_call("band_get_participants", {})
        await call.tools.send_message("hi", mentions=[f"@{bee.handle}"])

    async with stage(asks) as here:
        room = await here.room()
        bee, cee, dee = (here.band.register_agent(name) for name in ("Bee", "Cee", "Dee"))
        for each in (bee, cee):
            await here.band.user.add(room, each)
        async with here.running(QUIET, on_participant_added=came, on_participant_removed=went):
            for text in ("m0", "m1"):  # the second one reads the roster after the join
                await here.settled(await here.say(room, text))
                await trio.sleep(1)
            quiet = here.band.faults.suppress(when=lambda facts: True, times=None)
            await here.band.user.remove(room, cee)
            await here.band.user.add(room, dee)
            quiet.lift()
            listed = await here.band.user.participants(room) if rows != "none" else []
            odd = [{**row, "type": None if row["id"] == bee.id else row["type"]} for row in listed]
            body = json.dumps({"data": odd}).encode()
            if by == "runtime":
                here.band.cut(here.account)
                await trio.sleep(3)
            rule = here.band.faults.odd_answer(body, route="participants", times=None)
            await here.settled(await here.say(room, "ask" if by == "tool" else "m2"))
            await here.settled(await here.say(room, "m3"))
            assert rule.hits > 0
            assert heard == (["+Dee"] if rows != "none" else [])
            rule.lift()
            here.band.cut(here.account)
            await trio.sleep(3)
            await here.settled(await here.say(room, "m4"))
            assert sorted(heard) == ["+Dee", "-Cee"]


@guarantee(29, 33)
@case("C35")
async def test_changes_during_an_outage_are_seen_after_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room, lost = await here.room(), await here.room()
        bee, cee = here.band.register_agent("Bee"), here.band.register_agent("Cee")
        await here.band.user.add(room, cee)

        async def asks(call: Call) -> None:
            if call.text == "ask @b":
                await call.tools.send_message("well?", mentions=[f"@{bee.handle}"])
            else:
                await reply(call)

        here.adapter.behaviour = asks
        async with here.running(QUIET):
            for text in ("m0", "m1"):  # the second one reads the roster after the join
                await here.settled(await here.say(room, text))
                await trio.sleep(1)
            assert "Cee" in str(here.adapter.calls[0].participants_msg)
            here.band.faults.suppress(times=None, when=lambda facts: True)
            here.band.faults.refuse_upgrade(503, times=3)
            here.band.cut(here.account)
            await here.band.user.add(room, bee)
            await here.band.user.remove(room, cee)
            new = await here.room()
            await here.band.user.remove(lost, here.account)
            asked = await here.say(room, "ask @b")
            hello = await here.say(new, "hello")
            await here.settled(asked, hello)
            topics = here.band.session(here.account)
            assert topics is not None
            joined = {topic.split(":")[1] for topic in topics.joined if "room:" in topic}

        (call,) = [each for each in here.adapter.calls if each.text == "ask @b"]
        assert "Bee" in str(call.participants_msg)
        assert "Cee" not in str(call.participants_msg)
        replies = [row for row in await here.band.user.messages(room) if "well?" in row["content"]]
        assert [each["id"] for each in replies[0]["metadata"]["mentions"]] == [bee.id]
        assert joined == {room, new}
        assert here.adapter.cleaned[0] == lost


# --------------------------------------------------------------------------- who is not known


async def arrives_unheard(here: Stage, room: str, name: str) -> Any:
    """Add somebody whose arrival is not pushed, nor their name with what they say."""

    def nameless(frame: Any) -> Any:
        return attrs.evolve(frame, payload={**frame.payload, "sender_name": None})

    rule = here.band.faults.suppress(when=lambda facts: True, times=None)
    guest = here.band.register_agent(name)
    await here.band.user.add(room, guest)
    rule.lift()
    here.band.faults.alter(nameless, event="message_created", times=None)
    return guest


async def warmed_up(here: Stage, room: str) -> int:
    """Run two turns, the second of which reads the roster after the join; return the reads."""
    for text in ("m0", "m1"):
        await here.settled(await here.say(room, text))
        await trio.sleep(1)
    return reads(here, room).count("participants")


@guarantee(85)
@case("C67")
@for_each("how", ["sender", "mention", "reference"])
async def test_somebody_who_is_not_known_is_looked_up_before_the_turn(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with stage() as here:
        room = await here.room()
        async with here.running(QUIET):
            before = await warmed_up(here, room)
            guest = await arrives_unheard(here, room, "Guest")
            if how == "sender":
                message = say_as(here, room, guest.id, "hello")
            else:
                kind = {"kind": "reference"} if how == "reference" else {}
                mentions = [{"id": here.account.id}, {"id": guest.id, **kind}]
                body = {"message": {"content": "ask them", "mentions": mentions}}
                world = here.band.world
                user = world.parties[here.band.user.id]
                message = posting.post_message(world, world.rooms[room], user, body).id
            await here.settled(message)
            call = here.adapter.calls[-1]
            assert "Guest" in str(call.participants_msg)
            assert "Guest" in [person["name"] for person in call.tools.participants]
            if how == "sender":
                assert call.msg.sender_name == "Guest"
                assert call.msg.format_for_llm().startswith("[Guest]: ")
            else:
                assert f"@{guest.handle}" in call.msg.content
            assert reads(here, room).count("participants") == before + 1
            await here.settled(say_as(here, room, guest.id, "again"))
            assert reads(here, room).count("participants") == before + 1


@guarantee(85)
@case("C67")
async def test_the_name_of_a_sender_is_in_the_history_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The row of the context has no name either; the roster of the turn has it."""

    async def twice(call: Call) -> None:
        if call.text == "hello":
            raise ValueError("no")
        await reply(call)

    async with stage(twice) as here:
        room = await here.room()
        session = attrs.evolve(QUIET, report_turn_failures_to_room=False)
        async with here.running(session):
            await trio.sleep(1)
            guest = await arrives_unheard(here, room, "Guest")
            world = here.band.world
            first = say_as(here, room, guest.id, "hello")
            await here.settled(first, state="failed")
            row = {**world.messages[first].render(), "sender_name": None}
            about = {"has_more": False, "limit": 100, "next_cursor": None}
            page = {"data": [row], "metadata": about}
            here.band.faults.odd_answer(json.dumps(page, default=str).encode(), route="context")
            await here.settled(say_as(here, room, guest.id, "well?"))

        call = here.adapter.calls[-1]
        assert [item["sender_name"] for item in call.history.raw] == ["Guest"]


@guarantee(85)
async def test_who_stays_unknown_is_looked_up_once_until_somebody_comes_or_goes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        ghost, other = here.band.register_agent("Ghost"), here.band.register_agent("Other")

        async def turn() -> int:
            """Have Ghost, who has left unheard, be mentioned; return how often was looked."""
            before = reads(here, room).count("participants")
            await here.band.user.add(room, ghost)
            mentions = [{"id": here.account.id}, {"id": ghost.id}]
            body = {"message": {"content": "ask them", "mentions": mentions}}
            world = here.band.world
            user = world.parties[here.band.user.id]
            here.band.faults.delay(2, route="processing")  # the claim: by then Ghost is gone
            message = posting.post_message(world, world.rooms[room], user, body).id
            await here.band.user.remove(room, ghost)
            await here.settled(message)
            return reads(here, room).count("participants") - before

        async with here.running(QUIET):
            await warmed_up(here, room)
            here.band.faults.suppress(
                when=lambda facts: (
                    "participant" in facts.frame.event and facts.frame.payload.get("id") == ghost.id
                ),
                times=None,
            )
            assert [await turn(), await turn(), await turn()] == [1, 0, 0]
            await here.band.user.add(room, other)
            await trio.sleep(1)
            assert [await turn(), await turn()] == [1, 0]


@guarantee(85)
async def test_a_look_up_that_fails_is_made_again_before_the_next_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def decline(call: Call) -> None:
        await call.tools.no_reply()  # a reply would read the roster itself

    async with stage(decline) as here:
        room = await here.room()
        async with here.running(QUIET):
            await warmed_up(here, room)
            guest = await arrives_unheard(here, room, "Guest")
            rule = here.band.faults.refuse(403, route="participants", times=None)
            await here.settled(say_as(here, room, guest.id, "hello"))
            assert here.adapter.calls[-1].msg.sender_name is None
            assert rule.hits == 2
            rule.lift()
            await here.settled(await here.say(room, "next"))
            assert "Guest" in str(here.adapter.calls[-1].participants_msg)


@guarantee(85)
async def test_we_are_known_although_the_roster_does_not_show_us(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with stage() as here:
        room = await here.room()
        guest = here.band.register_agent("Guest")
        rows = [row for row in await here.band.user.participants(room) if row["type"] == "User"]
        body = json.dumps({"data": rows}).encode()
        here.band.faults.odd_answer(body, route="participants", times=None)
        async with here.running(QUIET):
            before = await warmed_up(here, room)
            await here.band.user.add(room, guest)
            await trio.sleep(1)
            await here.settled(await here.say(room, "m2"))
            assert "Guest" in str(here.adapter.calls[-1].participants_msg)
            assert reads(here, room).count("participants") == before

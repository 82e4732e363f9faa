"""Tasks under any sequence of changes; what happened to each replays to what it is."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from band_trio.stores.refusal import Refusal
from band_trio.stores.tasks import (
    GOAL,
    NEWEST,
    ROLL_UP,
    STATUSES,
    WRITABLE,
    Actor,
    RoomTasks,
    Task,
)
from tests.support.for_each import for_each

ANN = Actor("ann", "Ann", "User", "ann")
SCRIBE = Actor("scribe", "Scribe", "Agent", "ann/scribe")
BOT = Actor("bot", "Bot", "Agent")


def opened() -> RoomTasks:
    ids, times = count(1), count(1)
    return RoomTasks("room", lambda: f"id-{next(ids)}", lambda: f"t{next(times):06}")


def refusal(call: Any, *args: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        call(*args)
    return caught.value


# --------------------------------------------------------------------------- the machine


def replayed(task: Task) -> dict[str, Any]:
    """Return the state of a task as its history tells it."""
    now: dict[str, Any] = {"state": "active", "statuses": {}, "superseded_by_id": None}
    for event in task.past.events:
        payload, actor = event["payload"], event["actor"]["id"]
        match event["event"]:
            case "created":
                now |= payload
            case "edited":
                for name, change in payload.items():
                    assert now[name] == change["from"]
                    now[name] = change["to"]
            case "status_changed":
                assert now["statuses"].get(actor) == payload["status"]["from"]
                now["statuses"][actor] = payload["status"]["to"]
            case "superseded" | "cancelled" | "archived" | "unarchived":
                assert now["state"] == payload["state"]["from"] != payload["state"]["to"]
                now["state"] = payload["state"]["to"]
                now["superseded_by_id"] = payload.get("superseded_by_id")
            case other:
                assert other == "commented"
                assert payload["text"]
    return now


class TaskMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.work = opened()
        self.histories: dict[str, list[Any]] = {}

    def pick(self, number: int) -> Task:
        return self.work.tasks[number % len(self.work.tasks)]

    @rule(
        actor=st.sampled_from([ANN, SCRIBE, BOT]),
        subject=st.sampled_from(["dig", "fill", " ", ""]),
        detail=st.sampled_from([None, "", "deep"]),
        replaces=st.none() | st.integers(0, 20),
    )
    def create(self, actor: Actor, subject: str, detail: str | None, replaces: int | None) -> None:
        old = self.pick(replaces) if replaces is not None and self.work.tasks else None
        body = {"subject": subject, "detail": detail}
        if old is not None:
            body["supersedes_id"] = old.id if replaces and replaces % 2 else str(old.number)
        before = len(self.work.tasks)
        if not subject.strip() or (old is not None and old.state == "superseded"):
            assert refusal(self.work.create, actor, body).status == 422
            assert len(self.work.tasks) == before
            return
        task = self.work.create(actor, body)
        assert (task.number, task.state, task.assignments) == (before + 1, "active", {})
        assert old is None or (old.state, old.superseded_by_id) == ("superseded", task.id)

    @precondition(lambda self: self.work.tasks)
    @rule(
        number=st.integers(0, 20),
        actor=st.sampled_from([ANN, SCRIBE, BOT]),
        body=st.fixed_dictionaries(
            {},
            optional={
                "status": st.sampled_from(STATUSES),
                "active_form": st.sampled_from(["digging", "", None]),
                "linked_native_id": st.sampled_from(["", "native-1"]),
                "comment": st.sampled_from(["well", ""]),
                "subject": st.sampled_from(["dig", "fill", " "]),
                "detail": st.sampled_from(["", "deep"]),
                "state": st.sampled_from(WRITABLE),
                "unknown": st.just(1),
            },
        ),
    )
    def update(self, number: int, actor: Actor, body: dict[str, Any]) -> None:
        task = self.pick(number)
        before = task.render(history=True)
        own = {each["assignee"]["id"] for each in before["assignments"]}
        given = {k: v for k, v in body.items() if v is not None and k != "unknown"}
        work = given.keys() & {"status", "active_form", "linked_native_id"}
        wrong = (
            not given
            or given.get("subject") == " "
            or given.get("comment") == ""
            or (task.state == "superseded" and "state" in given)
            or (work and task.state != "active" and given.get("state") != "active")
            or (work and "status" not in given and actor.id not in own)
        )
        if wrong:
            assert refusal(self.work.update, actor, task.id, body).status == 422
            assert task.render(history=True) == before
            return
        self.work.update(actor, str(task.number), body)
        after = task.render(history=True)
        assert {n: after[n] for n in given if n in after} == {
            n: v for n, v in given.items() if n in after
        }
        others = [a for a in after["assignments"] if a["assignee"]["id"] != actor.id]
        assert others == [a for a in before["assignments"] if a["assignee"]["id"] != actor.id]
        if work:
            mine = task.assignments[actor.id]
            assert {n: getattr(mine, n) for n in work} == {n: given[n] for n in work}
        changed = {**after, "updated_at": None} != {**before, "updated_at": None}
        assert (after["updated_at"] != before["updated_at"]) is changed

    @invariant()
    def every_history_replays_and_only_grows(self) -> None:
        for task in self.work.tasks:
            now = replayed(task)
            statuses = {who: each.status for who, each in task.assignments.items()}
            assert now.pop("statuses") == statuses
            assert now == {name: getattr(task, name) for name in now}
            known = self.histories.get(task.id, [])
            assert task.past.events[: len(known)] == known
            self.histories[task.id] = list(task.past.events)
            assert task.overall_status == next(
                (status for status in ROLL_UP if status in statuses.values()), "pending"
            )

    @invariant()
    def numbers_count_up_and_states_divide_the_list(self) -> None:
        assert [task.number for task in self.work.tasks] == list(range(1, len(self.work.tasks) + 1))
        states = ["active", "cancelled", "superseded", "archived"]
        found = [task for state in states for task in self.work.search(state)]
        assert sorted(found, key=lambda task: task.number) == self.work.search("all")


TestTaskMachine = TaskMachine.TestCase


# --------------------------------------------------------------------------- single facts


@for_each(
    ("pointer", "body"),
    [
        ("/", None),
        ("/", []),
        ("/", {"nothing": 1}),
        ("/", {"status": None}),
        ("/status", {"status": "done"}),
        ("/status", {"status": 3}),
        ("/state", {"state": "superseded"}),
        ("/comment", {"comment": "\u200b"}),
        ("/subject", {"subject": ""}),
        ("/detail", {"detail": []}),
        ("/active_form", {"active_form": "digging"}),
    ],
)
def test_a_change_that_does_not_fit_is_refused(pointer: str, body: Any) -> None:
    work = opened()
    work.create(ANN, {"subject": "dig"})
    no = refusal(work.update, SCRIBE, "1", body)

    assert (no.status, list(no.details or ())) == (422, [pointer])


@for_each(
    ("pointer", "body"),
    [
        ("/subject", None),
        ("/subject", {"subject": 1}),
        ("/detail", {"subject": "x", "detail": {}}),
        ("/supersedes_id", {"subject": "x", "supersedes_id": True}),
    ],
)
def test_a_task_that_does_not_fit_is_refused(pointer: str, body: Any) -> None:
    no = refusal(opened().create, ANN, body)
    assert (no.status, list(no.details or ())) == (422, [pointer])


@for_each("reference", ["2", "#1", "01", "id-9", "", "²"])
def test_an_unknown_task_is_not_found(reference: str) -> None:
    work = opened()
    work.create(ANN, {"subject": "dig"})

    assert refusal(work.find, reference).status == 404
    assert refusal(work.create, ANN, {"subject": "x", "supersedes_id": "7"}).status == 404


def test_one_call_finishes_and_archives_and_another_takes_up_again() -> None:
    work = opened()
    work.create(ANN, {"subject": "dig"})
    task = work.update(SCRIBE, "1", {"status": "completed", "state": "archived"})
    assert (task.state, task.overall_status) == ("archived", "completed")

    work.update(SCRIBE, "1", {"status": "in_progress", "state": "active"})
    events = [event["event"] for event in task.past.events]
    assert events == ["created", "status_changed", "archived", "unarchived", "status_changed"]


def test_only_the_newest_events_come_with_a_task() -> None:
    work = opened()
    task = work.create(ANN, {"subject": "dig"})
    for n in range(NEWEST - 1):
        work.update(ANN, task.id, {"comment": f"c{n}"})
    assert task.render(history=True)["history_truncated"] is False

    work.update(ANN, task.id, {"comment": "last"})
    row = task.render(history=True)
    assert row["history_truncated"] is True
    assert len(row["history"]) == NEWEST
    assert row["history"][-1]["payload"] == {"text": "last"}
    assert "history" not in task.render()


# --------------------------------------------------------------------------- the board


class BoardMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.work = opened()
        self.model: dict[str, Any] = dict.fromkeys(GOAL)
        self.writers: list[str] = []

    @rule(
        actor=st.sampled_from([ANN, SCRIBE]),
        body=st.fixed_dictionaries(
            {}, optional={name: st.sampled_from(["win", "", None, 5]) for name in GOAL}
        ),
    )
    def write(self, actor: Actor, body: dict[str, Any]) -> None:
        if not body or 5 in body.values():
            assert refusal(self.work.set_board, actor, body).status == 422
            return
        changed = self.model | body != self.model
        self.model |= body
        self.work.set_board(actor, body)
        self.writers += [actor.id] if changed else []

    @invariant()
    def the_board_is_what_was_written_and_its_history_replays(self) -> None:
        row = self.work.board.render(history=True)
        assert {name: row[name] for name in GOAL} == self.model
        assert len(row["history"]) == len(self.writers)
        now: dict[str, Any] = dict.fromkeys(GOAL)
        for event in row["history"]:
            assert event["event"] == (
                "goal_edited" if any(v is not None for v in now.values()) else "goal_set"
            )
            for name, change in event["payload"].items():
                assert now[name] == change["from"]
                now[name] = change["to"]
        assert now == self.model
        actors = [row[name] and row[name]["id"] for name in ("created_by", "updated_by")]
        assert actors == ([self.writers[0], self.writers[-1]] if self.writers else [None, None])
        assert (row["inserted_at"] is None) is (not self.writers)


TestBoardMachine = BoardMachine.TestCase

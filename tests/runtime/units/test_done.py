"""What is remembered of messages whose work is done, and how much of it."""

from __future__ import annotations

from band_trio.runtime.done import PER_ROOM, ROOMS, DoneMessages


def test_g22_a_room_with_many_done_messages_forgets_its_own_oldest() -> None:
    done = DoneMessages()
    done.add("other", "m")
    for number in range(PER_ROOM + 1):
        done.add("room", f"{number}")
    assert not done.has("room", "0")
    assert all(done.has("room", f"{number}") for number in range(1, PER_ROOM + 1))
    assert done.has("other", "m")


def test_g77_done_messages_are_bounded_and_removed_without_a_trace() -> None:
    done = DoneMessages()
    for number in range(ROOMS + 1):
        done.add(f"{number}", "m")
        done.add("1", "m")  # the most recent room is not the one to forget
    assert not done.has("0", "m")
    assert done.has("1", "m")
    for number in range(ROOMS + 1):
        done.remove(f"{number}", "m")
        done.remove(f"{number}", "m")
    assert done._rooms == {}

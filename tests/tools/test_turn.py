"""The ledger as an adapter sees it: its nursery, its end, and waiting for a person."""

from __future__ import annotations

import pytest
import trio

from band_trio.errors import TurnClosedError
from band_trio.tools.ledger import Ledger
from tests.tools.kit import Ear


async def test_the_nursery_is_there_while_the_turn_is_open() -> None:
    turn = Ledger()
    with pytest.raises(TurnClosedError, match="no nursery"):
        assert turn.nursery is not None
    async with trio.open_nursery() as nursery:
        turn.open_in(nursery)
        assert turn.nursery is nursery
        turn.close()
        with pytest.raises(TurnClosedError):
            assert turn.nursery is not None


def test_detaching_is_told_once_and_only_by_an_open_turn() -> None:
    ear = Ear()
    turn, over = Ledger(listener=ear), Ledger(listener=ear)
    over.close()
    for each in (turn, turn, over):
        each.detach()

    assert (turn.detached, over.detached) == (True, False)
    assert ear.heard == ["detached"]


def test_a_turn_without_a_runtime_tells_nobody() -> None:
    turn = Ledger()
    turn.detach()
    turn.tell(lambda listener: listener.stop_observed())

    assert turn.detached


def test_reporting_completes_without_replying() -> None:
    turn = Ledger()
    turn.note_reported()

    assert (turn.complete, turn.replied, turn.reported) == (True, False, True)

"""What the end of a connection means: the table, line by line."""

from __future__ import annotations

import pytest

from band_trio.errors import (
    BandAuthError,
    BandConfigError,
    BandError,
    BandPolicyError,
    BandSupersededError,
)
from band_trio.link.channel.verdict import (
    BackOff,
    CheckKey,
    Conflict,
    ConnectionEnd,
    GiveUp,
    Wait,
    judge,
)
from band_trio.protocol.events import Supersede
from tests.marks import case
from tests.support.for_each import for_each

GONE = Supersede("session.already_connected", "newer")


@case("C43")
@for_each(
    ("status", "first", "again"),
    [
        (401, BandAuthError, CheckKey),
        (403, BandAuthError, CheckKey),
        (400, BandConfigError, BackOff),
        (404, BandConfigError, BackOff),
        (426, BandConfigError, BackOff),
        (409, Conflict, BackOff),
        (429, BackOff, BackOff),
        (503, BackOff, BackOff),
        (500, BackOff, BackOff),
        (302, BackOff, BackOff),
        (200, BackOff, BackOff),
    ],
)
def test_upgrade_answers(status: int, first: type, again: type) -> None:
    end = ConnectionEnd("because", status=status)
    verdict = judge(end, "ws://x", first=True)
    if issubclass(first, BandError):
        assert isinstance(verdict, GiveUp)
        assert isinstance(verdict.error, first)
        assert "because" in str(verdict.error)
    else:
        assert isinstance(verdict, first)
    assert isinstance(judge(end, "ws://x", first=False), again)


@case("C43")
@for_each("first", [True, False])
@for_each("status", [429, 503])
def test_a_told_wait_is_a_minimum(status: int, first: bool) -> None:
    end = ConnectionEnd("busy", status=status, retry_after=7.0)
    verdict = judge(end, "ws://x", first=first)
    assert isinstance(verdict, Wait)
    assert 7 <= verdict.seconds <= 7.7


@pytest.mark.parametrize("first", [True, False])
def test_ends_of_a_socket(first: bool) -> None:
    def of(end: ConnectionEnd) -> object:
        return judge(end, "ws://x", first=first)

    superseded = of(ConnectionEnd("superseded", supersede=GONE))
    assert isinstance(superseded, GiveUp)
    assert isinstance(superseded.error, BandSupersededError)
    policy = of(ConnectionEnd("close code 1008: spam", code=1008))
    assert isinstance(policy, GiveUp)
    assert isinstance(policy.error, BandPolicyError)
    assert "spam" in str(policy.error)
    for code in (None, 1000, 1001, 1006, 1009, 1011, 4000):
        assert of(ConnectionEnd("closed", code=code)) == BackOff()
    assert isinstance(of(ConnectionEnd("told", code=1000, retry_after=9)), Wait)
    for code, low, high in ((1012, 1, 5), (1013, 30, 60)):
        verdict = of(ConnectionEnd("later", code=code))
        assert isinstance(verdict, Wait)
        assert low <= verdict.seconds <= high

"""The signal handlers of a command: there while it runs, and gone with it."""

from __future__ import annotations

import signal
from collections.abc import Generator
from types import FrameType

import pytest

from band_trio.entry import signals as module
from band_trio.entry.signals import SAME_REQUEST_SECONDS, SIGNALS, StopSignals, stop_signals
from tests.marks import case
from tests.support.for_each import for_each


def mine(number: int, frame: FrameType | None) -> None:
    """Be the handler of an application."""


@pytest.fixture
def _handled() -> Generator[None]:
    before = {number: signal.signal(number, mine) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@case("C53")
@pytest.mark.usefixtures("_handled")
@for_each("error", [None, ValueError, KeyboardInterrupt, SystemExit])
def test_earlier_signal_handlers_are_restored(error: type[BaseException] | None) -> None:
    caught = False
    try:
        with stop_signals() as signals:
            assert [signal.getsignal(number) for number in SIGNALS] == [signals.handle] * 2
            if error is not None:
                raise error
    except BaseException as exc:  # noqa: ASYNC103, BLE001 - the case
        caught = type(exc) is error

    assert caught is (error is not None)
    assert [signal.getsignal(number) for number in SIGNALS] == [mine] * 2


class _Ended(Exception):
    """Stands for the end of the process."""


INT, TERM = signal.SIGINT, signal.SIGTERM


@case("C75")
@for_each(
    ("came", "ends_with"),
    [
        ([(INT, 0.0)], None),
        ([(INT, 0.0), (TERM, 0.9)], None),
        ([(TERM, 0.0), (INT, 0.9)], None),
        ([(INT, 0.0), (TERM, SAME_REQUEST_SECONDS + 0.1)], 1),
        ([(INT, 0.0), (INT, 0.01)], 1),
        ([(TERM, 0.0), (TERM, 5.0)], 1),
        ([(TERM, 0.0), (INT, 0.1), (INT, 0.2)], 2),
        ([(TERM, 0.0), (INT, 0.1), (TERM, 0.2)], 2),
        ([(TERM, 0.0), (INT, 0.1), (INT, 9.0)], 2),
    ],
)
def test_which_signals_are_one_request(
    monkeypatch: pytest.MonkeyPatch, came: list[tuple[int, float]], ends_with: int | None
) -> None:
    def end(text: str) -> None:
        raise _Ended(text)

    clock = [0.0]
    monkeypatch.setattr(module, "_end_at_once", end)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    signals = StopSignals()
    signals._running = True
    ended = None
    for number, (kind, at) in enumerate(came):
        clock[0] = at
        try:
            signals.handle(kind, None)
        except _Ended:
            ended = number

    assert ended == ends_with
    assert signals.first == signal.Signals(came[0][0]).name


def test_a_signal_between_the_start_of_trio_and_of_the_agent_is_not_lost() -> None:
    signals = StopSignals()

    async def main() -> str:
        signals.handle(signal.SIGTERM, None)  # nobody waits yet
        return await signals.wait()

    assert signals.run(main) == "SIGTERM"

"""The signal handlers of a command: there while it runs, and gone with it."""

from __future__ import annotations

import signal
from collections.abc import Generator
from types import FrameType

import pytest

from band_trio.entry.signals import SIGNALS, stop_signals


def mine(number: int, frame: FrameType | None) -> None:
    """Be the handler of an application."""


@pytest.fixture
def _handled() -> Generator[None]:
    before = {number: signal.signal(number, mine) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_handled")
@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt, SystemExit])
def test_c53_earlier_signal_handlers_are_restored(error: type[BaseException] | None) -> None:
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

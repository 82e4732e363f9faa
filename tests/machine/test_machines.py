"""An agent that is driven at random through everything that can go wrong.

`pytest tests/machine --hypothesis-profile=deep` runs ten thousand examples and more.
"""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.rules import (
    WithControls,
    WithEnds,
    WithMembership,
    WithRequestFaults,
    WithSocketFaults,
)
from tests.marks import guarantee

_EXAMPLES: Final = {"ci": 18, "deep": 4000}
_STEPS: Final = {"ci": 30, "deep": 40}
_PROFILE: Final = settings.get_current_profile_name()
SETTINGS: Final = settings(
    max_examples=_EXAMPLES.get(_PROFILE, 12),
    stateful_step_count=_STEPS.get(_PROFILE, 25),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


class DeliveryMachine(WithRequestFaults, WithSocketFaults):
    """Messages, under every fault of requests, pushes and sockets."""


class ControlMachine(WithControls, WithMembership, WithRequestFaults):
    """Controls and memberships against turns, claims and marks."""


class EndsMachine(WithEnds, WithRequestFaults, WithControls, WithSocketFaults):
    """Stops, crashes and restarts in the middle of everything."""


@guarantee(4, 5, 6, 9, 14, 15, 16, 19, 20, 21, 23, 25, 26, 28, 63, 76)
def test_delivery() -> None:
    run_state_machine_as_test(DeliveryMachine, settings=SETTINGS)


@guarantee(1, 2, 10, 11, 12, 17, 29, 40, 41, 42, 49, 50, 54, 55, 67, 70)
def test_controls() -> None:
    run_state_machine_as_test(ControlMachine, settings=SETTINGS)


@guarantee(34, 35, 36, 37, 51, 52, 53, 56, 64, 69, 71, 77)
def test_ends() -> None:
    run_state_machine_as_test(EndsMachine, settings=SETTINGS)

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

_EXAMPLES: Final = {"ci": 60, "deep": 4000}
_STEPS: Final = {"ci": 30, "deep": 40}
_PROFILE: Final = settings.get_current_profile_name()
SETTINGS: Final = settings(
    max_examples=_EXAMPLES.get(_PROFILE, 20),
    stateful_step_count=_STEPS.get(_PROFILE, 25),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


class DeliveryMachine(WithRequestFaults, WithSocketFaults):
    """Messages, under every fault of requests, pushes and sockets."""


class ControlMachine(WithControls, WithMembership, WithRequestFaults):
    """Controls and memberships against turns, claims and marks."""


class EndsMachine(WithEnds, WithRequestFaults, WithControls, WithSocketFaults):
    """Stops, crashes and restarts in the middle of everything."""


def test_g04_g05_g06_g09_g14_g15_g16_g19_g20_g21_g23_g25_g26_g28_g63_g76_delivery() -> None:
    run_state_machine_as_test(DeliveryMachine, settings=SETTINGS)


def test_g01_g02_g10_g11_g12_g17_g29_g40_g41_g42_g49_g50_g54_g55_g67_g70_controls() -> None:
    run_state_machine_as_test(ControlMachine, settings=SETTINGS)


def test_g34_g35_g36_g37_g51_g52_g53_g56_g64_g69_g71_g77_ends() -> None:
    run_state_machine_as_test(EndsMachine, settings=SETTINGS)

"""An agent that is driven at random through everything that can go wrong.

`pytest tests/machine --hypothesis-profile=deep -o faulthandler_timeout=0` runs ten thousand
examples and more.
"""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, settings

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


class TestDelivery(DeliveryMachine.TestCase):  # type: ignore[misc]
    """g04 g05 g06 g09 g10 g11 g12 g14 g15 g16 g18 g19 g20 g21 g23 g25 g26 g28 g76."""

    settings = SETTINGS


class TestControl(ControlMachine.TestCase):  # type: ignore[misc]
    """g01 g02 g10 g17 g24 g29 g40 g41 g42 g49 g50 g54 g55 g67."""

    settings = SETTINGS


class TestEnds(EndsMachine.TestCase):  # type: ignore[misc]
    """g34 g35 g36 g37 g51 g52 g53 g56 g57 g63 g64 g69 g71."""

    settings = SETTINGS

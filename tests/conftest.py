"""Profiles of hypothesis: choose one with `--hypothesis-profile=ci` or `deep`."""

from __future__ import annotations

import faulthandler
import signal
import threading

import pytest
from hypothesis import HealthCheck, settings

# No deadline: a slow machine is no bug. Filtered and slow data are judged by the reader instead.
_COMMON = settings(
    settings.get_profile("default"),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)

settings.register_profile("default", _COMMON, max_examples=30, stateful_step_count=30)
settings.register_profile(
    "ci", _COMMON, max_examples=100, stateful_step_count=40, derandomize=True, database=None
)
settings.register_profile("deep", _COMMON, max_examples=2_000, stateful_step_count=80)
settings.load_profile("default")

# A background job of a shell starts with SIGINT ignored, and every program that a test starts would
# inherit that and never end by it. A signal with a handler is back at its default in such programs.
_IN_MAIN_THREAD = threading.current_thread() is threading.main_thread()
if _IN_MAIN_THREAD and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_net_for_deep_tests() -> None:
    """A single test of `deep` may take an hour; the net for tests that hang is for the others."""
    if settings.get_current_profile_name() == "deep":
        faulthandler.cancel_dump_traceback_later()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let one run what shows a guarantee or a case: `--guarantee 25`, `--case C15`."""
    parser.addoption("--guarantee", type=int, help="run only what shows this guarantee")
    parser.addoption("--case", help="run only what shows this case handled")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not asked for."""
    for marker in ("guarantee", "case"):
        asked = config.getoption(f"--{marker}")
        if asked is not None:
            left = [e for e in items if any(asked in m.args for m in e.iter_markers(marker))]
            config.hook.pytest_deselected(items=[e for e in items if e not in left])
            items[:] = left

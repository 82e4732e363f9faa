"""Profiles of hypothesis: choose one with `--hypothesis-profile=ci` or `deep`.

A single test of `deep` may take minutes: add `-o faulthandler_timeout=900`.
"""

from __future__ import annotations

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

"""Fixtures of the protocol's tests."""

from __future__ import annotations

import logging
from collections.abc import Generator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Generator[None]:
    """Thousands of dropped fields are expected here; tests of the log turn it on again."""
    logger = logging.getLogger("band_trio.protocol")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)

"""Quiet logs: thousands of examples, each with outages, would be kept in memory."""

from __future__ import annotations

import logging
from collections.abc import Generator

import pytest


@pytest.fixture(autouse=True)
def _no_logs() -> Generator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)

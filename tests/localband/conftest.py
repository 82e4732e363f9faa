"""A platform per test, on both faces."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from band_trio.localband import LocalBand, open_local_band


@pytest.fixture(params=["memory", "loopback"])
async def band(request: pytest.FixtureRequest) -> AsyncGenerator[LocalBand]:
    """A platform on each face; nothing in its tests waits for the clock."""
    async with open_local_band(memory=request.param == "memory") as opened:
        yield opened


@pytest.fixture
async def memory_band() -> AsyncGenerator[LocalBand]:
    """A platform in memory."""
    async with open_local_band(memory=True) as opened:
        yield opened


@pytest.fixture
async def loopback_band() -> AsyncGenerator[LocalBand]:
    """A platform on 127.0.0.1."""
    async with open_local_band() as opened:
        yield opened

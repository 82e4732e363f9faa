"""Fixtures of the runtime's tests."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_lock_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the host locks of the tests away from those of real agents."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

"""What fits together in a memory (platform docs, Memories)."""

from __future__ import annotations

from typing import Final

from band_trio import texts

_SENSES: Final = ("iconic", "echoic", "haptic")
_KNOWLEDGE: Final = ("episodic", "semantic", "procedural")

TYPES_OF_SYSTEM: Final = {"sensory": _SENSES, "working": _KNOWLEDGE, "long_term": _KNOWLEDGE}
"""System → types that it can hold."""


def check_type(system: str, kind: str) -> None:
    """Check that a memory of the type *kind* can be in *system*.

    Raises:
        ValueError: it cannot; the text lists what can.
    """
    allowed = TYPES_OF_SYSTEM.get(system)
    if allowed is None:
        raise ValueError(texts.memory_system(system, list(TYPES_OF_SYSTEM)))
    if kind not in allowed:
        raise ValueError(texts.memory_type(system, kind, allowed))


def check_scope(scope: str, subject_id: str | None) -> None:
    """Check that knowledge about somebody says about whom.

    Raises:
        ValueError: it does not.
    """
    if scope == "subject" and not subject_id:
        raise ValueError(texts.SUBJECT_NEEDED)

"""What the platform tells whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import attrs


@attrs.define(eq=False)
class Push:
    """Something to tell the sockets that joined *topic*."""

    topic: str
    event: str
    make: Callable[[], dict[str, Any]] = attrs.field(repr=False)
    """Builds the payload; not called when nobody listens."""
    agents: Collection[str] = ()
    """Ids of the agents that may get it."""
    users: bool = True
    """Whether persons get it."""
    _payload: dict[str, Any] | None = attrs.field(default=None, init=False, repr=False)

    @property
    def payload(self) -> dict[str, Any]:
        """The payload, built once."""
        if self._payload is None:
            self._payload = self.make()
        return self._payload


Publish = Callable[[Push], Collection[str]]
"""Carries a push to the sockets; returns the ids of the agents that were sent it."""


def nobody(push: Push) -> Collection[str]:
    """Carry a push to nobody."""
    return ()

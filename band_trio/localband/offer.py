"""What a platform offers beside rooms; real ones differ in it (platform docs, Identity)."""

from __future__ import annotations

from typing import Literal

import attrs

from band_trio.stores.files import FILE_BYTES
from band_trio.stores.refusal import forbidden, not_found

Feature = Literal["files", "tasks", "memories"]


@attrs.define(kw_only=True)
class Offer:
    """What there is; may be changed while the platform is open."""

    files: bool = True
    tasks: bool = True
    """Tasks and board."""
    memories: bool = True
    file_bytes: int = FILE_BYTES
    """Largest file."""
    file_seconds: float | None = None
    """How long a file is kept after its latest upload; None for ever."""

    def flags(self) -> dict[str, bool]:
        """Return the feature flags of `/agent/me`; memories have none."""
        return {"ff_file_transfer": self.files, "ff_room_tasks": self.tasks}

    def check(self, feature: Feature | None) -> None:
        """Let a request to a feature pass.

        Raises:
            Refusal: it is not offered: 403 for memories, which are a matter of the plan, else 404.
        """
        if feature is None or getattr(self, feature):
            return
        if feature == "memories":
            raise forbidden("Memories are not part of the plan")
        raise not_found("Route")

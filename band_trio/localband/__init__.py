"""An embedded Band platform: small enough for a test, complete enough to develop against."""

from band_trio.localband.band import LocalAgent, LocalBand, open_local_band
from band_trio.localband.faults import Cut, Faults
from band_trio.localband.user import LocalRoom, LocalUser

__all__ = [
    "Cut",
    "Faults",
    "LocalAgent",
    "LocalBand",
    "LocalRoom",
    "LocalUser",
    "open_local_band",
]

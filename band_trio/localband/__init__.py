"""An embedded Band platform: small enough for a test, complete enough to develop against."""

from band_trio.localband.band import LocalAgent, LocalBand, open_local_band
from band_trio.localband.fault_rules import Cut
from band_trio.localband.faults import Faults
from band_trio.localband.offer import Offer
from band_trio.localband.user import LocalRoom, LocalUser

__all__ = [
    "Cut",
    "Faults",
    "LocalAgent",
    "LocalBand",
    "LocalRoom",
    "LocalUser",
    "Offer",
    "open_local_band",
]

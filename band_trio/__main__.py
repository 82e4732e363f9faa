"""`python -m band_trio`, the same as the command `band-trio`."""

from __future__ import annotations

import sys

from band_trio.cli import main

if __name__ == "__main__":
    sys.exit(main())

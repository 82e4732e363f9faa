"""The command `band-trio`: demo, serve and run."""

from band_trio.cli.app import main

__all__ = ["main"]

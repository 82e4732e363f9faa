"""Measurements of the running agent against the bare loop that does the same requests."""

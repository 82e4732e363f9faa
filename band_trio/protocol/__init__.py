"""Bytes ↔ attrs objects, for both ends of the wire. No I/O, no trio, no clock."""

"""The runtime: rooms, turns and settlements as nested scopes. One file per responsibility."""

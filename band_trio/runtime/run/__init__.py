"""One run of an agent: its start, its parts, its end, and what is told of it."""

"""What a room knows of its messages, without I/O: the table, its answers, and the verdicts."""

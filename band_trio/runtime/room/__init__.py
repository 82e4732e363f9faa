"""The room around its journal: the loop, reading the list, settling, controls."""

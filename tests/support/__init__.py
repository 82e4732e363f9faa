"""Tools that tests of several parts share."""

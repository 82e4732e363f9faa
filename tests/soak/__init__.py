"""A long run over real sockets, with kills."""

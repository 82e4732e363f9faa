"""One message from claim to verdict, and what its handler is given."""

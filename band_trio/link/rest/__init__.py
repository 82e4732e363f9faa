"""Requests: the transport, tries and patience, routes, and the typed REST client."""

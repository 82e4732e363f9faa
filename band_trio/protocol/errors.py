"""Errors that stay inside: ours and the peer's, told apart."""

from __future__ import annotations


class LocalStateError(Exception):
    """We broke our own rules: a bug in this package."""


class RemoteProtocolError(Exception):
    """The peer sent what the protocol does not allow: dropped and counted, never fatal."""

"""Adapters: what turns a message into work. Subclass `SimpleAdapter`, or take one that ships."""

from band_trio.adapters.base import SimpleAdapter
from band_trio.adapters.calls import call_tool
from band_trio.adapters.echo import EchoAdapter
from band_trio.adapters.rules import RuleAdapter

__all__ = ["EchoAdapter", "RuleAdapter", "SimpleAdapter", "call_tool"]

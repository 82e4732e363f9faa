"""`EchoAdapter`: repeats what it is told. Needs no key and no model."""

from __future__ import annotations

from typing import Unpack

from band_trio.adapters.base import SimpleAdapter
from band_trio.adapters.calls import call_tool
from band_trio.tools.conversation import strip_leading_mentions
from band_trio.tools.definitions import BandTool
from band_trio.tools.protocol import AgentToolsProtocol
from band_trio.types import FeatureKwargs, HistoryProvider, PlatformMessage


class EchoAdapter(SimpleAdapter[HistoryProvider]):
    """Answers each message with its own words, through a real tool call.

    The smallest complete adapter, for a first run and for tests.
    """

    def __init__(self, prefix: str = "You said: ", **features: Unpack[FeatureKwargs]) -> None:
        super().__init__(**features)
        self.prefix = prefix
        """What stands before the repeated words."""

    async def on_message(
        self,
        msg: PlatformMessage,
        tools: AgentToolsProtocol,
        history: HistoryProvider,
        participants_msg: str | None,
        contacts_msg: str | None,
        *,
        is_session_bootstrap: bool,
        room_id: str,
    ) -> None:
        """Repeat *msg* to its sender."""
        content = self.prefix + strip_leading_mentions(msg.content)
        await call_tool(tools, BandTool.SEND_MESSAGE, content=content, mentions=[msg.sender_id])

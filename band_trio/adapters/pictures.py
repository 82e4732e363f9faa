"""Results that hold pictures, taken apart for the APIs, each of which shows them its own way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from band_trio.tools.narration import output_text
from band_trio.tools.results import is_mcp_content_result


@attrs.frozen
class Picture:
    """A picture as a tool returned it."""

    media_type: str
    data: str
    """Base64."""


def pictures_of(value: Any) -> tuple[str, list[Picture]]:
    """Return the text of a result, and its pictures; the text has a placeholder for them."""
    if not is_mcp_content_result(value):
        return output_text(value), []
    pictures = [
        Picture(str(block.get("mimeType") or "image/png"), str(block.get("data") or ""))
        for block in value["content"]
        if isinstance(block, Mapping) and block.get("type") == "image"
    ]
    return output_text(value), pictures

"""Results that hold pictures, taken apart for the APIs, each of which shows them its own way."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import attrs

from band_trio.tools.files import IMAGES, media_type
from band_trio.tools.narration import output_text
from band_trio.tools.results import is_mcp_content_result

_SYNONYMS: Final = {"image/jpg": "image/jpeg"}


@attrs.frozen
class Picture:
    """A picture as a tool returned it."""

    media_type: str
    """One of `IMAGES`."""
    data: str
    """Base64."""


def pictures_of(value: Any) -> tuple[str, list[Picture]]:
    """Return the text of a result, and its pictures; the text has a placeholder for them.

    What is no base64, or of another kind than `IMAGES`, is left out: providers refuse the whole
    request for it.
    """
    text = output_text(value)
    if not is_mcp_content_result(value):
        return text, []
    blocks = [b for b in value["content"] if isinstance(b, Mapping) and b.get("type") == "image"]
    read = [_picture(block) for block in blocks]
    pictures = [each for each in read if each is not None]
    if len(pictures) < len(blocks):
        text += f"\n{len(blocks) - len(pictures)} of them cannot be read."
    return text, pictures


def _picture(block: Mapping[Any, Any]) -> Picture | None:
    data = "".join(str(block.get("data") or "").split())
    try:
        readable = bool(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        readable = False
    kind = media_type(str(block.get("mimeType") or block.get("mime_type") or "image/png"))
    kind = _SYNONYMS.get(kind, kind)
    return Picture(kind, data) if readable and kind in IMAGES else None

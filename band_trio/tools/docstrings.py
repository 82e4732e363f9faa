"""Docstrings of tools: what describes the tool, and what describes each of its arguments."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

_SECTION: Final = re.compile(r"(Args|Arguments|Parameters|Attributes):\s*")
_ENTRY: Final = re.compile(r"(?P<name>\w+)\s*(\([^)]*\))?\s*:\s*(?P<text>.*)")


def tool_description(model: Any) -> str:
    """Return what the docstring of a class or function says, each paragraph as one line.

    Without the part on its arguments: see `argument_descriptions`.
    """
    return _paragraphs(_split(model)[0])


def argument_descriptions(model: Any) -> dict[str, str]:
    """Return what the docstring says of each argument, in a section `Args:` or `Attributes:`.

    That section has one argument a line, `name: text` or `name (type): text`; further lines of a
    text are indented more. Anything else there leaves it part of the description.
    """
    return _split(model)[1]


def _split(model: Any) -> tuple[list[str], dict[str, str]]:
    doc = model.__doc__ or ""
    if dataclasses.is_dataclass(model) and doc.startswith(f"{getattr(model, '__name__', '')}("):
        return [], {}  # not written by anybody: it is the signature
    lines = inspect.cleandoc(doc).split("\n")
    for start, line in enumerate(lines):
        if _SECTION.fullmatch(line):
            end = start + 1
            while end < len(lines) and lines[end][:1] in ("", " ", "\t"):
                end += 1
            entries = _entries(lines[start + 1 : end])
            if entries:
                return [*lines[:start], "", *lines[end:]], entries
    return lines, {}


def _entries(lines: Sequence[str]) -> dict[str, str]:
    """Return the arguments of a section; none where a line of it is something else."""
    written = [line for line in inspect.cleandoc("\n".join(["", *lines])).split("\n") if line]
    found: dict[str, list[str]] = {}
    latest: list[str] | None = None
    for line in written:
        entry = None if line[:1].isspace() else _ENTRY.fullmatch(line)
        if entry is not None:
            latest = found.setdefault(entry["name"], [])
            latest.append(entry["text"])
        elif latest is not None and line[:1].isspace():
            latest.append(line)
        else:
            return {}
    return {name: _line(parts) for name, parts in found.items()}


def _paragraphs(lines: Iterable[str]) -> str:
    paragraphs = re.split(r"\n\s*\n", "\n".join(lines))
    return "\n\n".join(text for text in (_line([each]) for each in paragraphs) if text)


def _line(parts: Iterable[str]) -> str:
    return " ".join(" ".join(parts).split())

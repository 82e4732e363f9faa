"""docs/operating.md says what is true: its tables are those of the classes.

`python -m tests.test_operating` writes them anew.
"""

from __future__ import annotations

import ast
import inspect
import re
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs

from band_trio import AgentConfig, SessionConfig
from band_trio.runtime.lifecycle import ShutdownReport
from band_trio.runtime.run.health import Health
from tests.support.for_each import for_each

PAGE = Path(__file__).parents[1] / "docs" / "operating.md"
CLASSES: tuple[type[Any], ...] = (SessionConfig, AgentConfig, Health, ShutdownReport)
OPTIONS = (SessionConfig, AgentConfig)


def texts(cls: type[Any]) -> dict[str, str]:
    """Return what stands below each field of a class."""
    (tree,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(tree, ast.ClassDef)
    return {
        name: " ".join(text.split())
        for line, below in pairwise(tree.body)
        if isinstance(line, ast.AnnAssign)
        and isinstance(name := getattr(line.target, "id", None), str)
        and isinstance(below, ast.Expr)
        and isinstance(text := getattr(below.value, "value", None), str)
    }


def questions(cls: type[Any]) -> dict[str, str]:
    """Return the comment that stands above a field, by the field: what it and the next answer."""
    found = re.findall(r"^    # (.+\?)\n    (\w+):", inspect.getsource(cls), flags=re.MULTILINE)
    return {field: question for question, field in found}


def value(default: Any) -> str:
    if isinstance(default, StrEnum):
        return f"`{type(default).__name__}.{default.name}`"
    words = {None: "none", "": "empty"}
    return words.get(default) or f"`{default}`"


def table(cls: type[Any]) -> str:
    """Write the table of a class."""
    options = cls in OPTIONS
    rows = ["| option | default | |", "|---|---|---|"] if options else ["| field | |", "|---|---|"]
    said, asked = texts(cls), questions(cls)
    for field in attrs.fields(cls):
        if field.name in asked:
            rows.append(f"| **{asked[field.name]}** | | |")
        default = f"{value(field.default)} | " if options else ""
        rows.append(f"| `{field.name}` | {default}{said[field.name]} |")
    return "\n".join(rows) + "\n"


def renewed(page: str) -> str:
    """Return the page with its tables written anew; each ends the section that names its class."""
    sections = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    for number, section in enumerate(sections):
        heading = section.partition("\n")[0]
        for cls in CLASSES:
            if f"`{cls.__name__}`" in heading:
                words = "\n".join(line for line in section.splitlines() if line[:1] != "|")
                sections[number] = f"{words.rstrip()}\n\n{table(cls)}\n"
    return "".join(sections).rstrip() + "\n"


@for_each("cls", CLASSES)
def test_every_field_is_explained(cls: type[Any]) -> None:
    missing = {field.name for field in attrs.fields(cls)} - texts(cls).keys()
    assert not missing
    assert cls not in OPTIONS or attrs.fields(cls)[0].name in questions(cls)


def test_the_tables_are_those_of_the_classes() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert all(table(cls) in page for cls in CLASSES)
    assert page == renewed(page), "run python -m tests.test_operating"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

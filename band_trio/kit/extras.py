"""Parts of the package that need more than it installs: loaded on first use, or told what to add."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Final

_MODULES: Final = {
    "anthropic": {"anthropic"},
    "local": {"hypercorn", "starlette", "rich"},
    "mcp": {"hypercorn", "mcp", "starlette"},
    "openai": {"openai"},
    "pydantic-ai": {"pydantic_ai"},
}
"""What each extra installs. A module that is missing inside of these is another trouble."""


def load_extra(module: str, extra: str, what: str) -> ModuleType:
    """Import *module*, which *what* needs and for which *extra* has to be installed.

    Raises:
        ImportError: the extra is not installed; the text names it.
        ModuleNotFoundError: something else is missing.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as exc:
        if exc.name is None or exc.name.partition(".")[0] not in _MODULES[extra]:
            raise
        raise ImportError(
            f"{what} needs the extra `{extra}` ({exc.name} is missing): "
            f"pip install 'band-trio[{extra}]'"
        ) from exc

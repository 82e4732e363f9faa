"""The shape of the package as a test: arrows point down, libraries have one door, files stay small."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import attrs

import band_trio
from tests.support.for_each import for_each

ROOT: Final = Path(band_trio.__file__).parent

# From the ground up; a part, a folder or a file beside the folders, may use what is below it, and
# itself. Imports for types are imports.
LAYERS: Final[list[set[str]]] = [
    {"kit"},
    {"errors"},
    {"features"},
    {"types", "texts", "trace"},
    {"config"},
    {"checks"},
    {"protocol"},
    {"link/net"},
    {"link/rest"},
    {"link/channel"},
    {"link"},
    {"tools"},
    {"contract"},
    {"converters", "mcp"},
    {"adapters", "runtime"},
    {"runtime/journal"},
    {"runtime/turn"},
    {"runtime/room"},
    {"runtime/membership"},
    {"runtime/contacts"},
    {"runtime/run"},
    {"agent"},
    {"entry"},
    {""},  # band_trio/__init__.py
    {"cli"},
    {"__main__"},
]
# Three parts stand beside the tower. The embedded platform shares the wire, not the client; the
# pure state of what it keeps beside rooms is shared with the fakes.
BESIDE: Final = {
    "stores": set().union(*LAYERS[:7]),
    "localband": set().union(*LAYERS[:7], {"stores"}),
    "testing": set().union(*LAYERS[:15], {"stores", "localband"}),
}
MAY_USE_BESIDE: Final = {"cli", "__main__"}

DOORS: Final = {
    "httpx": {"link/rest/foreign.py", "localband/memory.py", "config/agent.py"},
    "httptools": {"link/rest/transport.py"},
    "trio_websocket": {"link/channel/socket.py", "localband/sockets.py"},
    "wsproto": {"link/channel/socket.py", "localband/sockets.py"},
    "orjson": {"protocol/codec.py"},
    "asyncio": {"adapters/asyncio_loop.py"},
    "starlette": {"localband/", "mcp/http.py"},
    "hypercorn": {"localband/", "mcp/http.py"},
    "mcp": {"mcp/"},
    "rich": {"entry/console.py"},
    "pydantic": set[str](),
}
PURE: Final = ("trio", "httpx", "starlette", "hypercorn", "trio_websocket", "socket", "threading")

MAX_LINES: Final = 400
LONGER: Final = {"runtime/journal/journal.py": 500}
"""One idea that is not cut in two."""
MAX_FUNCTION: Final = 60


@attrs.frozen
class Import:
    """One module that a file needs."""

    module: str
    line: int
    lazy: bool
    """Inside a function: needed only when that is called."""


def names() -> list[str]:
    """Return every file of the package, relative to it."""
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))


@cache
def tree(name: str) -> ast.Module:
    return ast.parse((ROOT / name).read_text(encoding="utf-8"), name)


@cache
def imports(name: str) -> tuple[Import, ...]:
    """Return what a file imports, for types only as well."""
    return tuple(_imports(tree(name), lazy=False))


def _imports(node: ast.AST, *, lazy: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, lazy) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"relative import in line {child.lineno}"
            module = child.module or ""
            for alias in child.names:  # a name may be a module
                full = f"{module}.{alias.name}"
                yield Import(full if file_of(full) else module, child.lineno, lazy)
        inner = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _imports(child, lazy=lazy or inner)


@cache
def file_of(module: str) -> str | None:
    """Return the file of one of our modules; None for others."""
    first, *rest = module.split(".")
    if first != "band_trio":
        return None
    stem = "/".join(rest)
    candidates = (f"{stem}.py", f"{stem}/__init__.py") if stem else ("__init__.py",)
    return next((name for name in candidates if (ROOT / name).exists()), None)


def part_of(name: str) -> str:
    """Return the part of the house that a file belongs to."""
    folder, _, file = name.rpartition("/")
    return folder or file.removesuffix(".py").replace("__init__", "")


def allowed(part: str) -> set[str]:
    if part in BESIDE:
        return BESIDE[part] | {part}
    for height, layer in enumerate(LAYERS):
        if part in layer:
            below = set().union(*LAYERS[:height])
            return below | {part} | (set(BESIDE) if part in MAY_USE_BESIDE else set())
    raise AssertionError(f"{part!r} has no place in the house: add it to LAYERS")


def reach(name: str) -> dict[str, tuple[str, ...]]:
    """Return every module that importing a file brings in, with the way there."""
    found: dict[str, tuple[str, ...]] = {}
    waiting: list[tuple[str, tuple[str, ...]]] = [(name, (name,))]
    while waiting:
        current, way = waiting.pop()
        for each in imports(current):
            if each.module in found:
                continue
            found[each.module] = (*way, each.module)
            target = file_of(each.module)
            if target is not None:
                waiting.append((target, (*way, each.module)))
    return found


EVERY_FILE: Final = for_each("name", names())


# --------------------------------------------------------------------------- imports


@EVERY_FILE
def test_arrows_point_down(name: str) -> None:
    part = part_of(name)
    for each in imports(name):
        target = file_of(each.module)
        if target is None:
            continue
        assert part_of(target) in allowed(part), f"{name}:{each.line} → {each.module}"


@EVERY_FILE
def test_libraries_have_one_door(name: str) -> None:
    for each in imports(name):
        library = each.module.split(".")[0]
        doors = DOORS.get(library)
        if doors is None:
            continue
        through = any(name == door or (door[-1] == "/" and name.startswith(door)) for door in doors)
        assert through, f"{name}:{each.line} imports {library}"


def pure_files() -> list[str]:
    return [
        name
        for name in names()
        if name.startswith(("protocol/", "localband/world", "stores/"))
        or name in {"errors.py", "kit/hygiene.py", "kit/leaves.py", "kit/backoff.py"}
    ]


@for_each("name", pure_files())
def test_the_pure_parts_reach_no_io(name: str) -> None:
    """Not even through another module of ours: they run without a loop and without a clock."""
    for module, way in reach(name).items():
        assert module.split(".")[0] not in PURE, " → ".join(way)
        assert file_of(module) != "__init__.py", " → ".join(way)


def test_no_file_needs_itself_by_any_way() -> None:
    """Imports for types and those inside functions count: a circle is one idea in two files."""
    above: dict[str, set[str]] = {name: set() for name in names()}
    for name in names():
        for each in imports(name):
            if (target := file_of(each.module)) is not None:
                above[target].add(name)
    needs = dict.fromkeys(above, 0)
    for users in above.values():
        for user in users:
            needs[user] += 1
    free = [name for name, count in needs.items() if not count]
    while free:
        for user in above[free.pop()]:
            needs[user] -= 1
            if not needs[user]:
                free.append(user)
    assert [name for name, count in needs.items() if count] == []


def test_the_map_of_the_runtime_names_every_module() -> None:
    chart = (ast.get_docstring(tree("runtime/__init__.py")) or "").partition("What runs inside")[0]
    modules = {Path(name).stem for name in names() if name.startswith("runtime/")} - {"__init__"}
    assert modules <= set(re.findall(r"\w+", chart))


# --------------------------------------------------------------------------- size


@EVERY_FILE
def test_files_and_functions_are_small(name: str) -> None:
    lines = len((ROOT / name).read_text(encoding="utf-8").splitlines())
    assert lines <= LONGER.get(name, MAX_LINES), f"{name} has {lines} lines"
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_FUNCTION, f"{name}:{node.lineno} {node.name} has {length} lines"


# --------------------------------------------------------------------------- public names


def public() -> list[str]:
    return list(getattr(band_trio, "__all__", ()))


def test_the_public_names_are_there_once() -> None:
    assert len(set(public())) == len(public())
    for name in public():
        assert hasattr(band_trio, name), name


@for_each("name", public())
def test_every_public_name_is_documented_and_typed(name: str) -> None:
    value = getattr(band_trio, name)
    if isinstance(value, types.UnionType):
        assert name in documented_aliases(), f"{name} has no text below its definition"
        return
    assert inspect.isclass(value) or inspect.isfunction(value), f"{name}: test it here as well"
    _check_documented(name, value)
    _check_typed(name, value)


@cache
def documented_aliases() -> frozenset[str]:
    """Return the names of the modules' own values that a text follows, as those of types."""
    found = set[str]()
    for name in names():
        for value, text in pairwise(tree(name).body):
            match value, text:
                case ast.Assign(targets=[ast.Name(id=alias)]), ast.Expr(ast.Constant(str())):
                    found.add(alias)
    return frozenset(found)


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a class's own public methods and properties, as functions."""
    if not inspect.isclass(value):
        return
    for cls in value.__mro__:
        if not cls.__module__.startswith("band_trio"):
            continue
        for name, member in vars(cls).items():
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if not name.startswith("_") and inspect.isfunction(function):
                yield f"{cls.__name__}.{name}", function


def _check_documented(name: str, value: Any) -> None:
    doc = inspect.getdoc(value) if inspect.isfunction(value) else value.__doc__
    generated = f"{name}("  # what dataclasses and enums write themselves
    assert doc, f"{name} has no docstring"
    assert not doc.startswith(generated), f"{name} has no docstring of its own"
    for member, function in _members(value):
        assert function.__doc__, f"{member} has no docstring"


def _check_typed(name: str, value: Any) -> None:
    functions = [(name, value)] if inspect.isfunction(value) else list(_members(value))
    for member, function in functions:
        for parameter in inspect.signature(function).parameters.values():
            if parameter.name not in ("self", "cls"):
                assert parameter.annotation is not parameter.empty, f"{member}({parameter.name})"
        returned = inspect.signature(function).return_annotation
        assert returned is not inspect.Signature.empty, f"{member} -> ?"


# --------------------------------------------------------------------------- what an import costs


def test_importing_brings_in_no_extra() -> None:
    extras = ["starlette", "hypercorn", "rich", "openai", "anthropic", "pydantic", "pytest", "mcp"]
    code = (
        # Where click is installed, httpx loads a command line of its own, and rich with it.
        "import sys; sys.modules['click'] = None\n"
        "import importlib\n"
        "for module in 'band_trio', 'band_trio.cli', 'band_trio.testing':\n"
        "    importlib.import_module(module)\n"
        f"    found = {set(extras)!r} & {{name.split('.')[0] for name in sys.modules}}\n"
        "    assert not found, f'{module} brings in {found}'"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT.parent,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_importing_configures_no_logging() -> None:
    import logging

    handlers = logging.getLogger("band_trio").handlers
    assert all(isinstance(handler, logging.NullHandler) for handler in handlers)

"""The README says what is true: its programs run, its tables mirror the code."""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from io import StringIO
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

import band_trio
from band_trio import (
    Agent,
    BandError,
    Capability,
    SessionConfig,
    ToolCategory,
)
from band_trio.cli.app import make_parser
from band_trio.cli.demo import Demo
from band_trio.config.endpoints import DEFAULT_REST_URL
from band_trio.entry.console import Console
from band_trio.localband import LocalAgent, LocalBand, open_local_band
from band_trio.testing import (
    ScriptedModel,
    ScriptedServer,
    TextTurn,
    ToolTurn,
    open_scripted_anthropic,
    open_scripted_openai,
)
from band_trio.tools.catalogue import TOOL_DEFINITIONS
from tests.guarantees import GUARANTEES
from tests.support.for_each import for_each

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def table(heading: str, number: int = 0) -> list[list[str]]:
    """Return the rows of a table in a section, without its head."""
    section = README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    tables = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)
    rows = [line.rstrip("\n")[1:-1].split("|") for line in tables[number].splitlines(keepends=True)]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def names(text: str) -> list[str]:
    """Return what stands in backticks."""
    return re.findall(r"`([^`]+)`", text)


def program(path: Path) -> str:
    """Return an example without its comments at the top."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return "".join(lines[start:])


# --------------------------------------------------------------------------- the first screen


def test_the_first_screen_holds_exactly_two_set_up_commands() -> None:
    first_screen = "\n".join(README.splitlines()[:25])
    commands = re.findall(r"^```bash\n(.*?)^```", first_screen, re.MULTILINE | re.DOTALL)

    assert len(commands) == 2 == len(blocks("bash"))
    demo, tests = commands
    for command in commands:
        assert command.count("\n") == 1
        assert command.startswith("python3.11 -m venv .venv && .venv/bin/pip install ")
    assert demo.rstrip().endswith(".venv/bin/band-trio demo")
    assert tests.rstrip().endswith(".venv/bin/python -m pytest -q -n auto")


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 265


def test_what_it_links_to_exists() -> None:
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", README)

    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


# --------------------------------------------------------------------------- programs


def test_the_agent_is_the_first_example_and_has_at_most_twelve_lines() -> None:
    agent = blocks("python")[0]

    assert agent == program(ROOT / "examples" / "01_echo.py")
    assert len(agent.splitlines()) <= 12


@for_each("number", range(1, len(blocks("python"))))
def test_each_program_runs(number: int) -> None:
    # The first one, and what the others do once they run, is seen in tests/test_entry.py.
    exec(compile(blocks("python")[number], f"README, program {number}", "exec"), {})


Open = Callable[[ScriptedModel], AbstractAsyncContextManager[ScriptedServer]]


def model_program(name: str) -> str:
    """Return the program that defines the adapter *name*."""
    [found] = [
        block for block in blocks("python") if re.search(rf"^{name} = ", block, re.MULTILINE)
    ]
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The model .* is deprecated")  # as time goes by
@for_each(
    ("name", "open_model", "offered"),
    [
        ("claude", open_scripted_anthropic, set()),
        ("qwen", open_scripted_openai, set()),
        ("gpt", open_scripted_openai, {"band_store_memory", "band_list_contacts"}),
    ],
)
async def test_each_program_for_a_model_answers(
    name: str, open_model: Open, offered: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ToolTurn("band_send_message", {"content": "Good day.", "mentions": ["@your-name"]})
    model = ScriptedModel([call, TextTurn("done")])
    async with open_model(model) as server, open_local_band(user_name="Your Name") as band:
        source = model_program(name)
        if name == "qwen":
            assert "http://127.0.0.1:11434/v1" in source
        source = source.replace("http://127.0.0.1:11434/v1", server.base_url)
        for who in ("OPENAI", "ANTHROPIC"):
            monkeypatch.setenv(f"{who}_API_KEY", server.api_key)
            monkeypatch.setenv(f"{who}_BASE_URL", server.base_url)
        program: dict[str, Any] = {}
        exec(compile(source, f"README, {name}", "exec"), program)
        said = await _said(band, band.register_agent(name), program[name])

    assert said.endswith(" Good day.")
    assert model.violations == []
    assert model.requests[0]["model"] in source
    names_of_tools = {each.get("function", each)["name"] for each in model.requests[0]["tools"]}
    assert names_of_tools >= offered
    assert bool(offered) == ("band_store_memory" in names_of_tools)


async def _said(band: LocalBand, account: LocalAgent, adapter: Any) -> str:
    """Run an adapter until it has dealt with a message, and return what it says."""
    room = await band.user.create_room(members=[account])
    options = band.connection(account, single_instance=False)
    with trio.fail_after(40):
        async with Agent.create(adapter=adapter, **options):
            message = await band.user.send(room, "hello", mentions=[account])
            await band.until(lambda: band.state(message, account) == "processed")
    [said] = [
        row["content"]
        for row in await band.user.messages(room)
        if row["sender_id"] == account.id and row["message_type"] == "text"
    ]
    assert isinstance(said, str)
    return said


def test_each_extra_that_is_named_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = set(re.findall(r"band-trio\[([a-z-]+)\]", README))
    named |= set(re.findall(r"extra\s`([a-z-]+)`", README))

    assert named >= {"anthropic", "openai", "pydantic-ai", "mcp"}
    assert named <= project["optional-dependencies"].keys()


@pytest.mark.slow
async def test_the_transcript_is_what_the_demo_writes(autojump_clock: MockClock) -> None:
    stream = StringIO()
    await Demo(Console(stream), memory=True).run()
    time = re.compile(r"^ *\d+\.\d\d  ")
    written = {time.sub("", line) for line in stream.getvalue().splitlines()}
    shown = [time.sub("", line) for line in blocks("text")[0].splitlines()]

    assert len(shown) > 8
    assert [line for line in shown if line not in written] == []


# --------------------------------------------------------------------------- tables


def test_the_table_of_errors_is_complete() -> None:
    listed = [names(row[0])[0] for row in table("Errors")]
    public = {
        name
        for name in band_trio.__all__
        if isinstance(value := getattr(band_trio, name), type) and issubclass(value, BandError)
    }

    assert set(listed) == public - {"BandError"}
    assert len(listed) == len(set(listed))


def test_the_table_of_tools_is_complete() -> None:
    rows = table("Tools")
    listed = {(names(row[0]) or ["CHAT"])[0]: names(row[1]) for row in rows}
    there: dict[str, list[str]] = {category.name: [] for category in ToolCategory}
    for tool in TOOL_DEFINITIONS.values():
        assert tool.name == f"band_{tool.method_name}"
        assert tool.category is not None
        there[tool.category.name].append(tool.method_name)

    assert listed == there
    assert listed.keys() - {"CHAT"} == {capability.name for capability in Capability}


def test_the_table_of_variables_is_complete() -> None:
    listed = {names(row[0])[0] for row in table("Against the real service")}
    code = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "band_trio").rglob("*.py"))
    in_code = set(re.findall(r'"(BAND_[A-Z_]*[A-Z])"', code))
    options = {f"BAND_{field.name.upper()}" for field in attrs.fields(SessionConfig)}

    assert listed - options == in_code - options
    assert listed & options
    defaults = {names(row[0])[0]: row[1] for row in table("Against the real service")}
    assert defaults["BAND_REST_URL"] == f"`{DEFAULT_REST_URL}`"


def test_the_table_of_commands_is_complete() -> None:
    rows = table("Against the real service", 1)
    actions = make_parser()._subparsers
    assert actions is not None
    subparsers = actions._group_actions[0]
    assert isinstance(subparsers, argparse._SubParsersAction)
    known = subparsers.choices

    assert [names(row[0])[0] for row in rows] == [f"band-trio {name}" for name in known]
    for row in rows:
        options = known[names(row[0])[0].split()[1]].format_help()
        for option in (name for name in names(row[1]) if name.startswith("--")):
            assert option in options


def test_each_claim_has_a_test() -> None:
    proven = GUARANTEES.proofs()
    claims = table("What happens when …")

    assert len(claims) >= 8
    for row in claims:
        numbers = {int(number) for number in re.findall(r"\d+", row[3])}
        assert numbers, row
        assert numbers <= proven.keys(), row


def test_the_figures_are_those_of_the_benchmarks() -> None:
    measured = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")

    for row in table("Numbers"):
        assert f"| {' | '.join(row)} |" in measured


def test_each_benchmark_is_listed() -> None:
    listed = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    programs = {
        path.stem
        for path in (ROOT / "benchmarks").glob("*.py")
        if "argparse.ArgumentParser" in path.read_text(encoding="utf-8")
    }

    assert set(re.findall(r"^\| `python -m benchmarks\.(\w+)`", listed, re.MULTILINE)) == programs


def test_what_troubleshooting_quotes_is_said_by_the_code() -> None:
    code = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "band_trio").rglob("*.py"))

    for row in table("Troubleshooting"):
        assert names(row[0])[0] in code.replace("`", "")


# --------------------------------------------------------------------------- what is missing

MISSING = README.partition("\n## What is not there yet\n")[2].partition("\n## ")[0]


def test_what_is_said_to_be_missing_is_missing() -> None:
    actions = make_parser()._subparsers
    assert actions is not None
    assert "`band-trio doctor`" in MISSING
    assert "doctor" not in (actions._group_actions[0].choices or ())

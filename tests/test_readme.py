"""The README says what is true: its programs run, its tables mirror the code."""

from __future__ import annotations

import argparse
import re
from io import StringIO
from pathlib import Path

import attrs
import pytest
from trio.testing import MockClock

import band_trio
from band_trio import BandError, SessionConfig
from band_trio.cli.app import make_parser
from band_trio.cli.console import Console
from band_trio.cli.demo import Demo
from band_trio.endpoints import DEFAULT_REST_URL

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
    assert tests.rstrip().endswith(".venv/bin/python -m pytest -q")


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 250


def test_what_it_links_to_exists() -> None:
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", README)

    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


# --------------------------------------------------------------------------- programs


def test_the_agent_is_the_first_example_and_has_at_most_twelve_lines() -> None:
    agent = blocks("python")[0]

    assert agent == program(ROOT / "examples" / "01_echo.py")
    assert len(agent.splitlines()) <= 12


@pytest.mark.parametrize("number", range(1, len(blocks("python"))))
def test_each_program_runs(number: int) -> None:
    # The first one is run by the tests of the examples.
    exec(compile(blocks("python")[number], f"README, program {number}", "exec"), {})


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
    tests = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "tests").rglob("test_*.py"))
    proven = {
        number
        for name in re.findall(r"def test_((?:g\d\d_)+)", tests)
        for number in re.findall(r"g\d\d", name)
    }
    claims = table("What happens when …")

    assert len(claims) >= 8
    for row in claims:
        numbers = re.findall(r"g\d\d", row[3])
        assert numbers, row
        assert set(numbers) <= proven, row


def test_the_figures_are_those_of_the_benchmarks() -> None:
    measured = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")

    for row in table("Numbers"):
        assert f"| {' | '.join(row)} |" in measured


def test_what_troubleshooting_quotes_is_said_by_the_code() -> None:
    code = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "band_trio").rglob("*.py"))

    for row in table("Troubleshooting"):
        assert names(row[0])[0] in code.replace("`", "")

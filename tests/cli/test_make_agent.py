"""From a target, options, environment and file to an agent."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import pytest

from band_trio import Agent, BandConfigError
from band_trio.adapters import EchoAdapter
from band_trio.cli.app import make_parser
from band_trio.cli.loading import load_target
from band_trio.cli.run import given_by, make_agent
from band_trio.entry.identity import find_credentials
from band_trio.entry.running import start_lines
from tests.support.for_each import for_each


def options(*arguments: str, target: str = "made_up:echo") -> argparse.Namespace:
    """Parse a command line of `run`."""
    return make_parser().parse_args(["run", target, *arguments])


def credentials(given: argparse.Namespace, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return id and key as `run` finds them."""
    return find_credentials(given_by(given), environ)


IN_ENV: Mapping[str, str] = {"BAND_AGENT_ID": "env-id", "BAND_API_KEY": "env-key"}
FILE = """
echo: {agent_id: echo-id, api_key: echo-key}
other: {agent_id: other-id, api_key: other-key}
"""


@pytest.fixture
def file(place: Path) -> Path:
    """A file with two agents in the working directory."""
    path = place / "agent_config.yaml"
    path.write_text(FILE)
    return path


def test_options_come_before_the_environment_and_the_file(file: Path) -> None:
    given = options("--agent-id", "opt-id", "--api-key", "opt-key")

    assert credentials(given, IN_ENV) == ("opt-id", "opt-key")


def test_the_environment_comes_before_the_file_that_nobody_named(file: Path) -> None:
    assert credentials(options(), IN_ENV) == ("env-id", "env-key")


def test_the_file_gives_what_is_missing(file: Path) -> None:
    assert credentials(options(), {}) == ("echo-id", "echo-key")
    assert credentials(options(), {"BAND_API_KEY": "env-key"}) == ("echo-id", "env-key")


def test_the_entry_is_named_by_the_attribute(file: Path) -> None:
    assert credentials(options(target="made_up:Nest.other"), {})[0] == "other-id"


def test_a_file_or_entry_that_is_named_comes_before_the_environment(file: Path) -> None:
    assert credentials(options("--name", "other"), IN_ENV) == ("other-id", "other-key")
    file.rename(file.with_name("mine.yaml"))
    assert credentials(options("--config", "mine.yaml"), IN_ENV)[0] == "echo-id"


def test_blank_variables_count_as_missing(place: Path) -> None:
    with pytest.raises(BandConfigError, match=r"no agent id .* and no API key"):
        credentials(options(), {"BAND_AGENT_ID": " ", "BAND_API_KEY": ""})


@for_each("target", ["made_up:echo", "made_up:EchoAdapter", "made_up:make"])
def test_a_target_is_an_instance_a_class_or_a_factory(
    place: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.syspath_prepend(str(place))

    assert type(load_target(target)).__name__ == "EchoAdapter"


def test_an_agent_is_taken_as_it_is(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(place))
    found = load_target("made_up:agent")

    assert isinstance(found, Agent)
    agent = make_agent(found, options("--patience", "7"), {})
    assert agent.settings.config.start_patience_seconds == 7
    assert agent.settings.credentials == found.settings.credentials
    assert make_agent(found, options(), {}).settings == found.settings


def test_a_bad_configuration_of_the_application_is_told_as_such(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(place))
    (place / "wrong.py").write_text(
        "from band_trio import BandConfigError\ndef make(): raise BandConfigError('no colour')\n"
    )

    with pytest.raises(BandConfigError, match="no colour"):
        load_target("wrong:make")


def test_urls_and_patience_reach_the_agent(place: Path) -> None:
    given = options("--rest-url", "http://127.0.0.1:7", "--patience", "2.5")
    agent = make_agent(EchoAdapter(), given, IN_ENV)

    assert agent.settings.endpoints.rest_url == "http://127.0.0.1:7"
    assert agent.settings.endpoints.ws_url.startswith("ws://127.0.0.1:7/")
    assert agent.settings.config.start_patience_seconds == 2.5


def test_beyond_loopback_plain_text_must_be_asked_for(place: Path) -> None:
    given = options("--rest-url", "http://band.example", "--allow-insecure")

    agent = make_agent(EchoAdapter(), given, IN_ENV)

    assert agent.settings.endpoints.rest_url == "http://band.example"


def test_the_start_log_names_the_tools_and_never_the_key() -> None:
    agent = make_agent(EchoAdapter(include_tools=["band_no_reply"]), options(), IN_ENV)
    text = "\n".join(start_lines(agent))

    assert "tools band_no_reply\n" in text
    assert "env-id" in text
    assert "env-key" not in text
    assert len(start_lines(agent)) <= 5  # and one before it is connected

"""Bad input: one line that says what is wrong, an exit code, no traceback, never the key."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from band_trio.entry.exits import Exit
from tests.cli.conftest import Outcome
from tests.marks import case, guarantee
from tests.support.for_each import for_each

Cli = Callable[..., Outcome]
KEY = "thnv_a_very_secret_key"
KNOWN = ("--agent-id", "a1", "--api-key", KEY)
NOBODY = "http://127.0.0.1:1"
"""A port that nothing listens on."""


@for_each(
    ("arguments", "words"),
    [
        ((), ["command", "band-trio --help"]),
        (("dance",), ["'dance'", "demo", "serve", "run"]),
        (("run",), ["module:attribute"]),
        (("serve", "--port", "65536"), ["'65536'", "0 to 65535"]),
        (("serve", "--port", "-1"), ["--port"]),
        (("run", "made_up:echo", "--patience", "0"), ["--patience", "more than 0"]),
        (("run", "made_up:echo", "--patience", "nan"), ["'nan'", "seconds"]),
        (("run", "made_up:echo", "--grace", "-1"), ["--grace"]),
        (("run", "made_up"), ["'made_up'", "module:attribute"]),
        (("run", "made_up.py:echo"), ["did you mean made_up:echo?"]),
        (("run", "./made_up.py"), ["did you mean made_up:…?"]),
        (("run", "nowhere:echo"), ["no module 'nowhere'"]),
        (("run", "made_up.deeper:echo"), ["made_up.deeper"]),
        (("run", "made_up:ecko"), ["no attribute 'ecko'", "It has:", "echo"]),
        (("run", "made_up:number"), ["neither an adapter nor an Agent", "int"]),
        (("run", "made_up:make_nothing"), ["neither an adapter", "NoneType"]),
        (("run", "made_up:late"), ["async function"]),
        (("run", "made_up:agent", "--rest-url", NOBODY, "--name", "x"), ["--name, --rest-url"]),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_usage_errors_are_one_line_and_exit_2(
    cli: Cli, arguments: tuple[str, ...], words: list[str]
) -> None:
    ended = cli(*arguments)

    assert ended.code == Exit.USAGE
    for word in words:
        assert word in ended.complaint


@for_each(
    ("target", "words"),
    [
        ("needy:x", ["importing 'needy'", "not_there_at_all"]),
        ("torn:x", ["importing 'torn'", "SyntaxError", "line 1"]),
        ("made_up:explode", ["made_up:explode", "RuntimeError: no fuel"]),
        ("made_up:NeedsMore", ["without arguments", "colour"]),
    ],
)
def test_errors_of_the_application_are_one_line_and_exit_1(
    cli: Cli, target: str, words: list[str]
) -> None:
    ended = cli("run", target)

    assert ended.code == Exit.FAILED
    for word in words:
        assert word in ended.complaint


def test_all_missing_items_are_named_in_one_message(cli: Cli) -> None:
    ended = cli("run", "made_up:echo")

    assert ended.code == Exit.USAGE
    for word in ("agent id", "API key", "BAND_AGENT_ID", "BAND_API_KEY", "agent_config.yaml"):
        assert word in ended.complaint
    assert "band-trio demo" in ended.complaint


def test_a_missing_key_alone_is_named_alone(cli: Cli) -> None:
    complaint = cli("run", "made_up:echo", "--agent-id", "a1").complaint

    assert "no API key" in complaint
    assert "no agent id" not in complaint


def test_a_missing_key_is_named_although_there_is_a_file(cli: Cli, place: Path) -> None:
    (place / "agent_config.yaml").write_text("other: {agent_id: x, api_key: y}\n")
    complaint = cli("run", "made_up:echo", "--agent-id", "a1").complaint

    assert "no API key (BAND_API_KEY)" in complaint
    assert "no agent id" not in complaint
    assert "no agent 'echo'" in complaint


def test_a_key_that_cannot_be_sent_is_named_and_not_shown(cli: Cli) -> None:
    ended = cli("run", "made_up:echo", "--agent-id", "a1", "--api-key", "schlüssel-nummer-1")

    assert ended.code == Exit.USAGE
    assert "api_key must be printable ASCII" in ended.complaint
    assert "schl" not in ended.err


@for_each(
    ("text", "words"),
    [
        ("echo: [1\n", ["agent_config.yaml is not valid YAML", "line"]),
        ("just text\n", ["mapping"]),
        ("other: {agent_id: x, api_key: y}\n", ["no agent 'echo'", "It has: other"]),
        ("echo: {agent_id: x}\n", ["'echo' lacks api_key"]),
        (f"echo: [{KEY}\n", ["not valid YAML"]),
    ],
)
def test_a_bad_file_is_one_line(cli: Cli, place: Path, text: str, words: list[str]) -> None:
    (place / "agent_config.yaml").write_text(text)

    ended = cli("run", "made_up:echo")

    assert ended.code == Exit.USAGE
    for word in words:
        assert word in ended.complaint
    assert KEY not in ended.err


def test_a_file_that_is_named_must_exist(cli: Cli) -> None:
    ended = cli("run", "made_up:echo", "--config", "elsewhere.yaml")

    assert ended.code == Exit.USAGE
    assert "elsewhere.yaml does not exist" in ended.complaint


@for_each("option", ["--rest-url", "--ws-url"])
def test_plain_text_beyond_this_machine_is_refused(cli: Cli, option: str) -> None:
    url = {"--rest-url": "http://band.example", "--ws-url": "ws://band.example/x"}[option]
    ended = cli("run", "made_up:echo", *KNOWN, option, url)

    assert ended.code == Exit.USAGE
    assert "band.example" in ended.complaint
    assert "not encrypted" in ended.complaint
    assert "or --allow-insecure in" in ended.complaint
    assert KEY not in ended.err


@pytest.mark.slow
def test_an_unreachable_platform_is_a_warning_at_once_and_an_error_after_the_patience(
    cli: Cli, caplog: pytest.LogCaptureFixture
) -> None:
    ended = cli("run", "made_up:echo", *KNOWN, "--rest-url", NOBODY, "--patience", "0.5")

    assert ended.code == Exit.FAILED
    assert ended.complaint.count(NOBODY) == 1
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    seen, unreachable = warnings
    assert "--api-key" in seen  # once: others see the list of processes
    assert unreachable.count(NOBODY) == 1
    assert KEY not in ended.err + caplog.text


class _Website(BaseHTTPRequestHandler):
    """Answers everything with a page; the first part of the path is the status."""

    def do_GET(self) -> None:
        self.send_response(int(self.path.split("/")[1]))
        self.send_header("Location", "https://elsewhere.example/")
        self.end_headers()
        self.wfile.write(b"<html>Welcome</html>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        pass


@pytest.fixture
def website() -> Generator[str]:
    """A server that is no platform; give its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Website) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


@for_each("status", [200, 302, 404])
def test_a_url_that_is_not_band_is_named(cli: Cli, website: str, status: int) -> None:
    url = f"http://{website}/{status}"
    ended = cli("run", "made_up:echo", *KNOWN, "--rest-url", url, "--ws-url", f"ws://{website}/x")

    assert ended.code == Exit.FAILED
    last = ended.err.splitlines()[-1]
    assert last.count(url) == 1
    assert "no Band platform answers" in last
    assert str(status) in last


@pytest.mark.slow
def test_a_url_without_tls_is_named(cli: Cli, website: str) -> None:
    url = f"https://{website}"
    ended = cli("run", "made_up:echo", *KNOWN, "--rest-url", url, "--patience", "1")

    assert ended.code == Exit.FAILED
    last = ended.err.splitlines()[-1]
    assert last.count(url) == 1
    assert "no Band platform answers" in last


@pytest.mark.slow
def test_an_agent_takes_the_patience_of_the_command_line(cli: Cli, place: Path) -> None:
    text = (place / "made_up.py").read_text()
    (place / "made_up.py").write_text(text.replace('"a1",', f'"a1", rest_url={NOBODY!r},'))

    ended = cli("run", "made_up:agent", "--patience", "0.3")

    assert ended.code == Exit.FAILED
    assert NOBODY in ended.complaint


def test_a_traceback_is_shown_on_demand_without_the_key(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "not-of-the-usual-shape"
    monkeypatch.setenv("BAND_API_KEY", key)

    short, long = cli("run", "made_up:leak"), cli("run", "made_up:leak", "--debug")

    assert "RuntimeError" in short.complaint
    assert "Traceback" in long.err
    assert "in leak" in long.err
    assert key not in short.err + long.err


# --------------------------------------------------------------------------- settings of the way


PASSWORD = "pa55w0rd-of-the-proxy"
SETTINGS = [
    ("BAND_REST_URL", "https://xn--a"),
    ("BAND_REST_URL", "https://a..b"),
    ("BAND_REST_URL", f"https://bob:{PASSWORD}@h.test"),
    ("BAND_WS_URL", "wss://a..b/x"),
    ("HTTPS_PROXY", "socks5://h:1"),
    ("HTTPS_PROXY", f"socks5://bob:{PASSWORD}@h:1"),
    ("HTTPS_PROXY", "ftp://h"),
    ("HTTPS_PROXY", "127.0.0.1:7890"),
    ("HTTPS_PROXY", f"bob:{PASSWORD}@h:1"),
    ("ALL_PROXY", f"http://bob:{PASSWORD}@h:x\x1b[31m\nno"),
    ("SSL_CERT_FILE", f"/nowhere/{PASSWORD}"),
    ("SSL_CERT_DIR", f"/nowhere/{PASSWORD}"),
]


@guarantee(87)
@case("C69")
@for_each(("variable", "value"), SETTINGS)
def test_a_setting_that_cannot_be_used_is_named_with_a_remedy(
    cli: Cli, variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as environ:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
            environ.delenv(name, raising=False)
            environ.delenv(name.lower(), raising=False)
        environ.setenv("BAND_REST_URL", "https://band.test")
        environ.setenv("BAND_AGENT_ID", "a1")
        environ.setenv("BAND_API_KEY", KEY)
        environ.setenv(variable, value)
        ended = cli("run", "made_up:echo", "--patience", "1")
        debugged = cli("run", "made_up:echo", "--patience", "1", "--debug")

    assert (ended.code, debugged.code) == (Exit.USAGE, Exit.USAGE)
    assert ended.complaint.startswith(f"band-trio: {variable} ")
    assert ended.complaint.endswith(".")
    for each in (ended, debugged):
        for secret in (PASSWORD, KEY):
            assert secret not in each.err + each.out

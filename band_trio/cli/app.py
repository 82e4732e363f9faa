"""The command line: what can be asked for, and the boundary where errors become one line."""

from __future__ import annotations

import argparse
import logging
import math
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from band_trio.cli import texts
from band_trio.cli.errors import CliError
from band_trio.entry import log
from band_trio.entry import texts as entry_texts
from band_trio.entry.boundary import bare_program_ends, describe, exit_code, tell
from band_trio.entry.exits import Exit


class _Parser(argparse.ArgumentParser):
    """Answers a wrong command line with one line."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"band-trio: {texts.try_help(message, self.prog)}\n")
        raise SystemExit(Exit.USAGE)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line *argv* and return the exit code.

    Raises:
        SystemExit: the command line is wrong, or code of the application asks for the end.
    """
    options = make_parser().parse_args(argv)
    _set_up_logging(options)
    try:
        with bare_program_ends():
            code: Exit = options.command(options)
    except KeyboardInterrupt:
        return _fail(entry_texts.INTERRUPTED, Exit.FORCED, options)
    except CliError as exc:
        return _fail(str(exc), exc.code, options, exc.__cause__)
    except Exception as exc:  # noqa: BLE001 - the boundary to the person, who reads it
        text = texts.for_the_command_line(describe(exc))
        return _fail(text, exit_code(exc), options, exc)
    return code


def _fail(
    text: str,
    code: Exit,
    options: argparse.Namespace,
    error: BaseException | None = None,
) -> int:
    secrets = getattr(options, "api_key", None), os.environ.get("BAND_API_KEY")
    tell(text, secrets, error if options.debug else None)
    return code


def _set_up_logging(options: argparse.Namespace) -> None:
    level = options.level
    if options.verbose or options.debug:
        level = logging.DEBUG if options.debug else logging.INFO
    if not log.is_set_up():
        log.add_handler()
    log.set_levels(level)


# --------------------------------------------------------------------------- the parser


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _Parser(prog="band-trio", description=texts.DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"band-trio {version('band-trio')}")
    commands = parser.add_subparsers(metavar="command", required=True)
    _add_demo(_add(commands, "demo", texts.HELP_DEMO, texts.LONG_DEMO))
    _add_serve(_add(commands, "serve", texts.HELP_SERVE, texts.LONG_SERVE))
    _add_run(_add(commands, "run", texts.HELP_RUN, texts.LONG_RUN, texts.RUN_EPILOG))
    return parser


def _add(commands: Any, name: str, short: str, long: str, epilog: str = "") -> Any:
    parser = commands.add_parser(
        name,
        help=short,
        description=long,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter if epilog else argparse.HelpFormatter,
    )
    parser.add_argument("-v", "--verbose", action="store_true", help=texts.ARG_VERBOSE)
    parser.add_argument("--debug", action="store_true", help=texts.ARG_DEBUG)
    parser.set_defaults(level=logging.WARNING)
    return parser


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scene", choices=["contacts"], help=texts.ARG_SCENE)
    parser.add_argument("--keep", action="store_true", help=texts.ARG_KEEP)
    # What fails in the demo fails on purpose, and is shown as it happens.
    parser.set_defaults(command=_demo, level=logging.CRITICAL)


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=_port, default=0, metavar="N", help=texts.ARG_PORT)
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help=texts.ARG_HOST)
    parser.add_argument("--allow-remote", action="store_true", help=texts.ARG_ALLOW_REMOTE)
    parser.add_argument("--seed", metavar="FILE", help=texts.ARG_SEED)
    parser.add_argument("--json", action="store_true", help=texts.ARG_JSON)
    parser.set_defaults(command=_serve)


def _add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("target", metavar="module:attribute", help=texts.ARG_TARGET)
    add("--agent-id", metavar="ID", help=texts.ARG_AGENT_ID)
    add("--api-key", metavar="KEY", help=texts.ARG_API_KEY)
    add("--config", metavar="PATH", help=texts.ARG_CONFIG)
    add("--name", help=texts.ARG_NAME)
    add("--rest-url", metavar="URL", help=texts.ARG_REST_URL)
    add("--ws-url", metavar="URL", help=texts.ARG_WS_URL)
    add("--patience", type=_seconds, metavar="S", help=texts.ARG_PATIENCE)
    add("--grace", type=_grace, default=30.0, metavar="S", help=texts.ARG_GRACE)
    add("--allow-insecure", action="store_true", help=texts.ARG_INSECURE)
    parser.set_defaults(command=_run)


def _port(text: str) -> int:
    number = int(text) if text.isdecimal() and len(text) <= 5 else -1
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 0 to 65535")
    return number


def _grace(text: str) -> float:
    return _number(text, 0.0)


def _seconds(text: str) -> float:
    number = _number(text, 0.0)
    if not number:
        raise argparse.ArgumentTypeError("must be more than 0 seconds")
    return number


def _number(text: str, low: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (low <= number < math.inf):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return number


# --------------------------------------------------------------------------- the commands
# Imported on use: `run` works without the extra, and no command pays for the others.


def _demo(options: argparse.Namespace) -> Exit:
    from band_trio.cli.platform import demo

    return demo(options)


def _serve(options: argparse.Namespace) -> Exit:
    from band_trio.cli.platform import serve

    return serve(options)


def _run(options: argparse.Namespace) -> Exit:
    from band_trio.cli.run import run

    return run(options)

"""The commands with a platform of their own: demo and serve. They need the extra `local`."""

from __future__ import annotations

import argparse
from functools import partial
from ipaddress import ip_address

import trio

from band_trio.cli import texts
from band_trio.cli.errors import CliError
from band_trio.entry.console import Console
from band_trio.entry.exits import Exit
from band_trio.entry.signals import StopSignals, stop_signals
from band_trio.errors import BandConfigError
from band_trio.kit.leaves import leaf_errors
from band_trio.protocol.codec import dumps


def demo(options: argparse.Namespace) -> Exit:
    """Run `band-trio demo`."""
    _need_extra("demo")
    from band_trio.cli.demo import Demo
    from band_trio.cli.demo_contacts import ContactsDemo

    if options.scene == "contacts":  # seconds long: Ctrl-C just ends it
        return trio.run(ContactsDemo(Console()).run)
    with stop_signals() as signals:
        return signals.run(Demo(Console(), keep=options.keep, signals=signals).run)


def serve(options: argparse.Namespace) -> Exit:
    """Run `band-trio serve`."""
    _need_extra("serve")
    if not (options.allow_remote or _is_loopback(options.host)):
        raise CliError(texts.remote_host(options.host), Exit.USAGE)
    with stop_signals() as signals:
        try:
            return signals.run(partial(_serve, signals, options))
        except BandConfigError as exc:
            raise CliError(str(exc), Exit.USAGE) from None
        except (OSError, ExceptionGroup) as exc:
            for leaf in leaf_errors(exc):
                if isinstance(leaf, OSError):
                    reason = (leaf.strerror or str(leaf)).lower()
                    text = texts.port_taken(options.host, options.port, reason)
                    raise CliError(text, Exit.FAILED) from None
            raise


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _serve(signals: StopSignals, options: argparse.Namespace) -> Exit:
    from band_trio.localband import open_local_band

    console = Console()
    opened = open_local_band(host=options.host, port=options.port, seed=options.seed)
    async with trio.open_nursery() as nursery, opened as band:
        wait = await nursery.start(_first_signal, signals)
        if options.json:
            names = ("rest_url", "ws_url", "user_key")
            console.line(dumps({name: getattr(band, name) for name in names}).decode())
        else:
            for line in texts.serve_lines(band):
                console.line(line)
        await wait.wait()
    return Exit.OK


async def _first_signal(signals: StopSignals, *, task_status: trio.TaskStatus[trio.Event]) -> None:
    came = trio.Event()
    task_status.started(came)
    await signals.wait()
    came.set()


def _need_extra(command: str) -> None:
    try:
        import band_trio.localband  # noqa: F401 - to see whether its dependencies are there
    except ModuleNotFoundError as exc:
        if exc.name is not None and exc.name.startswith("band_trio"):
            raise
        raise CliError(texts.extra_missing(command, exc.name or "?"), Exit.FAILED) from None

"""Every text that somebody at a terminal reads from a program that runs an agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from band_trio.runtime.lifecycle import ShutdownReport

SECOND_SIGNAL: Final = "band-trio: second signal, ending at once\n"
INTERRUPTED: Final = "interrupted"
READY: Final = "ready; Ctrl-C to stop"

IN_A_THREAD: Final = (
    "band_trio.run handles signals, which Python does in the main thread only: call it there, or "
    "use trio.run(agent.run) in this one."
)
IN_A_RUN: Final = (
    "band_trio.run starts trio by itself, and trio is running already: use `await agent.run()`, "
    "`await nursery.start(agent.run)` or `async with agent:`."
)

# --------------------------------------------------------------------------- who the agent is

_NAMES: Final[Mapping[str, str]] = {"agent_id": "agent id", "api_key": "API key"}


def _needs(missing: Sequence[str], spelled: Callable[[str], str]) -> str:
    # The key is no option that anybody should be sent to: it would be in the code or in a list of
    # processes.
    ways = {"agent_id": f"{spelled('agent_id')} or BAND_AGENT_ID", "api_key": "BAND_API_KEY"}
    return "there is " + " and ".join(f"no {_NAMES[each]} ({ways[each]})" for each in missing)


def missing_credentials(missing: Sequence[str], path: str, spelled: Callable[[str], str]) -> str:
    """Name everything that is missing, where it comes from, and what works without."""
    return (
        f"{_needs(missing, spelled)}, and no {path}. Both are shown where the agent was created on "
        "the platform. To try without an account: band-trio demo"
    )


def missing_in_file(missing: Sequence[str], reason: str, spelled: Callable[[str], str]) -> str:
    """Say what is missing, and why the file did not help."""
    return f"{_needs(missing, spelled)}: {reason}"


def entry_not_named(reason: str, name: str) -> str:
    """Say how to choose an entry of the file, where none was named."""
    return f"{reason} Choose the entry with {name}."


def options_of_an_agent(what: str, options: Sequence[str]) -> str:
    """Refuse options that a finished Agent cannot take."""
    return f"{what} is an Agent, which has its own settings: leave out {', '.join(options)}"


# --------------------------------------------------------------------------- running


def stopping(signal: str, turns: int, grace: float) -> str:
    """Say what the first signal has begun."""
    running = "1 turn" if turns == 1 else f"{turns} turns"
    return f"stopping: {signal}, {running} running, up to {grace:g} s"


def stopped(report: ShutdownReport) -> str:
    """Say how an agent ended."""
    text = (
        f"stopped in {report.duration:.1f} s, {report.turns_finished} settled, "
        f"{report.turns_cancelled} abandoned"
    )
    return text + (f", {report.settles_pending} unconfirmed" if report.settles_pending else "")

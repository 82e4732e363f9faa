"""Every text that somebody at a terminal reads from the command `band-trio`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from band_trio.entry.texts import READY, stopped
from band_trio.runtime.lifecycle import ShutdownReport

if TYPE_CHECKING:
    from band_trio.localband import LocalAgent, LocalBand

# --------------------------------------------------------------------------- help

DESCRIPTION: Final = "Run agents on Band, or watch some on a platform inside this process."
HELP_DEMO: Final = "watch three agents at work; needs no account"
HELP_SERVE: Final = "run a platform on this machine to develop against"
HELP_RUN: Final = "run an agent"
LONG_DEMO: Final = (
    "Starts a platform on this machine, three agents and a person who follows a script; prints "
    "what happens, and what the records say in the end. Takes about ten seconds. The exit code is 0 "
    "only if no message was lost, repeated or out of order, or if the first Ctrl-C ended it in order."
)
LONG_SERVE: Final = (
    "Runs a platform on 127.0.0.1 until Ctrl-C, and prints its URLs and the key of a person who "
    "may register agents. Everything is kept in memory."
)
LONG_RUN: Final = (
    "Runs an adapter, or an Agent, until Ctrl-C. The first Ctrl-C lets running turns finish, the "
    "second one ends the process."
)
RUN_EPILOG: Final = """\
what is not given as an option is taken from the environment, then from the file:
  agent id   --agent-id   BAND_AGENT_ID   agent_id in agent_config.yaml
  API key    --api-key    BAND_API_KEY    api_key in agent_config.yaml
  URLs       --rest-url   BAND_REST_URL   (socket: --ws-url, BAND_WS_URL)
with --config or --name, id and key come from that file and not from the environment;
with --rest-url and no --ws-url, the socket's URL is derived and BAND_WS_URL is not read

exit codes: 0 graceful end, 1 error, 2 usage or configuration, 130 second
signal, or one before the start"""
ARG_TARGET: Final = (
    "module:attribute in the working directory or installed; an adapter, an Agent, a class, or a "
    "function without arguments that returns one"
)
ARG_AGENT_ID: Final = "id of the agent"
ARG_API_KEY: Final = "its key; other users of this machine may see it, BAND_API_KEY is better"
ARG_CONFIG: Final = "file with ids and keys (default: agent_config.yaml)"
ARG_NAME: Final = "entry of that file (default: the attribute's name)"
ARG_REST_URL: Final = "where the platform is"
ARG_WS_URL: Final = "its socket (default: derived from the REST URL)"
ARG_PATIENCE: Final = "how long to go on trying to reach the platform at the start (default: 120)"
ARG_GRACE: Final = "how long running turns may take after the first Ctrl-C (default: 30)"
ARG_INSECURE: Final = "permit http:// and ws:// beyond this machine"
ARG_PORT: Final = "port for REST and sockets; 0, the default, picks a free one"
ARG_HOST: Final = "address to listen on; 127.0.0.1 by default, others need --allow-remote"
ARG_ALLOW_REMOTE: Final = "listen where other machines reach it; keys travel unencrypted"
ARG_SEED: Final = "YAML file with people, agents, rooms and messages, their ids and keys fixed"
ARG_JSON: Final = "print one JSON object with rest_url, ws_url and user_key instead of text"
ARG_SCENE: Final = (
    "contacts: two agents of different people get to know each other, instead of the usual scenes"
)
ARG_KEEP: Final = "leave platform and agents running after the scenes, until Ctrl-C"
ARG_VERBOSE: Final = "also log what goes well"
ARG_DEBUG: Final = "log everything, and show the traceback of what ends the command"

# --------------------------------------------------------------------------- errors


def try_help(text: str, command: str) -> str:
    """Point to the help behind a usage error."""
    return f"{text.rstrip('.')}. See: {command} --help"


def for_the_command_line(text: str) -> str:
    """Name options of the command instead of those of the library."""
    return text.replace("AgentConfig(allow_insecure=True)", "--allow-insecure")


def extra_missing(command: str, module: str) -> str:
    """Say that the platform's own dependencies are not installed."""
    return (
        f"band-trio {command} needs the extra `local` ({module} is missing): "
        "pip install 'band-trio[local]'"
    )


def port_taken(host: str, port: int, reason: str) -> str:
    """Say that the platform cannot listen."""
    return f"cannot listen on {host}:{port}: {reason}. Choose others with --host and --port, or port 0."


def remote_host(host: str) -> str:
    """Refuse an address that others reach."""
    return (
        f"--host {host} is no loopback address: other machines would reach the platform, and its keys "
        "travel unencrypted. Add --allow-remote if that is what you want"
    )


def not_a_target(target: str) -> str:
    """Explain the form of a target."""
    text = f"{target!r} is not of the form module:attribute, for example my_agent:Echo"
    file, _, attribute = target.partition(":")
    if file.endswith(".py"):
        module = file.removesuffix(".py").strip("./").replace("/", ".")
        text += f"; did you mean {module}:{attribute or '…'}?"
    return text


def no_module(module: str, directory: str) -> str:
    """Say that there is no such module."""
    return f"there is no module {module!r}, neither in {directory} nor installed"


def import_failed(module: str, error: str) -> str:
    """Say that a module could not be imported."""
    return f"importing {module!r} failed: {error}"


def no_attribute(module: str, name: str, candidates: Sequence[str]) -> str:
    """Say that a module lacks an attribute, and what it has."""
    text = f"the module {module!r} has no attribute {name!r}"
    return f"{text}. It has: {', '.join(candidates)}" if candidates else text


def making_failed(target: str, error: str) -> str:
    """Say that a class or factory did not work without arguments."""
    return f"{target} was called without arguments and failed: {error}"


def not_an_adapter(target: str, kind: str) -> str:
    """Say that what was found is of no use."""
    return (
        f"{target} is neither an adapter nor an Agent but {kind}. Subclass SimpleAdapter and write "
        "on_message"
    )


KEY_IS_SEEN: Final = (
    "other users of this machine can see --api-key in the list of processes; BAND_API_KEY is not "
    "seen there"
)


def runs_while_imported(target: str) -> str:
    """Refuse a module that runs an agent when it is imported."""
    return (
        f"{target} runs an agent while it is imported, and this command would run it again: put "
        'that call under `if __name__ == "__main__":`'
    )


def runs_while_called(target: str) -> str:
    """Refuse a factory that runs what it should return."""
    return (
        f"{target} runs an agent, which is what this command does: let it return the agent, or "
        "name the adapter itself"
    )


# --------------------------------------------------------------------------- serve


def serve_lines(band: LocalBand) -> list[str]:
    """Say where the platform is and what to do next."""
    return [
        f"REST      {band.rest_url}",
        f"socket    {band.ws_url}",
        f"user key  {band.user_key}",
        *(f"agent     {each.handle}: id {each.id}, key {each.api_key}" for each in band.agents()),
        "",
        "Register an agent; the answer holds its id and key:",
        *curl(band, "/agents/register", '{"agent": {"name": "Echo", "description": "Repeats"}}'),
        "Create a room; the answer holds its id:",
        *curl(band, "/chats", '{"chat": {}}'),
        "Add the agent to it, then write to the agent (with both ids in place of ROOM and AGENT):",
        *curl(band, "/chats/ROOM/participants", '{"participant": {"participant_id": "AGENT"}}'),
        *curl(
            band,
            "/chats/ROOM/messages",
            '{"message": {"content": "hello", "mentions": [{"id": "AGENT"}]}}',
        ),
        "",
        READY,
    ]


def curl(band: LocalBand, path: str, body: str) -> list[str]:
    """Return a command that acts as the person."""
    return [
        f"  curl -s {band.rest_url}/api/v1/me{path} -H 'X-API-Key: {band.user_key}' \\",
        f"    -H 'Content-Type: application/json' -d '{body}'",
    ]


# --------------------------------------------------------------------------- demo

CONTACTS_GOOD: Final = (
    "They are contacts; the board, the task, the memory and the file are as they should be."
)
SCENE_CONTACTS: Final = "Two agents of different people get to know each other"
SCENE_QUESTION: Final = "1. A question is answered through band_send_message"
SCENE_DELEGATION: Final = "2. An agent finds a peer, brings it in and delegates"
SCENE_TWO_ROOMS: Final = "3. Two rooms go on at the same time, each in order"
SCENE_FAILURE: Final = "4. A handler raises: the message fails, the room is told, work goes on"
SCENE_CUT: Final = "5. The socket is cut in mid-turn: nothing is lost"
SCENE_STOP: Final = "6. A graceful stop: the running turn ends first"
SCENE_SUMMARY: Final = "Summary"
CABLE_PULLED: Final = "… Clerk's socket is cut below the protocol …"
NO_OVERLAP: Final = "two rooms were never at work at the same time"
NO_RECONNECT: Final = "no agent reconnected"
DEMO_GOOD: Final = "Nothing was lost, repeated or out of order."
DEMO_BAD: Final = "This is not how it should be."
DEMO_INTERRUPTED: Final = "interrupted; not judged"


def contacts_opening(url: str) -> str:
    """Introduce the performance of two agents that meet."""
    return f"A Band platform at {url}, two people with an agent each. Times are seconds."


def demo_opening(url: str) -> str:
    """Say what begins."""
    return f"A Band platform at {url}, three agents and a person. Times are seconds."


def demo_stopping(grace: float) -> str:
    """Say that the agents are stopped."""
    return f"all agents are told to stop; running turns have {grace:g} s"


def demo_stopped(name: str, report: ShutdownReport) -> str:
    """Say how an agent ended."""
    how = "gracefully" if report.graceful else "NOT gracefully"
    return f"{name} stopped {how}: {stopped(report).removeprefix('stopped ')}"


def demo_access(band: LocalBand, agent: LocalAgent) -> list[str]:
    """Say how to talk to the agents that are kept running."""
    room = next((r.id for r in band.world.rooms.values() if agent.id in r.members), "ROOM")
    mention = f'{{"id": "{agent.id}"}}'
    body = f'{{"message": {{"content": "What is 2 times 3?", "mentions": [{mention}]}}}}'
    return [
        "",
        f"REST      {band.rest_url}",
        f"socket    {band.ws_url}",
        f"user key  {band.user_key}",
        "",
        f"Ask {agent.name} something:",
        *curl(band, f"/chats/{room}/messages", body),
        "",
        READY,
    ]

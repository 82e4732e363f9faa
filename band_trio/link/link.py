"""`BandLink`: the connection of an agent as the runtime sees it."""

from __future__ import annotations

from typing import Never

import trio

from band_trio.config.agent import AgentConfig
from band_trio.config.credentials import Credentials
from band_trio.config.endpoints import Endpoints
from band_trio.link.channel.state import LinkHealth, LinkListener, LinkState
from band_trio.link.channel.supervisor import Supervisor
from band_trio.link.channel.topics import TopicTable
from band_trio.link.rest.rest import RestClient
from band_trio.protocol.events import agent_control
from band_trio.trace import Tracer


def wanted_topics(agent_id: str, config: AgentConfig, state: LinkState) -> TopicTable:
    """Return the topics of an agent, of which only its control topic is wanted yet."""
    return TopicTable(
        first=agent_control(agent_id),
        parallel=config.join_parallel,
        join_seconds=config.join_seconds,
        next_ref=state.next_ref,
    )


class BandLink:
    """Desired topics, and a socket that follows them for as long as `serve` runs.

    One link is one run: serve it once.
    """

    def __init__(
        self,
        credentials: Credentials,
        endpoints: Endpoints,
        config: AgentConfig,
        rest: RestClient,
        tracer: Tracer,
        listener: LinkListener,
        *,
        state: LinkState | None = None,
        topics: TopicTable | None = None,
    ) -> None:
        """Take the parts. *state* and *topics* (see `wanted_topics`) may be known to others."""
        self._state = state or LinkState()
        self._topics = topics or wanted_topics(credentials.agent_id, config, self._state)
        self._supervisor = Supervisor(
            credentials,
            endpoints,
            config,
            rest,
            tracer,
            listener,
            self._state,
            self._topics,
        )

    def __repr__(self) -> str:
        return f"BandLink(connected={self.is_connected}, epoch={self.epoch})"

    # ----------------------------------------------------------------- topics

    def want(self, topic: str) -> None:
        """Have *topic* joined, now and on every later connection. Returns at once."""
        self._topics.want(topic)

    def unwant(self, topic: str) -> None:
        """Have *topic* left, and not joined any more. Returns at once."""
        self._topics.unwant(topic)

    # ----------------------------------------------------------------- connection

    async def serve(  # noqa: ASYNC128 - the supervisor calls started()
        self,
        patience_until: float = float("inf"),
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> Never:
        """Stay connected until cancelled.

        `started()` is called once a connection is up and its control topic is joined. Until then
        failures are transient up to *patience_until* (trio time); afterwards there is no limit.
        Cancelling sends one close frame, a second at most.

        Raises:
            BandAuthError: the key was refused.
            BandConfigError: the first connection was refused for good (400, 404, 426).
            AgentAlreadyRunningError: the agent is connected elsewhere, and stays so.
            BandPolicyError: closed for a policy violation.
            BandSupersededError: a newer connection took over.
            BandConnectionError: not connected when the patience was over; the last error.
            Whatever the listener raises.
        """
        await self._supervisor.serve(patience_until, task_status=task_status)

    @property
    def is_connected(self) -> bool:
        """Whether a socket is serving at this moment."""
        return self._state.connected

    @property
    def epoch(self) -> int:
        """Number of the current socket, or of the last one; 0 before the first."""
        return self._state.epoch

    def health(self) -> LinkHealth:
        """Return a snapshot."""
        return LinkHealth(
            connected=self._state.connected,
            epoch=self._state.epoch,
            last_heartbeat_reply=self._state.last_heartbeat_reply,
            joined=self._topics.joined,
            pending=self._topics.pending(),
            dropped_frames=self._state.dropped,
        )

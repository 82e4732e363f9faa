"""All connections of a run, one after the other: connect, serve, back off, connect again.

It never stops trying, except for what `verdict` calls definite, and before the first success
when the patience is over. A drop that several parts see is one end of one epoch here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, Never
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import attrs
import trio

from band_trio.config.agent import AgentConfig, ConflictPolicy
from band_trio.config.credentials import Credentials
from band_trio.config.endpoints import Endpoints
from band_trio.errors import AgentAlreadyRunningError, BandConnectionError, BandError
from band_trio.kit.backoff import full_jitter
from band_trio.kit.hygiene import clean_text
from band_trio.kit.logs import RepeatedLog
from band_trio.link.channel.epoch import Epoch
from band_trio.link.channel.socket import ConnectFailed, Headers, UpgradeRefused, open_socket
from band_trio.link.channel.state import LinkListener, LinkState
from band_trio.link.channel.topics import TopicChange, TopicTable
from band_trio.link.channel.verdict import CheckKey, Conflict, ConnectionEnd, GiveUp, Wait, judge
from band_trio.link.net.dialler import dial
from band_trio.link.rest.rest import RestClient
from band_trio.protocol.rest import WORDS_CHARS
from band_trio.trace import EpochBegan, EpochEnded, Joined, Tracer

_log: Final = logging.getLogger(__name__)
_repeated: Final = RepeatedLog(_log)

STABLE_SECONDS: Final = 60.0
"""A connection of this age forgets earlier failures."""
_OURS: Final = frozenset({"vsn", "agent_id", "on_conflict", "api_key", "token"})


class Supervisor:
    """Keeps one agent connected. Parts of `BandLink`, which is what others hold."""

    def __init__(
        self,
        credentials: Credentials,
        endpoints: Endpoints,
        config: AgentConfig,
        rest: RestClient,
        tracer: Tracer,
        listener: LinkListener,
        state: LinkState,
        topics: TopicTable,
    ) -> None:
        self._credentials = credentials
        self._url = endpoints.ws_url
        self._where = without_query(endpoints.ws_url)
        self._open_stream = config.open_stream or partial(
            dial, proxy=endpoints.ws_proxy, verify=config.verify
        )
        self._config = config
        self._rest = rest
        self._tracer = tracer
        self._listener = listener
        self._state = state
        self.topics: Final = topics
        topics.report = self._topic_changed
        self._started = False
        self._on_started: Callable[[], None] = lambda: None
        self._last_end: ConnectionEnd | None = None
        self._failures = 0
        self._conflict_until: float | None = None
        self._epoch: Epoch | None = None

    async def serve(
        self,
        patience_until: float,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> Never:
        """Stay connected. `started()` is called when the first connection has joined its control
        topic; until then trying ends at *patience_until* (trio time).

        Raises:
            BandError: as `BandLink.serve`.
        """
        patience = trio.CancelScope(deadline=patience_until)

        def started() -> None:
            patience.deadline = float("inf")
            task_status.started()

        self._on_started = started
        with patience:
            while True:
                end, lifetime = await self._connect()
                await trio.sleep(await self._wait_after(end, lifetime))
        raise self._out_of_patience()

    # ----------------------------------------------------------------- one connection

    async def _connect(self) -> tuple[ConnectionEnd, float]:
        """Connect once and serve; return how it ended, and how many seconds it served."""
        began = None
        try:
            async with open_socket(
                self._url,
                self._resource(),
                self._headers(),
                open_stream=self._open_stream,
                connect_seconds=self._config.connect_seconds,
            ) as socket:
                began = trio.current_time()
                self._epoch = Epoch(
                    socket,
                    self._config,
                    self._state,
                    self.topics,
                    self._listener,
                )
                end = await self._serve(self._epoch)
        except UpgradeRefused as exc:
            return self._refused(exc), 0.0
        except ConnectFailed as exc:
            return ConnectionEnd(self._clean(str(exc))), 0.0
        return end, trio.current_time() - began

    async def _serve(self, epoch: Epoch) -> ConnectionEnd:
        number = self._state.epoch = self._state.epoch + 1
        reason = "the link is shutting down"
        self._state.connected = True
        try:
            self._tracer(EpochBegan(number))
            _log.info("connected to %s, epoch %d", self._where, number)
            self._listener.connected(number)
            end = await epoch.serve()
            end = self._cleaned(end)
            reason = end.reason
        finally:
            self._state.connected = False
            self._epoch = None
            self._tracer(EpochEnded(number, reason))
            self._listener.disconnected(number, reason)
        return end

    def _resource(self) -> str:
        """Return path and query of the upgrade; other parameters of the URL stay in front."""
        parts = urlsplit(self._url)
        pairs = [p for p in parse_qsl(parts.query, keep_blank_values=True) if p[0] not in _OURS]
        pairs += [("vsn", "2.0.0"), ("agent_id", self._credentials.agent_id)]
        # Never on a reconnect: it would meet its own stale socket (platform docs, Conflicts).
        if self._config.conflict_policy is ConflictPolicy.REJECT and self._state.epoch == 0:
            pairs.append(("on_conflict", "reject"))
        return f"{parts.path or '/'}?{urlencode(pairs)}"

    def _headers(self) -> Headers:
        return [(b"x-api-key", self._credentials.api_key.encode("ascii"))]

    def _refused(self, refusal: UpgradeRefused) -> ConnectionEnd:
        error = refusal.error
        words = ", ".join(part for part in (error.message, error.code) if part)
        reason = f"status {refusal.status}" + (f": {words}" if words else "")
        return ConnectionEnd(
            self._clean(reason), status=refusal.status, retry_after=refusal.retry_after
        )

    def _cleaned(self, end: ConnectionEnd) -> ConnectionEnd:
        """Return *end* with the platform's words fit for our logs and errors."""
        gone = end.supersede
        if gone is not None:
            reason, message = self._clean(gone.reason), self._clean(gone.message)
            gone = attrs.evolve(gone, reason=reason, message=message)
        return attrs.evolve(end, reason=self._clean(end.reason), supersede=gone)

    def _clean(self, text: str) -> str:
        return clean_text(text, WORDS_CHARS, [self._credentials.api_key])

    # ----------------------------------------------------------------- topics

    def _topic_changed(self, topic: str, change: TopicChange, reason: str) -> None:
        """Pass on what became of a topic; called in the tasks of the epoch."""
        if change is TopicChange.JOINED:
            self._tracer(Joined(topic, "ok"))
            self._listener.joined(topic)
            if topic == self.topics.first and not self._started:
                self._started = True
                self._on_started()
            return
        text = change.value
        if change is TopicChange.REJECTED:
            text = f"rejected: {self._clean(reason)}"
        self._tracer(Joined(topic, text))
        _repeated.warning("topic %s: %s; it is joined again", topic, text)
        self._listener.lost(topic, text)
        if topic == self.topics.first and not self._started and self._epoch is not None:
            # Joining it is part of connecting: the first connection has failed.
            self._epoch.end(ConnectionEnd(f"the join of {topic} failed: {text}"))

    # ----------------------------------------------------------------- what follows

    async def _wait_after(self, end: ConnectionEnd, lifetime: float) -> float:
        """Return how long to wait before the next try, or raise what ends the run."""
        if lifetime >= STABLE_SECONDS:
            self._failures = 0
        verdict = judge(end, self._where, first=not self._started)
        if isinstance(verdict, GiveUp):
            raise verdict.error
        self._tell(end)
        self._last_end = end
        if isinstance(verdict, CheckKey) and await self._key_is_refused():
            raise verdict.error
        if isinstance(verdict, Conflict):
            return self._wait_for_the_other(end, verdict)
        wait = full_jitter(
            self._failures, self._config.reconnect_base_seconds, self._config.reconnect_cap_seconds
        )
        self._failures += 1
        return verdict.seconds if isinstance(verdict, Wait) else wait

    async def _key_is_refused(self) -> bool:
        try:
            return await self._rest.key_is_refused()
        except BandConnectionError as exc:
            _log.info("the key could not be checked: %s", exc)
            return False

    def _wait_for_the_other(self, end: ConnectionEnd, conflict: Conflict) -> float:
        now = trio.current_time()
        if self._conflict_until is None:
            self._conflict_until = now + self._config.conflict_wait_seconds
        left = self._conflict_until - now
        if left <= 0:
            raise self._conflict(end)
        base, cap = self._config.reconnect_base_seconds, self._config.reconnect_cap_seconds
        wait = conflict.retry_after
        if wait is None:
            wait = full_jitter(self._failures, base, cap)
        self._failures += 1
        return min(wait, left)

    def _conflict(self, end: ConnectionEnd) -> BandError:
        return AgentAlreadyRunningError(
            f"{self._where} says that this agent is connected elsewhere ({end.reason}). "
            "Stop the other one, or take over with conflict_policy=ConflictPolicy.SUPERSEDE."
        )

    def _tell(self, end: ConnectionEnd) -> None:
        if not self._started and self._last_end is None:
            _log.warning("cannot connect to %s yet, trying on: %s", self._where, end.reason)
        elif self._started:
            _repeated.warning(
                "the connection to %s is down, connecting again: %s", self._where, end.reason
            )

    def _out_of_patience(self) -> BandError:
        end = self._last_end
        if end is None:
            return BandConnectionError(f"{self._where} did not answer in time. Is the URL right?")
        if isinstance(judge(end, self._where, first=True), Conflict):
            return self._conflict(end)
        return BandConnectionError(
            f"{self._where} cannot be reached: {end.reason}. Is the platform up, and the URL right?"
        )


def without_query(url: str) -> str:
    """Return *url* fit for logs and errors."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))

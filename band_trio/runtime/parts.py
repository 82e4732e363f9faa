"""The parts of a run that tell each other what they see."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio

from band_trio.link.link import BandLink
from band_trio.link.rest import RestClient
from band_trio.protocol.rest import AgentMe
from band_trio.runtime.adapter_port import AdapterPort
from band_trio.runtime.dispatcher import Dispatcher
from band_trio.runtime.hooks import Hooks
from band_trio.runtime.judgement import Judgement
from band_trio.runtime.lifecycle import Lifecycle
from band_trio.runtime.outbox import Outbox
from band_trio.runtime.presence import RoomPresence
from band_trio.runtime.problems import Problems
from band_trio.runtime.resync import ResyncBucket
from band_trio.runtime.services import RoomServices
from band_trio.runtime.settings import RunSettings
from band_trio.trace import Tracer


@attrs.frozen(eq=False)
class Parts:
    """What a run consists of once it knows who it is; each is served by a task of its own."""

    outbox: Outbox
    presence: RoomPresence
    link: BandLink


def make_parts(
    settings: RunSettings,
    me: AgentMe,
    *,
    rest: RestClient,
    rooms: trio.Nursery,
    port: AdapterPort,
    lifecycle: Lifecycle,
    hooks: Hooks,
    problems: Problems,
    tracer: Tracer,
    check_key: Callable[[], None],
) -> Parts:
    """Make the parts. They know each other in a ring, which is closed here and nowhere else.

    The lambdas name parts that are made further down: nothing calls them before all are there.
    """
    config, session = settings.config, settings.session
    outbox = Outbox(
        rest, session, lifecycle, tracer, config.rest_try_seconds,
        on_stopped=lambda room_id: presence.observe_stop(room_id),
        plays_of=lambda room_id: presence.plays(room_id),
        on_final=lambda room_id: presence.settled(room_id),
        on_denied=check_key,
    )  # fmt: skip
    services = RoomServices(
        me=me,
        rest=rest,
        session=session,
        adapter=port,
        preprocessor=settings.preprocessor,
        callbacks=settings.callbacks,
        outbox=outbox,
        lifecycle=lifecycle,
        bucket=ResyncBucket.of_rate(config.resync_rate),
        hooks=hooks,
        judgement=Judgement((settings.credentials.api_key,), session.max_cycle_seconds),
        problems=problems,
        tracer=tracer,
        current_epoch=lambda: link.epoch,
        doubt=lambda room_id, unknown: presence.doubt(room_id, unknown=unknown),
        check_key=check_key,
    )
    presence = RoomPresence(
        services, rooms, lambda topic: link.want(topic), lambda topic: link.unwant(topic),
        config.room_filter,
    )  # fmt: skip
    link = BandLink(
        settings.credentials, settings.endpoints, config, rest, tracer,
        Dispatcher(presence, outbox, lambda: link.note_dropped()),
        close_by=lambda: lifecycle.until(1.0),
    )  # fmt: skip
    return Parts(outbox, presence, link)

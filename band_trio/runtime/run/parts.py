"""The parts of a run, made one after the other: each knows only parts that were made before it."""

from __future__ import annotations

from functools import partial

import attrs
import trio

from band_trio.link.channel.state import LinkState
from band_trio.link.link import BandLink, wanted_topics
from band_trio.link.rest.rest import RestClient
from band_trio.protocol.rest import AgentMe
from band_trio.runtime.contacts.desk import ContactDesk
from band_trio.runtime.crashes import CrashRecord
from band_trio.runtime.deadlines import Deadlines
from band_trio.runtime.journal.judgement import Judgement
from band_trio.runtime.lifecycle import Lifecycle
from band_trio.runtime.listing import RoomLister
from band_trio.runtime.membership.presence import RoomPresence
from band_trio.runtime.problems import Problems
from band_trio.runtime.resync import FirstReads
from band_trio.runtime.room.journals import Journals
from band_trio.runtime.room.settler import Settler
from band_trio.runtime.run.dispatcher import Dispatcher
from band_trio.runtime.run.settings import RunSettings
from band_trio.runtime.turn.services import Application, RoomServices
from band_trio.trace import Tracer


@attrs.frozen(eq=False)
class Parts:
    """What a run consists of once it knows who it is."""

    journals: Journals
    settler: Settler
    presence: RoomPresence
    contacts: ContactDesk
    link: BandLink


def make_parts(
    settings: RunSettings,
    me: AgentMe,
    app: Application,
    *,
    rest: RestClient,
    rooms: trio.Nursery,
    lifecycle: Lifecycle,
    problems: Problems,
    crashes: CrashRecord,
    deadlines: Deadlines,
    tracer: Tracer,
) -> Parts:
    """Make the parts. What was told goes down this list by calls, and comes back by returning."""
    config, session = settings.config, settings.session
    journals = Journals(me.id, session, config.resync_rate)
    settler = Settler(rest, config, session, lifecycle, journals, tracer, rooms)
    secrets = (settings.credentials.api_key,)
    judgement = Judgement(secrets, session.max_cycle_seconds, session.report_turn_failures_to_room)
    services = RoomServices(
        me=me,
        rest=rest,
        session=session,
        app=app,
        lifecycle=lifecycle,
        judgement=judgement,
        lister=RoomLister(rest, lifecycle, tracer),
        first_reads=FirstReads(max(1, config.rest_bulk // 2 - 2)),
        crashes=crashes,
        deadlines=deadlines,
        tracer=tracer,
    )
    state = LinkState(partial(lifecycle.until, 1.0))
    topics = wanted_topics(me.id, config, state)
    presence = RoomPresence(
        services, journals, settler, problems, topics, rooms, config.room_filter
    )
    desk = ContactDesk(settings.contacts, config.contact_hook_seconds, services, presence, problems)
    dispatcher = Dispatcher(presence, desk)
    link = BandLink(
        settings.credentials, settings.endpoints, config, rest, tracer, dispatcher,
        state=state, topics=topics,
    )  # fmt: skip
    return Parts(journals, settler, presence, desk, link)

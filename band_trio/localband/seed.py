"""Who and what is there from the start: a YAML file with fixed ids and keys.

    people:
      - name: Ann
        key: ann-key
        agents:
          - {name: Scribe, id: 3f0e8b54-6c54-4a53-8d0e-3f6f3f7a0c11, key: scribe-key}
    rooms:
      - title: Plans
        owner: ann
        members: [ann/scribe]
        messages:
          - {from: ann, to: [ann/scribe], text: hello}

With it a platform that is started again knows the agents that were configured for it. Ids are
UUIDs; what is left out is made up. Everybody is named by handle: `ann`, `ann/scribe`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import cattrs
import yaml

from band_trio.errors import BandConfigError
from band_trio.localband import contacts, posting
from band_trio.localband.paging import is_uuid
from band_trio.localband.party import Party, User, UserRole
from band_trio.localband.world import World
from band_trio.stores.refusal import Refusal


@attrs.frozen
class AgentSeed:
    """An agent of a person."""

    name: str
    description: str = "An agent"
    id: str | None = None
    handle: str | None = None
    """With the owner's before it; from the names if it is left out."""
    key: str | None = None


@attrs.frozen
class PersonSeed:
    """A person."""

    name: str
    role: UserRole = "user"
    id: str | None = None
    handle: str | None = None
    key: str | None = None
    agents: list[AgentSeed] = attrs.field(factory=list)
    contacts: list[str] = attrs.field(factory=list)


@attrs.frozen
class MessageSeed:
    """A message of somebody in the room."""

    sender: str
    text: str
    to: list[str] = attrs.field(factory=list)
    type: str = "text"


@attrs.frozen
class RoomSeed:
    """A room."""

    owner: str
    title: str | None = None
    id: str | None = None
    members: list[str] = attrs.field(factory=list)
    messages: list[MessageSeed] = attrs.field(factory=list)


@attrs.frozen
class Seed:
    """Everything that is there from the start; the first person is the platform's `user`."""

    people: list[PersonSeed]
    rooms: list[RoomSeed] = attrs.field(factory=list)


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook(str, _exact_text)
    converter.register_structure_hook(
        MessageSeed,
        cattrs.gen.make_dict_structure_fn(
            MessageSeed,
            converter,
            _cattrs_forbid_extra_keys=True,
            sender=cattrs.gen.override(rename="from"),
        ),
    )
    return converter


def _exact_text(value: Any, _: type) -> str:
    """Take text as it is; a number in its place is a mistake, not to be converted."""
    if not isinstance(value, str):
        raise TypeError
    return value


_CONVERTER: Final = _converter()


def read_seed(source: str | Path | Mapping[str, Any]) -> Seed:
    """Read a seed from a YAML file, or from what one would hold.

    Raises:
        BandConfigError: the file cannot be read, or does not fit; says where.
    """
    where, raw = "the seed", source
    if isinstance(source, str | Path):
        where = f"the seed file {source}"
        try:
            raw = yaml.safe_load(Path(source).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
            raise BandConfigError(f"{where} cannot be read: {exc}") from None
    try:
        seed = _CONVERTER.structure(raw, Seed)
    except Exception as exc:  # noqa: BLE001 - cattrs groups whatever it meets; told as one line
        problems = "; ".join(cattrs.transform_error(exc, path="seed"))
        raise BandConfigError(f"{where} does not fit: {problems}") from None
    if not seed.people:
        raise BandConfigError(f"{where} does not fit: people is empty; one person is needed")
    return seed


def plant(world: World, seed: Seed) -> User:
    """Put a seed into an empty platform; return its first person.

    Raises:
        BandConfigError: names are taken twice, are nobody's, or what is posted is refused.
    """
    try:
        users = [_person(world, each) for each in seed.people]
        for person, user in zip(seed.people, users, strict=True):
            for handle in person.contacts:
                _befriend(world, user, _party(world, handle))
        for room in seed.rooms:
            _room(world, room)
    except Refusal as refusal:
        details = "; ".join(f"{k} {', '.join(v)}" for k, v in (refusal.details or {}).items())
        text = f"{refusal.message} {details}".strip()
        raise BandConfigError(f"the seed does not fit: {text}") from None
    return users[0]


def _person(world: World, seed: PersonSeed) -> User:
    fixed = _fixed(world, seed.id, seed.handle, seed.key)
    user = world.add_user(seed.name, seed.role, **fixed)
    for agent in seed.agents:
        fixed = _fixed(world, agent.id, agent.handle, agent.key)
        world.add_agent(user, agent.name, agent.description, **fixed)
    return user


def _fixed(
    world: World, party_id: str | None, handle: str | None, key: str | None
) -> dict[str, str | None]:
    if party_id is not None and not is_uuid(party_id):
        raise BandConfigError(f"the seed does not fit: the id {party_id!r} is no UUID")
    for what, value, taken in (
        ("id", party_id, world.parties),
        ("key", key, world.keys),
        ("handle", handle, {h: h for h in [handle] if h and world.by_handle(h)}),
    ):
        if value is not None and value in taken:
            shown = "" if what == "key" else f" {value!r}"
            raise BandConfigError(f"the seed does not fit: the {what}{shown} is given twice")
    return {"party_id": party_id, "handle": handle, "key": key}


def _party(world: World, handle: str) -> Party:
    party = world.by_handle(handle)
    if party is None:
        raise BandConfigError(f"the seed does not fit: nobody has the handle {handle!r}")
    return party


def _befriend(world: World, one: Party, other: Party) -> None:
    if world.contacts.between(one.id, other.id) is None:
        request = contacts.ask(world, one, other.handle)
        if request.status == "pending":
            contacts.respond(world, other, "approve", request_id=request.id)


def _room(world: World, seed: RoomSeed) -> None:
    if seed.id is not None and (not is_uuid(seed.id) or seed.id in world.rooms):
        raise BandConfigError(
            f"the seed does not fit: the id {seed.id!r} of a room is no UUID, or given twice"
        )
    owner = _party(world, seed.owner)
    room = world.create_room(owner, seed.title, room_id=seed.id)
    for handle in seed.members:
        world.add_participant(room, owner, _party(world, handle).id, "member")
    for message in seed.messages:
        sender = _party(world, message.sender)
        world.room_of(sender, room.id)
        if message.type == "text":
            posting.say(world, room, sender, message.text, [f"@{h}" for h in message.to])
        else:
            body = {"content": message.text, "message_type": message.type}
            posting.post_event(world, room, sender, {"event": body})

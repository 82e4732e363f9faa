"""Who there is: persons and agents, and their handles (platform docs, Mentions)."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any, Literal, Protocol

import attrs

Role = Literal["owner", "admin", "member"]
UserRole = Literal["user", "admin"]


@attrs.define(eq=False)
class User:
    """A person."""

    id: str
    name: str
    handle: str
    api_key: str = attrs.field(repr=False)
    inserted_at: str
    role: UserRole = "user"
    kind: Literal["User"] = "User"

    @property
    def email(self) -> str:
        """An address that nothing is ever sent to."""
        return f"{self.handle}@example.invalid"


@attrs.define(eq=False)
class Agent:
    """An agent, owned by a person."""

    id: str
    name: str
    handle: str
    """`owner/slug`, without `@`."""
    description: str
    owner: User
    api_key: str = attrs.field(repr=False)
    inserted_at: str
    updated_at: str
    kind: Literal["Agent"] = "Agent"


Party = User | Agent


@attrs.define(eq=False)
class Member:
    """A party in a room."""

    party: Party
    role: Role
    joined_at: str = ""

    def render(self, *, online: bool) -> dict[str, Any]:
        """Return the `ChatParticipant`; agents are always `inactive` members."""
        party = self.party
        row: dict[str, Any] = {
            "id": party.id,
            "type": party.kind,
            "name": party.name,
            "handle": party.handle,
            "role": self.role,
            "status": "active" if isinstance(party, User) else "inactive",
            "online": online,
            "avatar_url": None,
            "is_external": isinstance(party, Agent),
        }
        if isinstance(party, Agent):
            row["description"] = party.description
            row["connection_status"] = "connected" if online else "disconnected"
        return row


def arrival(party: Party) -> dict[str, Any]:
    """Return the payload of `participant_added` and `participant_removed`."""
    remote = isinstance(party, Agent)
    return {
        "id": party.id,
        "name": party.name,
        "type": party.kind,
        "handle": party.handle,
        "description": party.description if isinstance(party, Agent) else None,
        "is_remote": remote,
        "is_external": remote,
    }


def owner_of(party: Party) -> User:
    """Return the person behind a party."""
    return party.owner if isinstance(party, Agent) else party


def slug(name: str) -> str:
    """Return *name* as a part of a handle: lower case, words joined by `-`."""
    return "-".join(re.findall(r"\w+", name.lower())) or "agent"


def free_handle(wanted: str, taken: Container[str]) -> str:
    """Return *wanted*, with a number behind it if somebody has it already."""
    handle, number = wanted, 1
    while handle.lower() in taken:
        number += 1
        handle = f"{wanted}-{number}"
    return handle


class Identified(Protocol):
    """Anything with an id."""

    @property
    def id(self) -> str: ...


Ref = str | Identified


def id_of(ref: Ref) -> str:
    """Return the id of a reference."""
    return ref if isinstance(ref, str) else ref.id

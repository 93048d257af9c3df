"""What is sent, answered and heard; the shapes follow the server's `/openapi.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ._errors import ConnectionFailed

Id: TypeAlias = str | int
"""The name of anything that can be online or be followed; `123` and `"123"` are the same id."""


@dataclass(frozen=True, slots=True)
class Message:
    """An event to send: any JSON value about an id, or about each of several.

    With a `key` it is posted once within five minutes, however often it is sent. `event` is a name
    of your choice that tells kinds of events apart. Who hears several of the ids hears it once.
    `except_` is the id of one connection that does not hear it, as its stream has told it.
    `durable` has the answer wait until it is on disk, where events about the id are kept.
    """

    about: Id | Sequence[Id]
    data: Any
    key: str | None = None
    event: str | None = None
    except_: str | None = None
    durable: bool = False

    def to_json(self) -> dict[str, Any]:
        about = self.about if isinstance(self.about, str | int) else list(self.about)
        told: dict[str, Any] = {"about": about, "data": self.data}
        durable = True if self.durable else None
        further = {
            "key": self.key,
            "event": self.event,
            "except": self.except_,
            "durable": durable,
        }
        return told | {name: value for name, value in further.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Sent:
    """An event that was posted."""

    delivered: int
    """How many connections heard it. Nobody online is 0, and no error."""
    id: str
    at_least: bool = False
    """Whether a node of a cluster has not said how many heard it there."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """`subscriber` hears what is sent about `subscribee`."""

    subscriber: Id
    subscribee: Id


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list of ids."""

    ids: tuple[str, ...]
    next: str | None
    """What to give as `after` for the next page; None on the last one."""


@dataclass(frozen=True, slots=True)
class Connections:
    """How many connections an id has."""

    connections: int
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class Closed:
    """How many connections were ended."""

    closed: int
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """An event that was heard."""

    id: str
    """Opaque, and the place to resume after."""
    about: str
    data: Any
    also: tuple[str, ...] = ()
    """The other ids that it is about, if it is about several."""
    event: str | None = None
    """The name that its sender gave it."""
    sender: str | None = None
    """The id of the client that sent it, if a client did: the server has made sure of it."""


@dataclass(frozen=True, slots=True)
class EventPage:
    """A part of what was sent about an id."""

    events: tuple[Event, ...]
    next: str | None
    """What to give as `after` for the next page, or as `before` if the newest come first. None on
    the last one."""
    gap: bool = False
    """Whether events that this page should have are no longer remembered."""


@dataclass(frozen=True, slots=True)
class Member:
    """A user in a room: the `sub` of a token, and what that says of its bearer."""

    id: str
    info: Any = None


@dataclass(frozen=True, slots=True)
class Members:
    """Who is in a room."""

    count: int
    list: tuple[Member, ...] | None
    """None where there are too many."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Events were missed that the server no longer knows: read your data afresh."""


def as_sent(answer: Mapping[str, Any]) -> Sent:
    delivered, id = member(answer, "delivered"), member(answer, "id")
    return Sent(delivered, id, answer.get("at_least", False))


def as_event(told: Mapping[str, Any]) -> Event | None:
    """An event as the server writes it; None where it is something else."""
    if not isinstance(told.get("id"), str) or "about" not in told or "data" not in told:
        return None
    also, name, sender = told.get("also"), told.get("event"), told.get("from")
    others = tuple(str(id) for id in also) if isinstance(also, list) else ()
    name = name if isinstance(name, str) else None
    sender = sender if isinstance(sender, str) else None
    return Event(told["id"], str(told["about"]), told["data"], others, name, sender)


def as_event_page(answer: Mapping[str, Any]) -> EventPage:
    events = (as_event(told) for told in member(answer, "events"))
    known = tuple(event for event in events if event is not None)
    return EventPage(known, member(answer, "next"), answer.get("gap", False))


def as_members(answer: Mapping[str, Any]) -> Members:
    told = member(answer, "members")
    listed = told.get("list")
    if listed is not None:
        listed = tuple(Member(one["id"], one.get("info")) for one in listed)
    return Members(member(told, "count"), listed)


def member(answer: Mapping[str, Any], name: str) -> Any:
    """What an answer of Encke's has under that name."""
    try:
        return answer[name]
    except KeyError:
        raise ConnectionFailed(f"no {name} in the answer: is that address Encke's API?") from None

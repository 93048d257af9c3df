"""Encke, a push server, for backends: send, subscribe, listen without loss.

`Client` and `Listener` block; `AsyncClient` and `AsyncListener` are the same for asyncio.
"""

from ._async import AsyncClient
from ._errors import ConnectionFailed, EnckeError, Refused
from ._listen import AsyncListener
from ._sync import Client, Listener
from ._types import (
    Closed,
    Connections,
    Event,
    EventPage,
    Gap,
    Id,
    Member,
    Members,
    Message,
    Page,
    Sent,
    Subscription,
)

__all__ = [
    "AsyncClient",
    "AsyncListener",
    "Client",
    "Closed",
    "ConnectionFailed",
    "Connections",
    "EnckeError",
    "Event",
    "EventPage",
    "Gap",
    "Id",
    "Listener",
    "Member",
    "Members",
    "Message",
    "Page",
    "Refused",
    "Sent",
    "Subscription",
]

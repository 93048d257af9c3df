"""The API for asyncio. `encke.Client` is the same for programs that block."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from itertools import count
from typing import Any, Literal, TypeAlias
from urllib.parse import quote, urlencode

from ._backoff import backoff
from ._closing import AsyncClosing
from ._errors import ConnectionFailed, Refused, from_problem, refusal
from ._http import Exchange, Http, Server, bearer
from ._types import (
    Closed,
    Connections,
    EventPage,
    Id,
    Members,
    Message,
    Page,
    Sent,
    Subscription,
    as_event_page,
    as_members,
    as_sent,
    member,
)

FIRST_WAIT_S = 0.1
MOST_WAIT_S = 2.0
ASKED_MOST_S = 10.0
"""Who is asked to wait longer is told instead."""
SILENT_BODY_S = 60.0
"""The server ends a stream of which nothing comes for 300 s."""

Listed: TypeAlias = Literal["subscribers", "subscriptions"]

JSON = "application/json"
NDJSON = "application/x-ndjson"

CALLS = {
    "send": "send",
    "connections": "connections",
    "members": "members",
    "events": "events",
    "revokeTokens": "revoke_tokens",
    "logout": "logout",
    "addSubscriptions": "subscribe_many",
    "removeSubscriptions": "unsubscribe_many",
    "subscribers": "subscribers",
    "subscriptions": "subscriptions",
    "stats": "stats",
    "cluster": "cluster",
    "readyz": "is_ready",
}
"""By which method each operation of `/openapi.json` is called; a test compares both."""


class AsyncClient(AsyncClosing):
    """The API of a server: sends events, keeps subscriptions, looks up and ends connections.

    `key` is what `encke key new` printed, if the server asks for one. A call without an answer for
    `timeout` seconds has failed. One that fails, or that the server asks to repeat, is made again
    up to `retries` times, but a send that may have been posted only if it has a key: it would be
    heard twice.
    """

    def __init__(
        self,
        api: str = "http://127.0.0.1:8001",
        *,
        key: str | None = None,
        timeout: float = 30.0,
        retries: int = 2,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._http = Http(Server.at(api, tls), timeout)
        self._headers = {"Accept": JSON, "User-Agent": "encke-python/0.1.0"}
        if key is not None:
            self._headers["Authorization"] = bearer(key)
        self._retries = retries

    async def close(self) -> None:
        """Ends the connections that it keeps."""
        await self._http.close()

    async def send(
        self,
        about: Id | Sequence[Id],
        data: Any,
        *,
        key: str | None = None,
        event: str | None = None,
        except_: str | None = None,
        durable: bool = False,
    ) -> Sent:
        """Sends an event to all who are online as `about` or follow it; `Message` says the rest."""
        message = Message(about, data, key, event, except_, durable)
        return as_sent(await self._call("/send", message.to_json(), repeatable=key is not None))

    async def send_stream(
        self, messages: Iterable[Message] | AsyncIterable[Message]
    ) -> AsyncGenerator[Sent | Refused, None]:
        """Sends events over one request, and yields an answer for each, in their order.

        Answers come while messages are still taken. A message that is refused does not end the
        stream. A stream that ends before its last answer raises `ConnectionFailed`, whose
        `answered` says how many there were. Close what this returns (`contextlib.aclosing`) if
        you leave it early.
        """
        counted = _Lines(messages)
        headers = {**self._headers, "Content-Type": NDJSON, "Accept": NDJSON}
        exchange = await self._http.begin("POST", "/send", headers, counted.lines(), fresh=True)
        answered = 0
        last: Refused | None = None
        try:
            await _ensure_taken(exchange)
            silence = self._http.timeout
            async with aclosing(exchange.lines(silence, lambda: answered < counted.taken)) as lines:
                async for line in lines:
                    exchange.sent()
                    if not line.strip():
                        continue
                    answer = _object(line)
                    last = from_problem(answer) if "status" in answer else None
                    told = last or as_sent(answer)
                    answered += 1
                    yield told
            exchange.sent()
            if not counted.ended or answered < counted.taken:
                why = str(last) if last else "the server ended the stream"
                raise ConnectionFailed(why, answered=answered)
        except ConnectionFailed as error:
            exchange.sent()
            error.answered = answered
            raise
        finally:
            await exchange.close()

    async def subscribe(self, subscriber: Id, subscribee: Id) -> bool:
        """Lets `subscriber` hear `subscribee`; whether that was new. It is on disk then."""
        return await self.subscribe_many([Subscription(subscriber, subscribee)]) == 1

    async def unsubscribe(self, subscriber: Id, subscribee: Id) -> bool:
        """The opposite; whether there was such a subscription."""
        return await self.unsubscribe_many([Subscription(subscriber, subscribee)]) == 1

    async def subscribe_many(self, pairs: Iterable[Subscription]) -> int:
        """Adds all of them or none, at most 8 MiB of JSON; returns how many were new."""
        return await self._change("/subscriptions/add", pairs, "added")

    async def unsubscribe_many(self, pairs: Iterable[Subscription]) -> int:
        """Removes all of them or none; returns how many there were."""
        return await self._change("/subscriptions/remove", pairs, "removed")

    def subscribers(self, id: Id) -> AsyncGenerator[str, None]:
        """Who follows `id`, page by page."""
        return self._pages("subscribers", id)

    def subscriptions(self, id: Id) -> AsyncGenerator[str, None]:
        """Whom `id` follows, page by page."""
        return self._pages("subscriptions", id)

    async def page(
        self, of: Listed, id: Id, *, after: str | None = None, limit: int = 1000
    ) -> Page:
        """One page of `"subscribers"` or `"subscriptions"`, of at most 10,000 ids."""
        asked = {"limit": str(limit)} if after is None else {"limit": str(limit), "after": after}
        answer = await self._call(f"/{of}/{_path(id)}?{urlencode(asked)}")
        return Page(tuple(member(answer, "ids")), member(answer, "next"))

    async def connections(self, id: Id) -> Connections:
        """How many connections `id` has: whether it is online."""
        answer = await self._call(f"/connections/{_path(id)}")
        return Connections(member(answer, "connections"), answer.get("at_least", False))

    async def members(self, id: Id) -> Members:
        """Who is in the room `id`: the users that are logged in under it, each once."""
        return as_members(await self._call(f"/members/{_path(id)}"))

    async def events(
        self,
        id: Id,
        *,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> EventPage:
        """A page of what was sent about `id`, between the events `after` and `before`."""
        asked = {"after": after, "before": before, "limit": limit}
        query = {name: value for name, value in asked.items() if value is not None}
        if newest_first:
            query["order"] = "desc"
        answer = await self._call(f"/events/{_path(id)}?{urlencode(query)}".rstrip("?"))
        return as_event_page(answer)

    async def logout(self, id: Id) -> Closed:
        """Ends all connections of `id`."""
        answer = await self._call(f"/logout/{_path(id)}", {}, repeatable=True)
        return Closed(member(answer, "closed"), answer.get("at_least", False))

    async def revoke_tokens(
        self,
        *,
        jti: str | None = None,
        exp: int | None = None,
        sub: Id | None = None,
        before: int | None = None,
    ) -> None:
        """Refuses a token by its `jti`, or those of `sub`, from now on, and ends their streams."""
        named = {"jti": jti, "exp": exp, "sub": sub, "before": before}
        body = {name: value for name, value in named.items() if value is not None}
        await self._call("/tokens/revoke", body, repeatable=True)

    async def stats(self) -> dict[str, Any]:
        """The server's figures."""
        return await self._call("/stats")

    async def cluster(self) -> dict[str, Any]:
        """The nodes of the server's cluster."""
        return await self._call("/cluster")

    async def is_ready(self) -> bool:
        """Whether the server takes work; false too where it cannot be reached."""
        try:
            await self._once("GET", "/readyz", None)
        except (ConnectionFailed, Refused):
            return False
        return True

    async def _pages(self, of: Listed, id: Id) -> AsyncGenerator[str, None]:
        after = None
        while True:
            page = await self.page(of, id, after=after)
            for name in page.ids:
                yield name
            if page.next is None:
                return
            after = page.next

    async def _change(self, path: str, pairs: Iterable[Subscription], counted: str) -> int:
        body = [{"subscriber": one.subscriber, "subscribee": one.subscribee} for one in pairs]
        return int(member(await self._call(path, body, repeatable=True), counted))

    async def _call(
        self, path: str, body: object = None, *, repeatable: bool = False
    ) -> dict[str, Any]:
        """A call with an object of JSON as its answer; without a body it is a GET."""
        method = "GET" if body is None else "POST"
        for tries in count():
            try:
                answer = await self._once(method, path, body)
                return _object(answer)
            except (ConnectionFailed, Refused) as error:
                repeats = method == "GET" or repeatable
                if tries >= self._retries or not _may_repeat(error, repeats):
                    raise
                asked = error.retry_after if isinstance(error, Refused) else None
                await asyncio.sleep(backoff(tries, FIRST_WAIT_S, MOST_WAIT_S, asked))
        raise AssertionError("the loop ends with an answer or an error")

    async def _once(self, method: str, path: str, body: object) -> bytes:
        headers: Mapping[str, str] = self._headers
        data = None
        if body is not None:
            data = _dumps(body)
            headers = {**headers, "Content-Type": JSON}
        exchange = await self._http.begin(method, path, headers, data)
        try:
            await _ensure_taken(exchange)
            return await exchange.read()
        finally:
            await exchange.close()


class _Lines:
    """Messages as lines, counted; an empty line where none comes for long."""

    def __init__(self, messages: Iterable[Message] | AsyncIterable[Message]) -> None:
        self._messages = messages
        self.taken = 0
        self.ended = False

    async def lines(self) -> AsyncGenerator[bytes, None]:
        if isinstance(self._messages, AsyncIterable):
            iterator = aiter(self._messages)
            while True:
                task = asyncio.ensure_future(_next(iterator))
                try:
                    while not (await asyncio.wait({task}, timeout=SILENT_BODY_S))[0]:
                        yield b"\n"
                finally:
                    task.cancel()
                message = task.result()
                if message is None:
                    break
                yield self._line(message)
        else:
            for message in self._messages:
                yield self._line(message)
        self.ended = True

    def _line(self, message: Message) -> bytes:
        line = _dumps(message.to_json()) + b"\n"
        self.taken += 1
        return line


async def _next(iterator: AsyncIterator[Message]) -> Message | None:
    # A StopAsyncIteration is no result of a task.
    return await anext(iterator, None)


async def _ensure_taken(exchange: Exchange) -> None:
    if exchange.status != 200:
        raise refusal(exchange.status, exchange.headers, await exchange.read())


def _may_repeat(error: ConnectionFailed | Refused, repeatable: bool) -> bool:
    if isinstance(error, ConnectionFailed):
        return repeatable or not error.sent
    if not repeatable and not (error.is_enckes and error.status == 429):
        # A 503 may come after some have heard the event.
        return False
    asks = error.status in (409, 429, 503) and error.retry_after is not None
    return asks and (error.retry_after or 0.0) <= ASKED_MOST_S


def _object(answer: bytes) -> dict[str, Any]:
    try:
        value = json.loads(answer)
    except ValueError as error:
        raise ConnectionFailed("the answer is no JSON: is that address Encke's API?") from error
    if not isinstance(value, dict):
        raise ConnectionFailed("the answer is no object: is that address Encke's API?")
    return value


def _dumps(value: object) -> bytes:
    # NaN is no JSON: better an error here than a refusal there.
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _path(id: Id) -> str:
    return quote(str(id), safe="")

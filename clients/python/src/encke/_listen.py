"""A stream that goes on: connects, resumes after the last event, waits, and tells gaps."""

from __future__ import annotations

import asyncio
import inspect
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import TypeAlias
from urllib.parse import quote, urlencode

from ._backoff import backoff
from ._closing import AsyncClosing
from ._errors import ConnectionFailed, EnckeError, Refused, refusal
from ._http import Http, Server, bearer, visible
from ._types import Event, Gap, Id, as_event

FIRST_WAIT_S = 0.5
MOST_WAIT_S = 30.0
STEADY_S = 10.0
"""A stream that lasted so long was a good one: the next waits begin anew."""
AHEAD_MAX = 64
"""So many events wait for who takes them; further ones wait in the connection."""
REFUSED_TOKENS_MAX = 3
"""As many refused tokens in a row are final."""

Token: TypeAlias = str | Callable[[], str | Awaitable[str]]
_Told: TypeAlias = tuple[Event | Gap, str | None] | Exception | None
"""What is heard and where the stream stands behind it, or the end."""
OnState: TypeAlias = Callable[[str, Exception | None], None]


class AsyncListener(AsyncClosing):
    """What is sent about `ids` and all that they follow: `Event`s, and a `Gap` where some are lost.

    It comes back by itself, with growing random waits, and goes on after the last event that it
    gave. What the server refuses for good is raised as `Refused`; a proxy's 404 or 503 passes.

    `token` is what gets a token, asked before each connect. `after` is the `place` of an earlier
    listener. A stream that is silent for `silence` seconds is taken for dead: that must be more
    than the server's `--keepalive`. `on_state` hears `"connecting"`, `"open"` and `"waiting"`, the
    last one with the reason.
    """

    def __init__(
        self,
        url: str,
        ids: Id | Iterable[Id],
        *,
        token: Token | None = None,
        after: str | None = None,
        silence: float = 36.0,
        timeout: float = 10.0,
        tls: ssl.SSLContext | None = None,
        on_state: OnState | None = None,
    ) -> None:
        names = [ids] if isinstance(ids, (str, int)) else list(ids)
        if not names:
            raise ValueError("give at least one id")
        first, *further = (str(name) for name in names)
        query = urlencode([("id", name) for name in further])
        self._target = f"/stream/{quote(first, safe='')}" + (f"?{query}" if query else "")
        self._http = Http(Server.at(url, tls), timeout)
        if isinstance(token, str):
            bearer(token)
        after = visible(after, "a place") if after else None
        self._token = token
        self._silence = silence
        self._on_state = on_state
        self._heard = after
        self._items: asyncio.Queue[_Told] | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self.place = after
        """After which event it goes on: keep it, and give it as `after` to the next process."""

    def __aiter__(self) -> AsyncIterator[Event | Gap]:
        return self

    async def __anext__(self) -> Event | Gap:
        if self._items is None:
            # A task of its own, so that a wait for the next event may be given up.
            self._items = asyncio.Queue(AHEAD_MAX)
            self._task = asyncio.create_task(self._run(self._items))
        told = None if self._closed else await self._items.get()
        if told is None:
            raise StopAsyncIteration
        if isinstance(told, Exception):
            await self.close()
            raise told
        item, self.place = told
        return item

    async def close(self) -> None:
        """Ends the stream: a loop over it ends too."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._items is not None:
            while not self._items.empty():
                self._items.get_nowait()
            self._items.put_nowait(None)

    async def _run(self, items: asyncio.Queue[_Told]) -> None:
        try:
            await self._go_on(items)
        except Exception as error:
            await items.put(error)

    async def _go_on(self, items: asyncio.Queue[_Told]) -> None:
        """Attempt after attempt, until one is refused for good."""
        loop = asyncio.get_running_loop()
        tries = refused_tokens = 0
        while True:
            opened = None
            why: Exception
            asked = None
            self._tell("connecting")
            try:
                async with aclosing(self._stream()) as stream:
                    async for item in stream:
                        if item is None:
                            opened, refused_tokens = loop.time(), 0
                            self._tell("open")
                        else:
                            tries = 0
                            await items.put((item, self._heard))
                why = ConnectionFailed("the server ended the stream")
            except Refused as error:
                if error.status == 401 and callable(self._token):
                    refused_tokens += 1
                    if refused_tokens >= REFUSED_TOKENS_MAX:
                        raise
                elif error.is_final:
                    raise
                why, asked = error, error.retry_after
            except EnckeError as error:
                why = error
            if opened is not None and loop.time() - opened > STEADY_S:
                tries = 0
            self._tell("waiting", why)
            await asyncio.sleep(backoff(tries, FIRST_WAIT_S, MOST_WAIT_S, asked))
            tries += 1

    async def _stream(self) -> AsyncGenerator[Event | Gap | None, None]:
        """One connection: None when it is open, then what comes over it."""
        headers = {"Accept": "application/x-ndjson", "User-Agent": "encke-python/0.1.0"}
        if self._token is not None:
            headers["Authorization"] = await self._ask(self._token)
        if self._heard is not None:
            headers["Last-Event-ID"] = self._heard
        exchange = await self._http.begin("GET", self._target, headers, fresh=True)
        try:
            if exchange.status != 200:
                raise refusal(exchange.status, exchange.headers, await exchange.read())
            if not exchange.headers.get("content-type", "").startswith("application/x-ndjson"):
                raise ConnectionFailed("that is no stream: is the address Encke's public port?")
            # Where the stream begins: without it, a cut before the first event loses unseen.
            begin = exchange.headers.get("encke-next")
            if self._heard is None:
                self._heard = self.place = begin
            # Behind a gap it begins elsewhere; who has not read of that gap is told of it again.
            behind_gap = begin if exchange.headers.get("encke-gap") == "true" else None
            yield None
            async with aclosing(exchange.lines(self._silence)) as lines:
                async for line in lines:
                    item = _parse(line)
                    if isinstance(item, Event):
                        self._heard = item.id
                    elif item is not None:
                        self._heard = behind_gap or self._heard
                    behind_gap = behind_gap if item is None else None
                    if item is not None:
                        yield item
        finally:
            await exchange.close()

    async def _ask(self, token: Token) -> str:
        if isinstance(token, str):
            return bearer(token)
        try:
            given = token()
            return bearer(await given if inspect.isawaitable(given) else given)
        except Exception as error:
            raise ConnectionFailed(f"no token: {error}", sent=False) from error

    def _tell(self, state: str, why: Exception | None = None) -> None:
        if self._on_state is not None:
            self._on_state(state, why)


def _parse(line: bytes) -> Event | Gap | None:
    """What a line says; None for a keep-alive, and for what a later server may add."""
    if not line.strip():
        return None
    try:
        told = json.loads(line)
    except (ValueError, RecursionError) as error:
        # An event's JSON may be good and more than Python reads: nested too deeply, a number of
        # thousands of digits. It would come again for ever, and anybody may send one.
        if line.startswith(b'{"id":') and not isinstance(error, json.JSONDecodeError):
            return Gap()
        raise ConnectionFailed("a line of the stream is no JSON") from error
    if not isinstance(told, dict):
        return None
    if told.get("gap") is True:
        return Gap()
    return as_event(told)

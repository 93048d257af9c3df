"""The same for programs that block: a thread runs the loop in which `AsyncClient` lives.

One thread serves all clients and listeners of a process, and a process that was forked gets one of
its own. A call costs two changes of threads, some 50 µs beside the network.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from concurrent.futures import Future
from typing import Any, TypeVar

from ._async import AsyncClient, Listed
from ._closing import Closing
from ._errors import Refused
from ._listen import AsyncListener, OnState
from ._types import (
    Closed,
    Connections,
    Event,
    EventPage,
    Gap,
    Id,
    Members,
    Message,
    Page,
    Sent,
    Subscription,
)

T = TypeVar("T")

THREAD = "encke"

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _forget() -> None:
    """In a child the parent's thread does not run, and its lock may be held for ever."""
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


def _run(work: Coroutine[Any, Any, T]) -> T:
    global _loop
    future: Future[T] | None = None
    try:
        with _lock:
            if _loop is None:
                _loop = asyncio.new_event_loop()
                threading.Thread(target=_loop.run_forever, name=THREAD, daemon=True).start()
            if threading.current_thread().name == THREAD:
                work.close()
                why = "`token` and `on_state` may not call what waits for their thread"
                raise RuntimeError(why)
            future = asyncio.run_coroutine_threadsafe(work, _loop)
        return future.result()
    except BaseException:
        # Ctrl-C ends the wait; what was waited for ends too.
        if future is not None:
            future.cancel()
        raise


async def _step(steps: AsyncIterator[T]) -> tuple[T] | None:
    try:
        return (await anext(steps),)
    except StopAsyncIteration:
        return None


async def _close(steps: AsyncGenerator[T, None]) -> None:
    # A step that was given up is still ending.
    while getattr(steps, "ag_running", False):
        await asyncio.sleep(0)
    await steps.aclose()


def _iterate(steps: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    try:
        while (item := _run(_step(steps))) is not None:
            yield item[0]
    finally:
        _run(_close(steps))


async def _in_threads(messages: Iterable[Message]) -> AsyncIterator[Message]:
    """An iterator that may block, asked in a thread that may wait for it."""
    iterator = iter(messages)
    while (message := await asyncio.to_thread(next, iterator, None)) is not None:
        yield message


class Client(Closing):
    """The API of a server; `AsyncClient` says what `key`, `timeout` and `retries` do.

    Threads may share it.
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
        self._client = AsyncClient(api, key=key, timeout=timeout, retries=retries, tls=tls)

    def close(self) -> None:
        """Ends the connections that it keeps."""
        _run(self._client.close())

    def send(
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
        return _run(
            self._client.send(
                about, data, key=key, event=event, except_=except_, durable=durable
            )
        )

    def send_stream(
        self, messages: Iterable[Message]
    ) -> Generator[Sent | Refused, None, None]:
        """Sends events over one request, and yields an answer for each, in their order.

        Answers come while messages are still taken, in another thread, from an iterator that may
        wait. Otherwise it is as `AsyncClient.send_stream`.
        """
        ready = isinstance(messages, Sequence)
        return _iterate(self._client.send_stream(messages if ready else _in_threads(messages)))

    def subscribe(self, subscriber: Id, subscribee: Id) -> bool:
        """Lets `subscriber` hear `subscribee`; whether that was new. It is on disk then."""
        return _run(self._client.subscribe(subscriber, subscribee))

    def unsubscribe(self, subscriber: Id, subscribee: Id) -> bool:
        """The opposite; whether there was such a subscription."""
        return _run(self._client.unsubscribe(subscriber, subscribee))

    def subscribe_many(self, pairs: Iterable[Subscription]) -> int:
        """Adds all of them or none, at most 8 MiB of JSON; returns how many were new."""
        return _run(self._client.subscribe_many(list(pairs)))

    def unsubscribe_many(self, pairs: Iterable[Subscription]) -> int:
        """Removes all of them or none; returns how many there were."""
        return _run(self._client.unsubscribe_many(list(pairs)))

    def subscribers(self, id: Id) -> Iterator[str]:
        """Who follows `id`, page by page."""
        return _iterate(self._client.subscribers(id))

    def subscriptions(self, id: Id) -> Iterator[str]:
        """Whom `id` follows, page by page."""
        return _iterate(self._client.subscriptions(id))

    def page(self, of: Listed, id: Id, *, after: str | None = None, limit: int = 1000) -> Page:
        """One page of `"subscribers"` or `"subscriptions"`, of at most 10,000 ids."""
        return _run(self._client.page(of, id, after=after, limit=limit))

    def connections(self, id: Id) -> Connections:
        """How many connections `id` has: whether it is online."""
        return _run(self._client.connections(id))

    def members(self, id: Id) -> Members:
        """Who is in the room `id`: the users that are logged in under it, each once."""
        return _run(self._client.members(id))

    def events(
        self,
        id: Id,
        *,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> EventPage:
        """A page of what was sent about `id`, between the events `after` and `before`."""
        page = self._client.events(
            id, after=after, before=before, limit=limit, newest_first=newest_first
        )
        return _run(page)

    def logout(self, id: Id) -> Closed:
        """Ends all connections of `id`."""
        return _run(self._client.logout(id))

    def revoke_tokens(
        self,
        *,
        jti: str | None = None,
        exp: int | None = None,
        sub: Id | None = None,
        before: int | None = None,
    ) -> None:
        """Refuses a token by its `jti`, or those of `sub`, from now on, and ends their streams."""
        _run(self._client.revoke_tokens(jti=jti, exp=exp, sub=sub, before=before))

    def stats(self) -> dict[str, Any]:
        """The server's figures."""
        return _run(self._client.stats())

    def cluster(self) -> dict[str, Any]:
        """The nodes of the server's cluster."""
        return _run(self._client.cluster())

    def is_ready(self) -> bool:
        """Whether the server takes work; false too where it cannot be reached."""
        return _run(self._client.is_ready())


class Listener(Closing):
    """What is sent about `ids` and all that they follow; `AsyncListener` says the rest.

    `token` and `on_state` are called in the thread of the loop: what blocks there keeps all others
    waiting.
    """

    def __init__(
        self,
        url: str,
        ids: Id | Iterable[Id],
        *,
        token: str | Callable[[], str] | None = None,
        after: str | None = None,
        silence: float = 36.0,
        timeout: float = 10.0,
        tls: ssl.SSLContext | None = None,
        on_state: OnState | None = None,
    ) -> None:
        self._listener = AsyncListener(
            url,
            ids,
            token=token,
            after=after,
            silence=silence,
            timeout=timeout,
            tls=tls,
            on_state=on_state,
        )

    @property
    def place(self) -> str | None:
        """After which event it goes on: keep it, and give it as `after` to the next process."""
        return self._listener.place

    def __iter__(self) -> Iterator[Event | Gap]:
        return self

    def __next__(self) -> Event | Gap:
        item = _run(_step(self._listener))
        if item is None:
            raise StopIteration
        return item[0]

    def close(self) -> None:
        """Ends the stream; a loop over it in another thread ends too."""
        _run(self._listener.close())

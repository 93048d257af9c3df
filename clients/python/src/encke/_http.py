"""HTTP/1.1 over asyncio: connections, and exchanges that read while they still send.

h11 keeps the rules of the protocol (RFC 9112). This opens sockets, keeps those that may serve
again, and turns whatever fails into `ConnectionFailed`. It follows no redirects and knows no
proxies: what it talks to is a server of one's own.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from time import monotonic
from urllib.parse import urlsplit

import h11

from ._errors import ConnectionFailed

IDLE_MAX_S = 10.0
"""A connection that was silent for longer is not used again: the server may be ending it."""
IDLE_MAX = 32
"""So many silent connections are kept."""
READ_BYTES = 65_536
BODY_BYTES_MAX = 64 * 1024 * 1024
"""An answer that is read whole; the longest, a page of 10,000 ids, has 2.6 MB."""
LINE_BYTES_MAX = 64 * 1024 * 1024
"""A line of a stream: no event is longer than the server's `--max-backlog`."""

_BROKEN = (OSError, EOFError, h11.ProtocolError, asyncio.TimeoutError)

_VISIBLE = re.compile("[!-~]+")


def visible(text: str, what: str) -> str:
    """`text` if it can stand in a header; who is told that it cannot is not told the text."""
    if not text:
        raise ValueError(f"{what} is empty: leave it out where there is none")
    if not _VISIBLE.fullmatch(text):
        raise ValueError(f"{what} has visible ASCII characters alone: is a line break behind it?")
    return text


def bearer(secret: str) -> str:
    """What shows a key or a token."""
    return "Bearer " + visible(secret, "a key or token")


@dataclass(frozen=True, slots=True)
class Server:
    """Where requests go."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    authority: str
    path: str

    @classmethod
    def at(cls, url: str, context: ssl.SSLContext | None) -> Server:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address: give one as http://127.0.0.1:8001")
        if parts.query or parts.fragment or parts.username is not None:
            raise ValueError("give the address without user, `?` and `#`")
        secure = parts.scheme == "https"
        tls = (context or ssl.create_default_context()) if secure else None
        port = parts.port or (443 if secure else 80)
        return cls(parts.hostname, port, tls, parts.netloc, parts.path.rstrip("/"))


class Http:
    """Requests to one server; connections that are silent serve again."""

    def __init__(self, server: Server, timeout: float) -> None:
        self.server = server
        self.timeout = timeout
        self._idle: list[_Wire] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    async def begin(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | AsyncGenerator[bytes, None] | None = None,
        *,
        fresh: bool = False,
    ) -> Exchange:
        """Sends a request and returns when the head of its answer has come."""
        wire = (None if fresh else self._take()) or await self._connect()
        fields = [("Host", self.server.authority), *headers.items()]
        if isinstance(body, bytes):
            fields.append(("Content-Length", str(len(body))))
        elif body is not None:
            fields.append(("Transfer-Encoding", "chunked"))
        exchange = Exchange(self, wire)
        try:
            wire.send(h11.Request(method=method, target=self.server.path + target, headers=fields))
            async with asyncio.timeout(self.timeout):
                await exchange._start(body)
        except BaseException as error:
            try:
                exchange.sent()
            finally:
                await exchange.close()
            if isinstance(error, _BROKEN):
                raise _failed(error) from error
            raise
        return exchange

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> _Wire | None:
        if self._loop is not asyncio.get_running_loop():
            # Those of another loop, or of the process that this one was forked from.
            self._idle.clear()
            self._loop = asyncio.get_running_loop()
        while self._idle:
            wire = self._idle.pop()
            if monotonic() - wire.since < IDLE_MAX_S and not wire.reader.at_eof():
                return wire
            wire.close()
        return None

    def _keep(self, wire: _Wire) -> None:
        wire.h11.start_next_cycle()
        wire.since = monotonic()
        if len(self._idle) < IDLE_MAX and self._loop is asyncio.get_running_loop():
            self._idle.append(wire)
        else:
            wire.close()

    async def _connect(self) -> _Wire:
        server = self.server
        try:
            async with asyncio.timeout(self.timeout):
                reader, writer = await asyncio.open_connection(
                    server.host, server.port, ssl=server.tls
                )
        except _BROKEN as error:
            raise _failed(error, sent=False) from error
        return _Wire(reader, writer)


class _Wire:
    """A connection and where its protocol stands."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.h11 = h11.Connection(h11.CLIENT)
        self.since = monotonic()

    def send(self, event: h11.Event) -> None:
        data = self.h11.send(event)
        if data:
            self.writer.write(data)

    async def next_event(self) -> object:
        while True:
            event = self.h11.next_event()
            if event is not h11.NEED_DATA:
                return event
            self.h11.receive_data(await self.reader.read(READ_BYTES))

    def close(self) -> None:
        # At once: nobody waits for what could still be written.
        self.writer.transport.abort()


class Exchange:
    """One request and its answer."""

    def __init__(self, http: Http, wire: _Wire) -> None:
        self._http = http
        self._wire: _Wire | None = wire
        self._sending: asyncio.Task[None] | None = None
        self.status = 0
        self.headers: dict[str, str] = {}

    async def _start(self, body: bytes | AsyncGenerator[bytes, None] | None) -> None:
        wire = self._wire
        assert wire is not None, "an exchange starts with its connection"
        if body is None or isinstance(body, bytes):
            if body:
                wire.send(h11.Data(data=body))
            wire.send(h11.EndOfMessage())
            await wire.writer.drain()
        else:
            self._sending = asyncio.create_task(self._send(wire, body))
        while True:
            event = await wire.next_event()
            if isinstance(event, h11.Response):
                break
            if not isinstance(event, h11.InformationalResponse):
                raise EOFError("the connection ended before the answer")
        self.status = event.status_code
        pairs = ((name.decode(), value.decode("latin-1")) for name, value in event.headers)
        self.headers = dict(pairs)

    @staticmethod
    async def _send(wire: _Wire, body: AsyncGenerator[bytes, None]) -> None:
        try:
            async with aclosing(body):
                async for data in body:
                    wire.send(h11.Data(data=data))
                    await wire.writer.drain()
            wire.send(h11.EndOfMessage())
            await wire.writer.drain()
        except (OSError, h11.LocalProtocolError):
            # What the server says of it, or how the connection ended, is read.
            raise
        except BaseException:
            # The server would wait for the rest, and who waits for its answers with it.
            wire.close()
            raise

    async def chunks(
        self, silence: float | None = None, owed: Callable[[], bool] = lambda: True
    ) -> AsyncGenerator[bytes, None]:
        """The body as it comes; nothing for `silence` seconds is a failure while some is owed."""
        while self._wire is not None:
            is_owed = owed()
            try:
                async with asyncio.timeout(silence):
                    event = await self._wire.next_event()
            except _BROKEN as error:
                if _is_late(error) and not is_owed:
                    continue
                why = f"nothing came for {silence} s" if _is_late(error) else None
                raise _failed(error, why) from error
            if not isinstance(event, h11.Data):
                break
            yield bytes(event.data)

    async def lines(
        self, silence: float, owed: Callable[[], bool] = lambda: True
    ) -> AsyncGenerator[bytes, None]:
        """The body's whole lines, empty ones too; what is no whole line at its end is dropped."""
        rest = bytearray()
        async with aclosing(self.chunks(silence, owed)) as chunks:
            async for data in chunks:
                *whole, last = data.split(b"\n")
                for line in whole:
                    yield bytes(rest) + line
                    rest.clear()
                rest += last
                if len(rest) > LINE_BYTES_MAX:
                    raise ConnectionFailed(f"a line has more than {LINE_BYTES_MAX} bytes")

    async def read(self) -> bytes:
        """The whole body; the connection may serve again then."""
        body = bytearray()
        try:
            async with asyncio.timeout(self._http.timeout):
                async for data in self.chunks():
                    body += data
                    if len(body) > BODY_BYTES_MAX:
                        raise ConnectionFailed(f"the answer has more than {BODY_BYTES_MAX} bytes")
        except TimeoutError as error:
            raise _failed(error) from error
        wire = self._wire
        if wire and wire.h11.our_state is h11.DONE and wire.h11.their_state is h11.DONE:
            self._wire = None
            self._http._keep(wire)
        return bytes(body)

    def sent(self) -> None:
        """Raises what the body's own iterator raised, if it did."""
        if self._sending is not None and self._sending.done() and not self._sending.cancelled():
            error = self._sending.exception()
            if error is not None and not isinstance(error, _BROKEN):
                raise error

    async def close(self) -> None:
        """Ends the connection, unless it serves again."""
        wire, self._wire = self._wire, None
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait({self._sending})
            if not self._sending.cancelled():
                self._sending.exception()
        if wire is not None:
            wire.close()


def _is_late(error: BaseException) -> bool:
    """Whether our own time is up, and not the kernel's."""
    return isinstance(error, TimeoutError) and not str(error)


def _failed(error: BaseException, why: str | None = None, *, sent: bool = True) -> ConnectionFailed:
    if why is None:
        why = "no answer in time" if _is_late(error) else str(error) or type(error).__name__
    return ConnectionFailed(why, sent=sent)

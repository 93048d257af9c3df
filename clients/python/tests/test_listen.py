"""Streams that are cut, killed, refused and silent, against the real server."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from conftest import IN_TIME_S, Relay, Server, Start, free_address

from encke import AsyncClient, AsyncListener, Event, Gap, Listener, Refused, Sent


class States:
    """What a listener told of itself, to be waited for."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.why: Exception | None = None
        self.whys: list[str] = []
        self._changed = asyncio.Event()

    def __call__(self, state: str, why: Exception | None) -> None:
        self.told.append(state)
        self.why = why or self.why
        self.whys.append(str(why))
        self._changed.set()

    async def reach(self, state: str, times: int = 1) -> None:
        async with asyncio.timeout(IN_TIME_S):
            while self.told.count(state) < times:
                self._changed.clear()
                await self._changed.wait()


async def numbers(listener: AsyncListener, count: int) -> list[object]:
    heard: list[object] = []
    async with asyncio.timeout(IN_TIME_S):
        while len(heard) < count:
            item = await anext(listener)
            heard.append(item.data if isinstance(item, Event) else item)
    return heard


def test_cut_stream_goes_on_after_the_last_event(server: Server, relay: Relay) -> None:
    async def work() -> None:
        states = States()
        async with AsyncClient(server.api_url) as client:
            await client.subscribe("bob", "rj")
            async with AsyncListener(relay.url, "bob", on_state=states) as listener:
                early = asyncio.create_task(client.send("rj", "early"))
                first = asyncio.ensure_future(numbers(listener, 1))
                await states.reach("open")
                # By a connection of its own it could come behind what is sent later.
                await early
                await client.send("rj", 0)
                heard = await first
                if heard == ["early"]:
                    heard = await numbers(listener, 1)
                assert heard == [0]
                for round in range(3):
                    relay.cut()
                    for number in range(10):
                        await client.send("bob" if number % 2 else "rj", [round, number])
                    relay.mend()
                    expected = [[round, number] for number in range(10)]
                    assert await numbers(listener, 10) == expected, "each once, in order, no gap"

    asyncio.run(work())


@asynccontextmanager
async def opened(server: Server) -> AsyncIterator[tuple[AsyncClient, AsyncListener, States, Sent]]:
    """A listener that has heard its first event, and who sent that."""
    states = States()
    async with AsyncClient(server.api_url) as client:
        async with AsyncListener(server.url, "bob", on_state=states) as listener:
            first = asyncio.ensure_future(numbers(listener, 1))
            await states.reach("open")
            sent = await client.send("bob", 0)
            assert await first == [0]
            yield client, listener, states, sent


def test_kill_of_the_server_is_told_as_a_gap(server: Server) -> None:
    async def work() -> None:
        async with opened(server) as (client, listener, states, _):
            server.kill()
            await states.reach("waiting")
            server.start()
            assert await numbers(listener, 1) == [Gap()]
            await client.send("bob", 2)
            assert await numbers(listener, 1) == [2]

    asyncio.run(work())


def test_next_process_goes_on_where_the_last_one_was(server: Server) -> None:
    async def work() -> None:
        async with opened(server) as (client, listener, _, first):
            for number in (1, 2):
                await client.send("bob", number)
            async with asyncio.timeout(IN_TIME_S):
                while listener._items is None or listener._items.qsize() < 2:
                    await asyncio.sleep(0.01)
            assert listener.place == first.id, "what was not taken is not passed over"
            place = listener.place
        async with AsyncClient(server.api_url) as client:
            await client.send("bob", 3)
        async with AsyncListener(server.url, "bob", after=place) as listener:
            assert await numbers(listener, 3) == [1, 2, 3]

    asyncio.run(work())


def test_event_that_python_cannot_read_is_told_as_a_gap(server: Server) -> None:
    """Anybody may send JSON that is nested deeply, or a long number: the next event is heard."""

    def send(data: str) -> None:
        body = f'{{"about":"bob","data":{data}}}'.encode()
        kind = {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"{server.api_url}/send", body, kind)).close()

    async def work() -> None:
        async with opened(server) as (_, listener, states, _):
            for data in ("[" * 20_000 + "]" * 20_000, "1" * 5_000):
                await asyncio.to_thread(send, data)
                assert await numbers(listener, 1) == [Gap()]
            await asyncio.to_thread(send, "1")
            assert await numbers(listener, 1) == [1]
            assert states.told.count("open") == 1

    asyncio.run(work())


def test_line_without_an_end_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("encke._http.LINE_BYTES_MAX", 1000)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n"

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + b"x" * 1001)
        await reader.read()
        writer.close()

    async def work() -> None:
        states = States()
        server = await asyncio.start_server(endless, "127.0.0.1", 0)
        url = "http://127.0.0.1:%d" % server.sockets[0].getsockname()[1]
        async with server, AsyncListener(url, "b", on_state=states) as listener:
            waiting = asyncio.ensure_future(anext(listener))
            await states.reach("waiting")
            assert "more than 1000 bytes" in str(states.why)
            await listener.close()
            with pytest.raises(StopAsyncIteration):
                await waiting

    asyncio.run(work())


def test_wait_for_an_event_may_be_given_up(server: Server) -> None:
    async def work() -> None:
        states = States()
        async with AsyncClient(server.api_url) as client:
            async with AsyncListener(server.url, "bob", on_state=states) as listener:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(listener), 0.05)
                await states.reach("open")
                await client.send("bob", 1)
                assert await numbers(listener, 1) == [1]

    asyncio.run(work())


def test_refusal_of_the_server_is_final(server: Server) -> None:
    with Listener(server.url, "a/b") as listener, pytest.raises(Refused) as refused:
        next(listener)
    assert refused.value.status == 400 and refused.value.detail
    with Listener(server.url + "/elsewhere", "a") as listener, pytest.raises(Refused) as lost:
        next(listener)
    assert lost.value.status == 404


def test_token_or_place_that_no_header_can_hold_is_refused_and_not_told() -> None:
    for token, after in (("hidden\n", None), ("hiddenü", None), (None, "hidden\r\nX: y")):
        with pytest.raises(ValueError, match="line break") as refused:
            AsyncListener("http://127.0.0.1:1", "b", token=token, after=after)
        assert "hidden" not in repr(refused.value)

    async def work() -> None:
        states = States()
        url = "http://127.0.0.1:1"
        async with AsyncListener(url, "b", token=lambda: "hidden\n", on_state=states) as one:
            waiting = asyncio.ensure_future(anext(one))
            await states.reach("waiting")
            assert "line break" in str(states.why) and "hidden" not in repr(states.why)
            await one.close()
            with pytest.raises(StopAsyncIteration):
                await waiting

    asyncio.run(work())


def test_silent_stream_is_left(server: Server) -> None:
    """A peer that takes the request and says nothing more, and one that does not even answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(1)
        if len(came) > 1:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n")
        await reader.read()
        writer.close()

    async def work() -> None:
        proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = "http://127.0.0.1:%d" % proxy.sockets[0].getsockname()[1]
        states = States()
        listener = AsyncListener(url, "b", silence=0.2, timeout=0.2, on_state=states)
        async with proxy, listener:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(listener), 0.01)
            await states.reach("waiting", 1)
            assert "in time" in states.whys[states.told.index("waiting")]
            await states.reach("open")
            opened = states.told.index("open")
            # On a busy machine others before it may have been given up, too.
            await states.reach("waiting", states.told[:opened].count("waiting") + 1)
            left = states.told.index("waiting", opened)
            assert "nothing came for 0.2 s" in states.whys[left]

    came: list[int] = []
    asyncio.run(work())


def test_keep_alive_is_no_event_and_keeps_the_stream(start: Start) -> None:
    async def work() -> None:
        server = start("--keepalive=1")
        states = States()
        began = time.monotonic()
        async with AsyncClient(server.api_url) as client:
            listener = AsyncListener(server.url, "b", silence=30, on_state=states)
            async with listener:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(listener), 2.5)
                # It is heard also where the machine was too busy for the stream until now.
                await states.reach("open")
                await client.send("b", 1)
                assert await numbers(listener, 1) == [1]
        if time.monotonic() - began < 30:
            assert states.told == ["connecting", "open"]

    asyncio.run(work())


def test_token_is_asked_for_at_each_connect_and_refused_ones_are_final(
    start: Start, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123456789abcdef")
    server = start("--token-key", str(secret))
    good = server_token(server, secret, "bob")
    given: list[str] = []

    async def token() -> str:
        given.append(good if len(given) in (1, 2) else "wrong")
        return given[-1]

    async def work() -> None:
        states = States()
        async with AsyncClient(server.api_url) as client:
            listener = AsyncListener(server.url, "bob", token=token, on_state=states)
            async with listener:
                one = asyncio.ensure_future(numbers(listener, 1))
                await states.reach("open")
                assert given == ["wrong", good], "a refused token is asked for anew"
                await client.send("bob", 1)
                assert await one == [1]
                await client.logout("bob")
                await states.reach("open", 2)
                await client.logout("bob")
                with pytest.raises(Refused) as refused:
                    await numbers(listener, 1)
                assert refused.value.status == 401 and given[3:] == ["wrong"] * 3
            with pytest.raises(Refused) as forbidden:
                await numbers(AsyncListener(server.url, "eve", token=good), 1)
            assert forbidden.value.status == 403 and good not in str(forbidden.value)

    asyncio.run(work())


def server_token(server: Server, secret: Path, sub: str) -> str:
    import subprocess

    from conftest import PROGRAM

    args = [PROGRAM, "token", "new", "--token-key", str(secret), "--sub", sub]
    return subprocess.run(args, check=True, capture_output=True, text=True).stdout.strip()


def test_port_without_a_server_is_tried_again() -> None:
    async def work() -> None:
        states = States()
        url = f"http://{free_address()}"
        async with AsyncListener(url, "b", on_state=states) as listener:
            waiting = asyncio.ensure_future(anext(listener))
            await states.reach("waiting", 2)
            await listener.close()
            with pytest.raises(StopAsyncIteration):
                await waiting

    asyncio.run(work())

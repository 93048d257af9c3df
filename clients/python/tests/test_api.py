"""The API through both clients, against the real server."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import queue
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import pytest
from conftest import IN_TIME_S, Server, Start, in_thread, until

import encke
from encke import AsyncClient, Client, ConnectionFailed, Message, Refused, Sent, Subscription
from encke._async import CALLS

LEFT_OUT = {
    "metrics": "for Prometheus",
    "presence": "a stream of its own: `curl -N`, or a webhook, as docs/presence.md has them",
    "healthz": "for what starts and stops the server",
    "openapi": "for programs that read it",
    "tune": "`encke tune` asks it",
    "graphStats": "`encke graph stats --api` asks it",
    "backupGraph": "`encke graph backup --api` asks it",
    "exportGraph": "`encke graph export --api` asks it",
    "createStream": "Durable Streams have clients of their own",
    "appendToStream": "Durable Streams have clients of their own",
    "readStream": "Durable Streams have clients of their own",
    "headOfStream": "Durable Streams have clients of their own",
    "deleteStream": "Durable Streams have clients of their own",
    "publishUpdate": "Mercure has clients of its own",
    "hubSubscriptions": "Mercure has clients of its own",
    "hubSubscription": "Mercure has clients of its own",
    "hubMetadata": "Mercure has clients of its own",
    "triggerChannels": "Pusher Channels has clients of its own",
    "triggerBatch": "Pusher Channels has clients of its own",
    "channels": "Pusher Channels has clients of its own",
    "channel": "Pusher Channels has clients of its own",
    "triggerChannel": "Pusher Channels has clients of its own",
    "channelUsers": "Pusher Channels has clients of its own",
    "appConnections": "Pusher Channels has clients of its own",
    "terminateUser": "Pusher Channels has clients of its own",
    "terminateUserByKey": "Pusher Channels has clients of its own",
    "dashboard": "a page",
    "loginPage": "a page",
    "login": "a page's",
    "endSession": "a page's",
    "dashboardScript": "a page's",
    "dashboardStyle": "a page's",
    "dashboardIcon": "a page's",
    "dashboardFacts": "a page's",
}
"""Operations that an application does not call, and why."""


def test_each_operation_of_openapi_is_a_method_or_left_out(schema: dict[str, Any]) -> None:
    told = {
        operation["operationId"]
        for path in schema["paths"].values()
        for operation in path.values()
        if isinstance(operation, dict) and "operationId" in operation
    }
    assert len(told) > 15, "the server tells its operations"
    unknown = told - CALLS.keys() - LEFT_OUT.keys()
    assert not unknown, f"give them a method, or a reason: {unknown}"
    assert CALLS.keys() <= told, "no method calls what the server has not"
    for name in CALLS.values():
        assert callable(getattr(AsyncClient, name)) and callable(getattr(Client, name)), name


def test_shapes_are_those_of_openapi(schema: dict[str, Any]) -> None:
    shapes = {"Event": Message} | {
        shape.__name__: shape
        for shape in (encke.Sent, encke.Subscription, encke.Page, encke.Connections, encke.Closed)
    }
    for name, shape in shapes.items():
        # A name that Python has for itself ends in an underscore.
        fields = {field.name.rstrip("_") for field in dataclasses.fields(shape)}
        # A string as data is heard as a text is.
        described = schema["components"]["schemas"][name]["properties"].keys() - {"text"}
        assert fields == described, name


def test_sync_and_async_clients_have_the_same_methods() -> None:
    def methods(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert methods(Client) == methods(AsyncClient)
    assert methods(encke.Listener) - {"place"} == methods(encke.AsyncListener)


def test_subscriptions_are_kept_listed_and_removed(server: Server) -> None:
    with Client(server.api_url) as client:
        assert client.subscribe("bob", "ря/%"[:2]) is True
        assert client.subscribe("bob", "ря") is False, "it was there"
        assert client.subscribe_many(Subscription(f"u{n}", 7) for n in range(2500)) == 2500
        assert len(set(client.subscribers(7))) == 2500, "three pages of a thousand"
        first = client.page("subscribers", "7", limit=2000)
        assert len(first.ids) == 2000 and first.next
        assert client.page("subscribers", 7, after=first.next).next is None
        assert list(client.subscriptions("bob")) == ["ря"]
        assert client.unsubscribe("bob", "ря") is True
        assert client.unsubscribe_many([Subscription("bob", "ря")]) == 0
        server.kill()
        server.start()
        assert list(client.subscriptions("u1")) == ["7"], "it was on disk when it was answered"


def test_event_is_heard_and_counted_and_connections_end(server: Server) -> None:
    with Client(server.api_url) as client, encke.Listener(server.url, ["bob", 7]) as listener:
        assert client.send("bob", 1).delivered == 0, "nobody is online"
        heard: queue.Queue[encke.Event | encke.Gap] = queue.Queue()
        thread = in_thread(listener, heard)
        until("bob is online", lambda: client.connections("bob").connections == 1)
        sent = client.send("bob", {"text": "Grüße 🛰"})
        assert sent.delivered == 1 and not sent.at_least
        event = heard.get(timeout=IN_TIME_S)
        assert event == encke.Event(sent.id, "bob", {"text": "Grüße 🛰"})
        until("its place is known", lambda: listener.place == sent.id)
        assert client.logout(7).closed == 1
        until("it comes back", lambda: client.connections(7).connections == 1)
        listener.close()
        thread.join(IN_TIME_S)
        assert not thread.is_alive(), "a listener that was closed ends its loop"


def test_event_with_a_key_is_posted_once(server: Server) -> None:
    with Client(server.api_url) as client:
        first = client.send("rj", 1, key="8e03978e ü"[:8])
        assert client.send("rj", 1, key="8e03978e") == first
        assert client.send("rj", 1).id != first.id
        with pytest.raises(Refused) as refused:
            client.send("rj", 2, key="8e03978e")
        assert refused.value.status == 422 and refused.value.is_final


def test_stream_of_sends_is_left_by_ctrl_c(server: Server) -> None:
    main = threading.get_ident()
    taken, never = threading.Event(), threading.Event()

    def messages() -> Iterator[Message]:
        yield Message("rj", 1)
        never.wait(IN_TIME_S)

    def waits() -> bool:
        frame = sys._current_frames()[main]
        while frame.f_code.co_name != "result" and frame.f_back is not None:
            frame = frame.f_back
        return frame.f_code.co_name == "result"

    def interrupt() -> None:
        taken.wait(IN_TIME_S)
        until("the next answer is waited for", waits)
        signal.pthread_kill(main, signal.SIGINT)

    # A shell has those that it runs in the background ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with Client(server.api_url) as client, pytest.raises(KeyboardInterrupt):
            for _ in client.send_stream(messages()):
                taken.set()
    finally:
        never.set()
        thread.join()
        signal.signal(signal.SIGINT, before)


def test_stream_of_sends_ends_when_an_answer_is_owed_and_does_not_come(server: Server) -> None:
    """And not when there is nothing to answer."""
    left = asyncio.Event()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n"

    async def idle(seconds: float = 0.5) -> AsyncIterator[Message]:
        await asyncio.sleep(seconds)
        yield Message("rj", 1)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head + b"\r\n")
        try:
            await reader.read()
        finally:
            writer.close()
            left.set()

    async def work() -> None:
        # Where the machine is too busy for an answer in time, there is more of it.
        for seconds in (0.2, 1.0, 5.0):
            try:
                async with AsyncClient(server.api_url, timeout=seconds) as client:
                    answered = [sent async for sent in client.send_stream(idle(2.5 * seconds))]
                assert len(answered) == 1
                break
            except ConnectionFailed:
                assert seconds < 5
        other = await asyncio.start_server(silent, "127.0.0.1", 0)
        url = "http://127.0.0.1:%d" % other.sockets[0].getsockname()[1]
        async with other:
            for seconds in (0.2, 1.0, 5.0):
                left.clear()
                async with AsyncClient(url, timeout=seconds) as client:
                    with pytest.raises(ConnectionFailed) as failed:
                        stream = client.send_stream(idle())
                        async with asyncio.timeout(IN_TIME_S), aclosing(stream) as answers:
                            await anext(answers)
                    # Where the machine is too busy even for a connection, there is more time.
                    if "nothing came" not in str(failed.value) and seconds < 5:
                        continue
                    assert f"nothing came for {seconds} s" in str(failed.value)
                    assert failed.value.answered == 0
                    await left.wait()
                    break

    asyncio.run(work())


def test_api_with_keys_refuses_who_has_none_and_serves_who_has(server: Server) -> None:
    key = server.run("key", "new", "--scope", "send")
    with Client(server.api_url) as keyless, Client(server.api_url, key=key) as client:
        with pytest.raises(Refused) as refused:
            keyless.send("rj", 1)
        assert refused.value.status == 401 and key not in str(refused.value)
        assert client.send("rj", 1).delivered == 0
        with pytest.raises(Refused) as forbidden:
            client.subscribe("bob", "rj")
        assert forbidden.value.status == 403
        with pytest.raises(Refused, match="key"):
            list(keyless.send_stream([Message("rj", 1)]))
    with pytest.raises(ValueError, match="line break") as wrong:
        Client(server.api_url, key=f"{key}\n")
    assert key not in repr(wrong.value)
    # As ENCKE_KEY is where a shell has set it to nothing.
    with pytest.raises(ValueError, match="empty"):
        Client(server.api_url, key="")


def test_stream_of_sends_answers_while_messages_are_taken(server: Server) -> None:
    """Each message is made only when the one before was answered: one batch would wait for ever."""
    turn: queue.Queue[int] = queue.Queue()
    turn.put(0)

    def messages() -> Iterator[Message]:
        for _ in range(50):
            yield Message("rj", {"n": turn.get(timeout=IN_TIME_S)})

    with Client(server.api_url) as client:
        answers = []
        for answer in client.send_stream(messages()):
            assert isinstance(answer, Sent)
            answers.append(answer.id)
            turn.put(len(answers))
    assert len(answers) == 50 and answers == sorted(answers)


def test_stream_of_sends_goes_on_behind_a_bad_line_and_is_read_while_it_is_sent(
    server: Server,
) -> None:
    async def work() -> None:
        async def messages() -> AsyncIterator[Message]:
            for number in range(30_000):
                yield Message("a/b" if number == 1000 else "rj", "x" * 100)

        async with AsyncClient(server.api_url) as client:
            answers = [answer async for answer in client.send_stream(messages())]
        bad = [number for number, answer in enumerate(answers) if isinstance(answer, Refused)]
        assert len(answers) == 30_000 and bad == [1000]
        assert isinstance(answers[1000], Refused) and answers[1000].line == 1001

    asyncio.run(work())


def test_stream_of_sends_raises_what_its_iterator_raises(server: Server) -> None:
    def messages() -> Iterator[Message]:
        yield Message("rj", 1)
        raise KeyError("the application's own")

    with Client(server.api_url) as client, pytest.raises(KeyError, match="own"):
        list(client.send_stream(messages()))
    with Client(server.api_url) as client, pytest.raises(ValueError, match="JSON"):
        client.send("rj", float("nan"))


def test_stream_of_sends_says_how_many_were_answered_when_the_server_is_killed(
    server: Server,
) -> None:
    async def work() -> int:
        async def messages() -> AsyncIterator[Message]:
            for number in itertools.count():
                if number == 100:
                    await killed.wait()
                yield Message("rj", number)

        killed = asyncio.Event()
        answered = 0
        async with AsyncClient(server.api_url) as client:
            with pytest.raises(ConnectionFailed) as failed:
                async with aclosing(client.send_stream(messages())) as answers:
                    async for _ in answers:
                        answered += 1
                        if answered == 100:
                            server.kill()
                            killed.set()
        assert failed.value.answered == answered
        return answered

    assert asyncio.run(work()) == 100


def test_client_survives_kill_and_restart_of_the_server(server: Server) -> None:
    with Client(server.api_url, retries=0) as client:
        assert client.is_ready()
        client.subscribe("bob", "rj")
        server.kill()
        assert not client.is_ready()
        with pytest.raises(ConnectionFailed) as failed:
            client.send("rj", 1)
        assert not failed.value.sent, "that may be sent again, it was not posted"
        server.start()
        assert client.send("rj", 1).delivered == 0
        assert list(client.subscribers("rj")) == ["bob"]


def test_figures_and_nodes_are_told(server: Server) -> None:
    with Client(server.api_url) as client:
        client.send("rj", 1)
        assert client.stats()["events"] == 1
        assert client.cluster()["members"] >= 0


def test_tokens_are_revoked(start: Start) -> None:
    with Client(start().api_url) as client, pytest.raises(Refused) as refused:
        client.revoke_tokens(sub="bob", jti="a")
    assert refused.value.status == 400

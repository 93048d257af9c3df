"""Every case of `clients/cases`, which the other clients run as well."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from cases import FOLDER, Answer, Asked, cases, played, waits_recorded
from conftest import IN_TIME_S

from encke import AsyncClient, AsyncListener, ConnectionFailed, EnckeError, Event, Gap, Message
from encke import Member, Members, Refused, Sent
from encke._backoff import backoff
from encke._http import Exchange, Http

RUN = {
    "addresses", "lines", "reads", "refusals", "resumes", "send_streams", "sends", "tokens",
    "waits",
}


def test_each_file_of_cases_is_run() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == RUN


@pytest.mark.parametrize("case", cases("waits"))
def test_waits(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", lambda: case["chance"])
    first, most, asked = (case[name] / 1000 for name in ("first_ms", "most_ms", "asked_ms"))
    wait = backoff(case["tries"], first, most, asked)
    assert round(1000 * wait) == case["wait_ms"]


class Pieces(Exchange):
    """An answer whose body comes in these pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._wire = self._sending = None
        self._pieces = pieces
        self.status = 200
        self.headers = {"content-type": "application/x-ndjson", "encke-next": "01"}

    async def chunks(self, *_: object) -> AsyncGenerator[bytes, None]:
        for piece in self._pieces:
            yield piece


def splits(data: bytes) -> Iterator[list[bytes]]:
    """At each place, and byte by byte."""
    yield from ([data[:at], data[at:]] for at in range(len(data) + 1))
    yield [data[at : at + 1] for at in range(len(data))]


@pytest.mark.parametrize("case", cases("lines"))
def test_lines(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(pieces: list[bytes]) -> None:
        async def begin(*_: object, **__: object) -> Exchange:
            return Pieces(pieces)

        monkeypatch.setattr(Http, "begin", begin)
        listener = AsyncListener("http://server.test", "bob")
        told: list[object] = []
        why = ""
        try:
            async for item in listener._stream():
                if isinstance(item, Event):
                    told.append(_event(item))
                elif item is not None:
                    told.append("gap")
        except ConnectionFailed as error:
            why = str(error)
        assert told == case["told"] and listener._heard == case["place"], pieces
        assert (case["fails"] in why) if "fails" in case else not why

    async def work() -> None:
        for pieces in splits("\n".join(case["ndjson"]).encode()):
            await read(pieces)

    asyncio.run(work())


@pytest.mark.parametrize("case", cases("addresses"))
def test_addresses(case: dict[str, Any]) -> None:
    asked: list[Asked] = []
    good = Answer(stream=["02"])

    async def work() -> None:
        async with played(asked, [good]) as url:
            async with AsyncListener(url + case["base"], case["ids"]) as listener:
                await asyncio.wait_for(anext(listener), IN_TIME_S)

    asyncio.run(work())
    path, _, query = asked[0].target.partition("?")
    assert [unquote(part) for part in path.split("/")[1:]] == case["path"]
    pairs = parse_qsl(query, strict_parsing=bool(query), keep_blank_values=True)
    assert pairs == [("id", one) for one in case["query"]]


@pytest.mark.parametrize("case", cases("resumes"))
def test_resumes(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    listen(case, monkeypatch)


@pytest.mark.parametrize("case", cases("refusals"))
def test_refusals(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    listen(case, monkeypatch)


@pytest.mark.parametrize("case", cases("tokens"))
def test_tokens(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    listen(case, monkeypatch)


def listen(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Plays a case to a listener, until all is heard that it names, or the refusal."""
    waits = waits_recorded(monkeypatch, "encke._listen")
    asked: list[Asked] = []
    answers = [Answer(**answer) for answer in case["answers"]]
    tokens = iter(case.get("tokens", []))

    def token() -> str:
        given = next(tokens)
        if given is None:
            raise LookupError("not now")
        assert isinstance(given, str)
        return given

    async def work() -> None:
        source = token if "tokens" in case else None
        async with played(asked, answers) as url:
            async with AsyncListener(url, "bob", token=source, after=case.get("after")) as listener:
                async with asyncio.timeout(IN_TIME_S):
                    await hear(listener)
                if "place" in case:
                    assert listener.place == case["place"]

    async def hear(listener: AsyncListener) -> None:
        for expected in case.get("heard", []):
            item = await anext(listener)
            assert (item.id if isinstance(item, Event) else "gap") == expected
            assert isinstance(item, (Event, Gap))
        if "refused" in case:
            with pytest.raises(Refused) as refused:
                await anext(listener)
            assert refused.value.status == case["refused"]["status"]
            assert case["refused"]["says"] in str(refused.value)

    asyncio.run(work())
    if "asked" in case:
        assert [one.head.get("Last-Event-ID") for one in asked] == case["asked"]
    if "shown" in case:
        assert [one.head.get("Authorization") for one in asked] == case["shown"]
    if "waits" in case:
        assert [round(wait) for wait in waits] == case["waits"]
    assert len(asked) == len(answers)


@pytest.mark.parametrize("case", cases("sends"))
def test_sends(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    waits = waits_recorded(monkeypatch, "encke._async")
    asked: list[Asked] = []
    answers = [Answer(**answer) for answer in case["answers"]]

    async def work() -> None:
        async with played(asked, answers) as url, AsyncClient(url, key="secret") as client:
            try:
                about = ["rj", *case["also"]] if "also" in case else "rj"
                named: dict[str, Any] = {name: case.get(name) for name in ("key", "event")}
                named["except_"] = case.get("except")
                sent = await client.send(about, {"n": 1}, **named)
                assert _sent(sent) == case.get("sent")
            except Refused as refused:
                assert _refused(refused, case)
            except ConnectionFailed:
                assert case.get("fails")

    asyncio.run(work())
    about = ["rj", *case["also"]] if "also" in case else "rj"
    further = {name: case[name] for name in ("key", "event", "except") if name in case}
    message = {"about": about, "data": {"n": 1}} | further
    for request in asked:
        assert request.target == "/send" and json.loads(request.body) == message
        assert request.head["Authorization"] == "Bearer secret"
        assert request.head["Content-Type"] == "application/json"
    assert len(asked) == len(answers)
    assert [round(wait) for wait in waits] == case.get("waits", [])


@pytest.mark.parametrize("case", cases("reads"))
def test_reads(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    waits_recorded(monkeypatch, "encke._async")
    asked: list[Asked] = []
    answers = [Answer(**answer) for answer in case["answers"]]

    async def work() -> dict[str, Any]:
        async with played(asked, answers) as url, AsyncClient(url, key="secret") as client:
            if "members" in case:
                return _members(await client.members(case["members"]))
            page = await client.events(case["events"], **case.get("options", {}))
            events = [_event(event) for event in page.events]
            return {"events": events, "next": page.next, "gap": page.gap}

    if "refused" in case:
        with pytest.raises(Refused) as refused:
            asyncio.run(work())
        assert _refused(refused.value, case)
    else:
        assert asyncio.run(work()) == case["told"]
    for request in asked:
        path, _, query = request.target.partition("?")
        assert [unquote(part) for part in path.split("/")[1:]] == case["path"]
        assert dict(parse_qsl(query)) == case.get("query", {})
        assert request.head["Authorization"] == "Bearer secret"
    assert len(asked) == len(answers)


def _members(told: Members) -> dict[str, Any]:
    def one(member: Member) -> dict[str, Any]:
        return {"id": member.id} | ({} if member.info is None else {"info": member.info})

    listed = None if told.list is None else [one(member) for member in told.list]
    return {"count": told.count, "list": listed}


def _event(event: Event) -> dict[str, Any]:
    told: dict[str, Any] = {"id": event.id, "about": event.about, "data": event.data}
    further = {"also": list(event.also), "event": event.event, "from": event.sender}
    return told | {name: value for name, value in further.items() if value}


def _sent(sent: Sent) -> dict[str, Any]:
    return {"delivered": sent.delivered, "id": sent.id, "at_least": sent.at_least}


def _refused(refused: Refused, case: dict[str, Any]) -> bool:
    expected = case["refused"]
    told = (refused.status, refused.is_final)
    return told == (expected["status"], expected["final"]) and expected["says"] in str(refused)


@pytest.mark.parametrize("case", cases("send_streams"))
def test_send_streams(case: dict[str, Any]) -> None:
    asked: list[Asked] = []
    told: list[dict[str, Any]] = []
    names = ("status", "problem", "lines", "end")
    answer = Answer(**{name: case[name] for name in names if name in case})
    messages = [Message("rj", n, "k" if n == 1 else None) for n in range(case["messages"])]

    async def work() -> None:
        async with played(asked, [answer]) as url, AsyncClient(url, key="secret") as client:
            async for one in client.send_stream(messages):
                if isinstance(one, Sent):
                    told.append(_sent(one))
                else:
                    says = {"status": one.status, "says": str(one), "line": one.line}
                    told.append(says | {"final": one.is_final})

    try:
        asyncio.run(work())
        assert "ended" not in case and "refused" not in case
    except ConnectionFailed as ended:
        assert ended.answered == case["ended"]["answered"]
        assert case["ended"]["says"] in str(ended)
    except EnckeError as refused:
        assert isinstance(refused, Refused) and _refused(refused, case)
    assert told == case["told"]
    sent = [json.loads(line) for line in asked[0].body.splitlines()]
    assert sent == [message.to_json() for message in messages]
    assert asked[0].head["Content-Type"] == "application/x-ndjson"

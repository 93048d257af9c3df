"""The cases that all clients have in common (`clients/cases`), and a server that plays them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "cases"
NDJSON = "application/x-ndjson"


@dataclass
class Answer:
    """What the server says to one request; as `clients/cases/README.md` has it."""

    status: int = 200
    head: dict[str, str] = field(default_factory=dict)
    next: str | None = None
    gap: bool = False
    stream: list[str] | None = None
    problem: dict[str, Any] | None = None
    json: dict[str, Any] | None = None
    type: str | None = None
    body: str = ""
    lines: list[str] | None = None
    end: str | None = None

    def to_bytes(self) -> bytes:
        """The answer in chunks, with the last one missing where it is cut."""
        kind, body = self.type, self.body
        if self.stream is not None:
            kind, body = NDJSON, "".join(map(_line, self.stream))
        elif self.problem is not None:
            kind, body = "application/problem+json", json.dumps(self.problem)
        elif self.json is not None:
            kind, body = "application/json", json.dumps(self.json)
        elif self.lines is not None:
            kind, body = NDJSON, "\n".join(self.lines)
        elif kind is None:
            return b""
        # A connection is good for one request, so that no client takes it for another.
        fields = {"Content-Type": kind, "Transfer-Encoding": "chunked", "Connection": "close"}
        fields |= self.head
        if self.next is not None:
            fields["Encke-Next"] = self.next
        if self.gap:
            fields["Encke-Gap"] = "true"
        data = body.encode()
        chunk = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
        is_cut = self.end == "cut" or self.end is None and self.stream is not None
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        last = b"" if is_cut else b"0\r\n\r\n"
        return f"HTTP/1.1 {self.status} x\r\n{head}\r\n".encode() + chunk + last


def _line(item: str) -> str:
    """An item of a stream as a line of NDJSON."""
    if item == "keep-alive":
        return "\n"
    if item.startswith("gap"):
        return '{"gap":true}\n'
    if item.startswith("{"):
        return item + "\n"
    event = json.dumps({"id": item.removeprefix("half "), "about": "bob", "data": item})
    return event[:-5] if item.startswith("half ") else event + "\n"


@dataclass
class Asked:
    """A request as it came."""

    target: str
    head: dict[str, str]
    body: bytes


@asynccontextmanager
async def played(asked: list[Asked], answers: list[Answer]) -> AsyncIterator[str]:
    """Gives one answer after the other; where there is none left it waits until it is left."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = dict(line.split(": ", 1) for line in head[1:-2])
        request = Asked(head[0].split(" ")[1], fields, await _body(reader, fields))
        at = len(asked)
        asked.append(request)
        if at < len(answers):
            writer.write(answers[at].to_bytes())
        if at + 1 < len(answers) or answers[-1].stream is None:
            writer.close()
            return
        # The last stream stays open for as long as the client does.
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield "http://127.0.0.1:%d" % server.sockets[0].getsockname()[1]


async def _body(reader: asyncio.StreamReader, fields: dict[str, str]) -> bytes:
    if "Transfer-Encoding" not in fields:
        return await reader.readexactly(int(fields.get("Content-Length", 0)))
    body = b""
    while length := int(await reader.readline(), 16):
        body += await reader.readexactly(length)
        await reader.readline()
    await reader.readline()
    return body


def cases(subject: str) -> list[Any]:
    """The cases of a file, each a test of that name."""
    told = json.loads((FOLDER / f"{subject}.json").read_text())
    return [pytest.param(case, id=case["name"]) for case in told]


def waits_recorded(monkeypatch: pytest.MonkeyPatch, module: str) -> list[float]:
    """From now on chance is one half, and no wait takes time: how long each was meant to be."""
    waits: list[float] = []

    def backoff(*words: Any) -> float:
        waits.append(1000 * real(*words))
        return 0.0

    from encke._backoff import backoff as real

    monkeypatch.setattr("random.random", lambda: 0.5)
    monkeypatch.setattr(f"{module}.backoff", backoff)
    return waits

"""docs/backends.md: the backends stand there as they are, and pass on what a page says."""

from __future__ import annotations

import http.client
import json
import os
import queue
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import IN_TIME_S, ROOT, Server, Start, in_thread, until

from encke import Client, Event, Gap, Listener

EXAMPLES = {
    "python": "clients/python/examples/backend.py",
    "go": "clients/go/examples/backend/main.go",
    "js": "clients/js/examples/backend.mjs",
}


@pytest.mark.parametrize("language", EXAMPLES)
def test_page_has_the_example_as_it_is(language: str) -> None:
    page = (ROOT / "docs/backends.md").read_text()
    source = (ROOT / EXAMPLES[language]).read_text()
    assert f"```{language}\n{source}```\n" in page, "copy it into the page"
    lines = [line.strip() for line in source.splitlines()]
    code = [line for line in lines if line and not line.startswith(("#", "//"))]
    assert len(code) <= 40


def test_licences_are_the_projects() -> None:
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        assert (ROOT / "clients/python" / name).read_text() == (ROOT / name).read_text()


def blocks(server: Server) -> list[str]:
    """Those of the README, for a server on other ports."""
    page = (ROOT / "clients/python/README.md").read_text()
    page = page.replace("http://127.0.0.1:8001", server.api_url)
    page = page.replace("http://127.0.0.1:8000", server.url)
    return [part.split("```")[0] for part in page.split("```python\n")[1:]]


def test_readme_sends(server: Server) -> None:
    sending = [block for block in blocks(server) if "Client(" in block]
    assert len(sending) == 5
    for block in sending:
        names: dict[str, Any] = {}
        exec(compile(block, "README.md", "exec"), names)
        names["client"].close()


@pytest.mark.parametrize(("at", "heard"), [(0, "bob [1]"), (1, "about='bob', data=[1]")])
def test_readme_listens(at: int, heard: str, server: Server) -> None:
    listening = [block for block in blocks(server) if "Listener(" in block]
    assert len(listening) == 2
    # A loop over a stream ends with its program.
    program = [sys.executable, "-u", "-c", listening[at]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients/python/src")}
    with Client(server.api_url) as client:
        listener = subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            until("bob is online", lambda: client.connections("bob").connections == 1)
            client.send("bob", [1])
            assert listener.stdout is not None
            assert heard in listener.stdout.readline()
        finally:
            listener.kill()
            listener.communicate()


def run(program: str, server: Server) -> str:
    """Runs a program of a page; what it prints."""
    environment = {
        **os.environ,
        "ENCKE_API": server.api_url,
        "ENCKE_KEY": server.run("key", "new", "--scope", "admin"),
        "PYTHONPATH": str(ROOT / "clients/python/src"),
    }
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def python_of(page: str) -> list[str]:
    text = (ROOT / page).read_text()
    return [part.split("```")[0] for part in text.split("```python\n")[1:]]


def test_first_readme_sends(server: Server) -> None:
    [block] = python_of("README.md")
    assert run(block.replace("http://127.0.0.1:8001", server.api_url), server) == "0\n"


def test_api_in_five_languages_runs(start: Start, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123456789abcdef")
    server = start("--token-key", str(secret))
    told = run("\n".join(python_of("docs/api-examples.md")), server).splitlines()
    assert told[0] == "new: True"
    assert re.fullmatch("0 [0-9A-Za-z]{16}", told[1])
    assert told[2].startswith("Sent(delivered=0, ")
    assert told[3:6] == ["['bob']", "0", "0"]
    assert "event='typing'" in told[6]
    assert told[7:10] == ["removed: True", "presence: ", "0"]
    assert told[10].startswith("400 ")
    assert len(told) == 11


def command(language: str, folder: Path) -> list[str]:
    if language == "python":
        return [sys.executable, str(ROOT / EXAMPLES[language])]
    if language == "js":
        return ["node", str(ROOT / EXAMPLES[language])]
    # `go run` would leave the program alone when it is killed.
    build = ["go", "build", "-o", str(folder / "backend"), "./examples/backend"]
    subprocess.run(build, check=True, cwd=ROOT / "clients/go")
    return [str(folder / "backend")]


@pytest.mark.parametrize("language", EXAMPLES)
def test_what_a_page_says_to_a_backend_is_heard(
    language: str, server: Server, tmp_path: Path
) -> None:
    assert language == "python" or shutil.which({"js": "node", "go": "go"}[language])
    key = server.run("key", "new", "--scope", "send")
    admin = server.run("key", "new", "--scope", "graph,read")
    environment = {
        **os.environ,
        "ENCKE_API": server.api_url,
        "ENCKE_KEY": key,
        "PORT": "0",
        "PYTHONPATH": str(ROOT / "clients/python/src"),
    }
    with Client(server.api_url, key=admin) as client:
        client.subscribe("bob", "rj")
        backend = subprocess.Popen(
            command(language, tmp_path), env=environment, stdout=subprocess.PIPE, text=True
        )
        try:
            assert backend.stdout is not None
            url = backend.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:"), url
            hear(
                server,
                client,
                lambda body, cookie: say(url, body, cookie),
                lambda body, cookie: say_in_two(url, body, cookie),
            )
        finally:
            backend.kill()
            backend.wait()
            if backend.stdout is not None:
                backend.stdout.close()


Say = Callable[[bytes, str], tuple[int, bytes]]


def hear(server: Server, client: Client, say: Say, say_in_two: Say) -> None:
    heard: queue.Queue[Event | Gap] = queue.Queue()
    with Listener(server.url, "bob") as listener:
        thread = in_thread(listener, heard)
        until("bob is online", lambda: client.connections("bob").connections == 1)
        message = json.dumps({"id": str(uuid.uuid4()), "text": "Grüße"}).encode()
        for _ in range(2):
            status, answer = say(message, "other=1; session=s-4711")
            assert status == 200 and json.loads(answer) == {"delivered": 1}
        assert say(message, "session=stolen")[0] == 401
        wrong = {"id": str(uuid.uuid4()), "text": 7}
        assert say(json.dumps(wrong).encode(), "session=s-4711")[0] == 400
        assert say(b'{"id": "m-2", "text": "a"}', "session=s-4711")[0] == 400
        assert say(b"nonsense", "session=s-4711")[0] == 400
        last = json.dumps({"id": str(uuid.uuid4()), "text": "süß"}, ensure_ascii=False).encode()
        assert say_in_two(last, "session=s-4711")[0] == 200
        told = [heard.get(timeout=IN_TIME_S) for _ in range(2)]
        assert [item.data for item in told if isinstance(item, Event)] == [
            {"text": "Grüße"},
            {"text": "süß"},
        ], "the one that was said twice is heard once"
        assert all(isinstance(item, Event) and item.about == "rj" for item in told)
        listener.close()
        thread.join(IN_TIME_S)


def say(url: str, body: bytes, cookie: str) -> tuple[int, bytes]:
    """As a page does."""
    headers = {"Cookie": cookie, "Origin": url, "Content-Type": "text/plain;charset=UTF-8"}
    request = urllib.request.Request(f"{url}/say", data=body, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=IN_TIME_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()


def say_in_two(url: str, body: bytes, cookie: str) -> tuple[int, bytes]:
    """The same where the network parts the first character that has two bytes."""
    host, port = url.removeprefix("http://").split(":")
    head = f"POST /say HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    cut = next(at for at, byte in enumerate(body) if byte > 127) + 1
    with socket.create_connection((host, int(port)), IN_TIME_S) as page:
        page.sendall(head.encode() + body[:cut])
        # Who has answered another page since has read that.
        for _ in range(2):
            assert say(url, b"nonsense", cookie)[0] == 400
        page.sendall(body[cut:])
        answer = http.client.HTTPResponse(page)
        answer.begin()
        return answer.status, answer.read()


def test_wheel_has_types_and_licences(tmp_path: Path) -> None:
    build = f"from flit_core import buildapi; print(buildapi.build_wheel({str(tmp_path)!r}))"
    python = [sys.executable, "-c", build]
    folder = ROOT / "clients/python"
    done = subprocess.run(python, check=True, cwd=folder, capture_output=True, text=True)
    with zipfile.ZipFile(tmp_path / done.stdout.strip()) as wheel:
        names = wheel.namelist()
    expected = {path.name for path in (folder / "src/encke").iterdir() if path.is_file()}
    assert {name.split("/")[1] for name in names if name.startswith("encke/")} == expected
    assert "py.typed" in expected
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        assert any(path.endswith(f"/{name}") for path in names), name

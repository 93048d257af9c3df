"""The real server for each test, and a relay before it that can cut a stream."""

from __future__ import annotations

import itertools
import json
import os
import queue
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from encke import Event, Gap, Listener

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("ENCKE", str(ROOT / "target/debug/encke"))
IN_TIME_S = 60.0
"""Only a test that fails waits so long."""


PORTS = itertools.count(random.randrange(2_000))
"""None is given to two servers of a run, of which one may not listen yet."""


def free_address() -> str:
    """One to take again after an end: not of those ports that the kernel gives to anybody, nor of
    those that the tests of the server, the browser client and Go take."""
    while True:
        port = 28_000 + next(PORTS) % 2_000
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return f"127.0.0.1:{port}"


class Server:
    """`encke serve` with a data folder of its own, on the same ports after every start."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        self.options = options
        self.listen, self.api = free_address(), free_address()
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        fixed = ["--listen", self.listen, "--api", self.api, "--data", str(self.data)]
        args = [PROGRAM, "serve", *fixed, "--json", "--workers=2", *self.options]
        with (self.data.parent / "log").open("a") as log:
            self._process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, (self.data.parent / "log").read_text()
        told = json.loads(line)
        self.listen, self.api = told["listen"], told["api"]

    def kill(self) -> None:
        """Ends it as a power failure would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def run(self, *args: str) -> str:
        """Another command of the program, with the same data."""
        done = [PROGRAM, *args, "--data", str(self.data)]
        return subprocess.run(done, check=True, capture_output=True, text=True).stdout.strip()

    @property
    def api_url(self) -> str:
        return f"http://{self.api}"

    @property
    def url(self) -> str:
        return f"http://{self.listen}"


class Relay:
    """Passes bytes on to `target` until it is cut; then it refuses, until it is mended."""

    def __init__(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self._open: list[socket.socket] = []
        self._whole = True
        self._lock = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self._server.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self) -> None:
        with self._lock:
            self._whole = False
            for end in self._open:
                _shut(end)
            self._open.clear()

    def mend(self) -> None:
        with self._lock:
            self._whole = True

    def close(self) -> None:
        _shut(self._server)
        self.cut()
        for thread in self._threads:
            thread.join()
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                near = self._server.accept()[0]
            except OSError:
                return
            with self._lock:
                if not self._whole:
                    near.close()
                    continue
                far = socket.create_connection(self._target)
                self._open += [near, far]
            for one, other in ((near, far), (far, near)):
                thread = threading.Thread(target=_pass, args=(one, other))
                self._threads.append(thread)
                thread.start()


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def _pass(one: socket.socket, other: socket.socket) -> None:
    # `one` is read by this thread alone, which therefore closes it.
    with one:
        try:
            while data := one.recv(65_536):
                other.sendall(data)
        except OSError:
            pass
        _shut(other)


def until(what: str, check: Callable[[], bool]) -> None:
    """Waits until `check` holds, by asking again."""
    deadline = time.monotonic() + IN_TIME_S
    while not check():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.01)


def in_thread(listener: Listener, heard: queue.Queue[Event | Gap]) -> threading.Thread:
    """Listens until the listener is closed."""

    def work() -> None:
        for item in listener:
            heard.put(item)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


Start = Callable[..., Server]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts servers with further options."""
    servers: list[Server] = []

    def one(*options: str) -> Server:
        home = tmp_path / str(len(servers))
        (home / "data").mkdir(parents=True)
        server = Server(home / "data", *options)
        servers.append(server)
        server.start()
        return server

    yield one
    for server in servers:
        server.kill()


@pytest.fixture
def server(start: Start) -> Server:
    return start()


@pytest.fixture
def relay(server: Server) -> Iterator[Relay]:
    relay = Relay(server.listen)
    yield relay
    relay.close()


@pytest.fixture
def schema(server: Server) -> dict[str, Any]:
    """What the server says of its API."""
    import urllib.request

    with urllib.request.urlopen(f"{server.api_url}/openapi.json") as answer:
        told = json.load(answer)
    assert isinstance(told, dict)
    return told

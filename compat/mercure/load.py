"""What a Mercure hub costs: memory of a connection, processor time of an update for one of many.

    load.py http://127.0.0.1:3000/.well-known/mercure --key FILE --pid PID [--subscribers 15000]

Each subscriber listens to a topic of its own, and each update is for one of them. First each of
--topics of them gets one, for a hub may look for whom a topic has only once; then updates are for
these, drawn by a fixed seed, for --seconds. PID is the hub's process on this machine. Encke takes
updates on its API port: --publish URL. Exit code 1 if an update was not heard.
"""

import argparse
import base64
import hashlib
import hmac
import itertools
import json
import os
import pathlib
import random
import resource
import selectors
import socket
import sys
import time
import urllib.parse

# So many connections are opened before their answers are awaited.
BATCH = 200


def token(secret, claims):
    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    signed = f'{part(b"""{"alg":"HS256","typ":"JWT"}""")}.{part(json.dumps(claims).encode())}'
    return f"{signed}.{part(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def topic(number):
    return urllib.parse.quote(f"https://example.com/users/{number}", safe="")


class Process:
    """The hub, as the kernel counts it: proc(5)."""

    def __init__(self, pid):
        self.folder = pathlib.Path(f"/proc/{pid}")

    def resident_bytes(self):
        lines = (self.folder / "status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))

    def processor_s(self):
        words = (self.folder / "stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Subscribers:
    def __init__(self, url):
        self.url, self.sockets, self.heard = url, [], 0
        self.selector = selectors.DefaultSelector()

    def open(self, count):
        for first in range(0, count, BATCH):
            batch = range(first, min(first + BATCH, count))
            sockets = [self.subscribe(number) for number in batch]
            for each in sockets:
                self.read_head(each)
                each.setblocking(False)
                self.selector.register(each, selectors.EVENT_READ)
            self.sockets += sockets

    def subscribe(self, number):
        each = socket.create_connection((self.url.hostname, self.url.port), timeout=60)
        target = f"{self.url.path}?topic={topic(number)}"
        each.sendall(f"GET {target} HTTP/1.1\r\nHost: {self.url.netloc}\r\n\r\n".encode())
        return each

    def read_head(self, each):
        head = b""
        # Behind the head comes a comment, by which the subscription stands.
        while b"\r\n\r\n" not in head or not head.rstrip(b"\r\n").endswith(b":"):
            piece = each.recv(4096)
            if not piece:
                sys.exit(f"the hub ends a subscription: {head!r}")
            head += piece
        if not head.startswith(b"HTTP/1.1 200"):
            sys.exit(f"the hub answers a subscription: {head!r}")

    def hear(self, wait_s):
        """Reads what has come, or waits for it."""
        for key, _ in self.selector.select(wait_s):
            piece = key.fileobj.recv(65536)
            if not piece:
                sys.exit("the hub ends a stream")
            self.heard += piece.count(b"data: x\n")


class Publisher:
    """A connection on which one update is under way at a time."""

    def __init__(self, url, authorization):
        self.url = url
        self.head = (
            f"POST {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\n"
            f"Authorization: Bearer {authorization}\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\n"
        )
        self.socket = socket.create_connection((url.hostname, url.port), timeout=60)

    def publish(self, number):
        form = f"topic={topic(number)}&data=x"
        self.socket.sendall(f"{self.head}Content-Length: {len(form)}\r\n\r\n{form}".encode())

    def answered(self):
        answer = self.socket.recv(65536)
        # It is short, and comes in one piece.
        if not answer.startswith(b"HTTP/1.1 200"):
            sys.exit(f"the hub answers a publish: {answer!r}")


class Load:
    """What a part of the run has cost."""

    def __init__(self, hub, publishers, subscribers):
        self.hub, self.publishers, self.subscribers = hub, publishers, subscribers
        self.count = 0

    def run(self, name, numbers):
        """Publishes for each of `numbers`."""
        first, start, processor = self.count, time.monotonic(), self.hub.processor_s()
        while numbers_now := list(itertools.islice(numbers, len(self.publishers))):
            busy = list(zip(self.publishers, numbers_now))
            for publisher, number in busy:
                publisher.publish(number)
            for publisher, _ in busy:
                publisher.answered()
            self.count += len(busy)
            self.subscribers.hear(0)
        took, processor = time.monotonic() - start, self.hub.processor_s() - processor
        count = self.count - first
        told = f"{count / took:.0f} a second, {processor / count * 1e6:.0f} µs of processor each"
        print(f"{name}: {count}, {told}")


def drawn(seconds, topics):
    draw, end = random.Random(1), time.monotonic() + seconds
    while time.monotonic() < end:
        yield draw.randrange(topics)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hub", type=urllib.parse.urlsplit, help="URL at which clients listen")
    parser.add_argument("--publish", type=urllib.parse.urlsplit, help="URL for updates, else that")
    parser.add_argument("--key", type=pathlib.Path, required=True, help="file with its secret")
    parser.add_argument("--pid", type=int, required=True, help="the hub's process")
    parser.add_argument("--subscribers", type=int, default=15_000)
    parser.add_argument("--publishers", type=int, default=8, help="connections of publishers")
    parser.add_argument("--topics", type=int, default=400, help="so many of them hear updates")
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    hub, secret = Process(options.pid), options.key.read_bytes().strip()
    before = hub.resident_bytes()
    subscribers = Subscribers(options.hub)
    subscribers.open(options.subscribers)
    idle = hub.resident_bytes()
    authorization = token(secret, {"mercure": {"publish": ["*"]}})
    to = options.publish or options.hub
    publishers = [Publisher(to, authorization) for _ in range(options.publishers)]
    load = Load(hub, publishers, subscribers)
    print(f"subscribers: {options.subscribers}")
    load.run("first updates of their topics", iter(range(options.topics)))
    load.run("later ones", drawn(options.seconds, options.topics))
    give_up = time.monotonic() + 30
    while subscribers.heard < load.count and time.monotonic() < give_up:
        subscribers.hear(1)
    after = hub.resident_bytes()
    idle, after = ((bytes - before) / options.subscribers for bytes in (idle, after))
    print(f"bytes a connection: {idle:.0f} idle, {after:.0f} afterwards")
    print(f"heard: {subscribers.heard} of {load.count}")
    sys.exit(0 if subscribers.heard == load.count else 1)


main()

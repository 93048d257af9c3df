#!/usr/bin/env python3
"""A script resolver for Playdar in Python 3: copy it, and change `answer`.

Playdar starts it and talks to it over its standard input and output. Each frame is the length of
what follows, in 4 bytes, the most significant one first, and then one JSON object in UTF-8 of at
most 4,096 bytes. What it writes to standard error comes into Playdar's log.

    playdar --script examples/playdar/scripts/example.py
"""

import json
import struct
import sys

FRAME_BYTES_MAX = 4096

SETTINGS = {
    "_msgtype": "settings",
    "name": "Example in Python",
    # Milliseconds in which it should answer; the next resolvers are asked after them.
    "targettime": 200,
    # Resolvers of a higher weight are asked first: from 1 to 100.
    "weight": 50,
    # Whether it hears only what programs of this machine ask.
    "localonly": False,
}


def answer(query):
    """The results for one query, an object each; an empty list where there is none."""
    wanted = (query.get("artist", "").lower(), query.get("track", "").lower())
    if wanted != ("mokele", "hiding in your insides"):
        return []
    return [
        {
            "artist": "Mokele",
            "track": "Hiding In Your Insides",
            "album": "You Yourself are Me Myself and I am in Love",
            "source": "Mokele.co.uk",
            "url": "http://www.playdar.org/hiding.mp3",
            "mimetype": "audio/mpeg",
            "size": 4971780,
            "bitrate": 160,
            "duration": 248,
            "score": 0.987,
        }
    ]


def read_frame():
    """The next object from Playdar; `None` when Playdar ends, and so do we."""
    head = sys.stdin.buffer.read(4)
    if len(head) < 4:
        return None
    (length,) = struct.unpack(">I", head)
    if length > FRAME_BYTES_MAX:
        sys.exit(f"a frame of {length} bytes: at most {FRAME_BYTES_MAX} are allowed")
    body = sys.stdin.buffer.read(length)
    return json.loads(body) if len(body) == length else None


def write_frame(message):
    body = json.dumps(message).encode()
    sys.stdout.buffer.write(struct.pack(">I", len(body)) + body)
    # Without it the answer would wait here until more of them fill the buffer.
    sys.stdout.buffer.flush()


def main():
    write_frame(SETTINGS)
    while (message := read_frame()) is not None:
        if message.get("_msgtype") != "rq":
            continue
        results = answer(message)
        if results:
            write_frame({"_msgtype": "results", "qid": message["qid"], "results": results})


if __name__ == "__main__":
    main()

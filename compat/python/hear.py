"""What the programs here share: an event is one line of JSON, as the application has seen it."""

import json
import sys

URL = sys.argv[2]

# How long who reconnects by hand waits, in seconds.
PAUSE_S = 0.2


def show(id, type, data):
    print(json.dumps({"id": id or None, "type": type or None, "data": data}), flush=True)


class Place:
    """Where a WebSocket has heard up to: a client of the protocol knows no place and does not
    reconnect, so the programs do both by hand, as docs/protocol.md describes."""

    # Asks where the stream begins, so that a cut before the first event loses nothing either.
    ASK = '{"ping":1}'

    def __init__(self):
        self.next = None

    def address(self):
        query = f"?last_event_id={self.next}" if self.next else ""
        return URL.replace("http", "ws", 1) + query

    def hear(self, text):
        message = json.loads(text)
        next = message.get("id") or message.get("ok", {}).get("next")
        self.next = next or self.next
        show(next, "gap" if "gap" in message else "next" if "ok" in message else None, text)

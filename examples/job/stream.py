"""A durable stream with one writer. What that appends is taken once, over restarts of Encke."""

import os
import sys
import time
import urllib.error
import urllib.request

API = os.environ.get("ENCKE_API", "http://127.0.0.1:8001")
KEY = os.environ.get("ENCKE_KEY")
AGAIN_SECONDS = 0.2
WEEK = "604800"


class Stream:
    """A new stream of text, which is removed a week after it was read last."""

    def __init__(self, name):
        self._path = f"/v1/stream/{name}"
        self._number = 0
        call("PUT", self._path, fields={"Stream-TTL": WEEK})

    def append(self, text, closes=False):
        """Returns when the text is on disk. It is the last one if it closes the stream."""
        fields = {
            "Producer-Id": "writer",
            "Producer-Epoch": "0",
            "Producer-Seq": str(self._number),
        }
        if closes:
            fields["Stream-Closed"] = "true"
        call("POST", self._path, text.encode(), fields)
        self._number += 1


def call(method, path, body=b"", fields=()):
    """One call that Encke takes once, however often it is repeated: until the server is back."""
    headers = {"Content-Type": "text/plain; charset=utf-8", **dict(fields)}
    if KEY:
        headers["Authorization"] = f"Bearer {KEY}"
    request = urllib.request.Request(API + path, body, headers, method=method)
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30):
                return
        except urllib.error.HTTPError as error:
            if error.code != 503:
                sys.exit(f"Encke answers {error.code}: {error.read().decode()}")
        except OSError:
            pass
        time.sleep(AGAIN_SECONDS)

"""Runs a command, and writes what it prints into a durable stream, line by line, to its end."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid

API = os.environ.get("ENCKE_API", "http://127.0.0.1:8001")
KEY = os.environ.get("ENCKE_KEY")
PAGE = os.environ.get("PAGE", "http://127.0.0.1:8080/")
AGAIN_SECONDS = 0.2
WEEK = "604800"


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


def main():
    # Also an id, about which Encke can send each line as an event.
    job = f"job:{uuid.uuid4()}"
    path = f"/v1/stream/{job}"
    call("PUT", path, fields={"Stream-TTL": WEEK})
    print(f"{PAGE}?job={job}", flush=True)
    number = 0

    def append(line, **fields):
        nonlocal number
        writer = {"Producer-Id": "job", "Producer-Epoch": "0", "Producer-Seq": str(number)}
        call("POST", path, line, {**writer, **fields})
        number += 1

    with subprocess.Popen(
        sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        for line in process.stdout:
            append(line)
    last = f"The exit code is {process.returncode}.\n"
    append(last.encode(), **{"Stream-Closed": "true"})


main()

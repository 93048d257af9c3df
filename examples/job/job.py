"""Runs a command, and writes what it prints into a durable stream, line by line, to its end."""

import os
import subprocess
import sys
import uuid

from stream import Stream

PAGE = os.environ.get("PAGE", "http://127.0.0.1:8080/")


def main():
    # Also an id, about which Encke can send each line as an event.
    job = f"job:{uuid.uuid4()}"
    stream = Stream(job)
    print(f"{PAGE}?job={job}", flush=True)
    with subprocess.Popen(
        sys.argv[1:],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:
        for line in process.stdout:
            stream.append(line)
    stream.append(f"The exit code is {process.returncode}.\n", closes=True)


main()

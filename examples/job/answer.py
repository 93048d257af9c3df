"""Answers a question into a durable stream, token by token. A generator stands for the model."""

import os
import sys
import time
import uuid

from stream import Stream

PAGE = os.environ.get("PAGE", "http://127.0.0.1:8080/")
PAUSE_SECONDS = float(os.environ.get("PAUSE_SECONDS", "0.05"))


def model(question):
    """What a model says, as it comes."""
    yield "You asked:"
    for word in question.split():
        yield f" {word}"
    for word in "\n\nThis answer comes word by word – and it stays.\n".split(" "):
        time.sleep(PAUSE_SECONDS)
        yield f" {word}"


def main():
    # Also an id, about which Encke can send each token as an event.
    answer = f"answer:{uuid.uuid4()}"
    stream = Stream(answer)
    print(f"{PAGE}?job={answer}", flush=True)
    for token in model(" ".join(sys.argv[1:])):
        stream.append(token)
    stream.append("", closes=True)


main()

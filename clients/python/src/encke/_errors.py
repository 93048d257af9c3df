"""What can go wrong, as exceptions, and what a server's refusal says (RFC 9457)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_PASSING = (408, 425, 429)
"""Statuses below 500 that another try may not meet."""


class EnckeError(Exception):
    """Whatever this package raises by itself."""


class ConnectionFailed(EnckeError):
    """There was no answer, or none to the end: not reached, cut off, or too late.

    `sent` is false where the request was certainly not begun, so that it may be made again.
    `answered` is how many answers of a stream of sends had come before.
    """

    def __init__(self, why: str, *, sent: bool = True, answered: int = 0) -> None:
        super().__init__(why)
        self.sent = sent
        self.answered = answered


class Refused(EnckeError):
    """The server, or a proxy before it, said no; `detail` says what to do."""

    def __init__(
        self,
        status: int,
        title: str = "",
        detail: str = "",
        *,
        line: int | None = None,
        done: int | None = None,
        retry_after: float | None = None,
        is_enckes: bool = False,
    ) -> None:
        words = ": ".join(part for part in (title, detail) if part)
        super().__init__(words or f"HTTP {status}")
        self.status = status
        self.title = title
        self.detail = detail
        self.line = line
        """Of a stream: which line is meant, from 1."""
        self.done = done
        """Of a stream of subscriptions: how many were added or removed before that line."""
        self.retry_after = retry_after
        """Seconds after which another try may do better, where the server said so."""
        self.is_enckes = is_enckes
        """Whether Encke itself said so, and not a proxy, whose word may pass."""

    @property
    def is_final(self) -> bool:
        """Whether the same request will be refused again."""
        return self.is_enckes and 400 <= self.status < 500 and self.status not in _PASSING


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> Refused:
    """The refusal that an answer is."""
    is_problem = headers.get("content-type", "").startswith("application/problem+json")
    try:
        problem = json.loads(body) if is_problem else {}
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    asked = headers.get("retry-after", "")
    retry_after = float(asked) if asked.isascii() and asked.isdigit() else None
    return from_problem(problem, status, retry_after)


def from_problem(
    problem: Mapping[str, Any], status: int = 0, retry_after: float | None = None
) -> Refused:
    """The refusal that a problem is, be it an answer or a line of one."""
    told = problem.get("status")
    return Refused(
        told if isinstance(told, int) and not status else status,
        str(problem.get("title", "")),
        str(problem.get("detail", "")),
        line=problem.get("line"),
        done=problem.get("added", problem.get("removed")),
        retry_after=retry_after,
        # Encke's problems repeat the status of their answer, say what to do and have no
        # `instance`, which other makers of problems give.
        is_enckes=isinstance(told, int)
        and status in (0, told)
        and bool(problem.get("detail"))
        and not problem.get("instance"),
    )

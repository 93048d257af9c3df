"""How long to wait before the next attempt: exponential, with full jitter.

A random time below a ceiling that doubles spreads a crowd that lost its server at one moment. What
the server asks for comes on top, and spreads over as long again: it tells a whole crowd the same.
"""

from __future__ import annotations

import random

ASKED_MOST_S = 86_400.0
"""No wait that a server asks for is longer."""


def backoff(tries: int, first: float, most: float, asked: float | None = None) -> float:
    """Seconds before the attempt after `tries` failed ones."""
    asked = min(asked or 0.0, ASKED_MOST_S)
    ceiling = min(most, max(asked, first * 2.0 ** min(tries, 64)))
    return asked + random.random() * ceiling

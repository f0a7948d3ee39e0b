"""Exponential backoff between attempts, with jitter of a half around each pause.

For one party that tries again for ever: a link, a client, a sink. Webhooks, of which very many may wait for one sink,
spread wider (full jitter, see `gateway.settings`).
"""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """Pauses that double from `first` to at most `longest` seconds."""

    def __init__(self, first: float, longest: float, uniform: Callable[[float, float], float] = random.uniform) -> None:
        self._first = first
        self._longest = longest
        self._mean = first
        self._uniform = uniform

    def next(self) -> float:
        """Seconds before the next attempt."""
        # Jitter: many that lost one broker must not return to it all at once.
        pause = self._mean * self._uniform(0.5, 1.5)
        self._mean = min(2 * self._mean, self._longest)
        return pause

    def reset(self) -> None:
        """Begin again with the first pause, after an attempt that succeeded."""
        self._mean = self._first

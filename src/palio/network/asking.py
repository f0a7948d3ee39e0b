"""Which of a client's questions does the broker still owe an answer? Those that are no events and no subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from palio.errors import LimitReached, PalioError
from palio.routing.clients import ClientRequest, Past

Told: TypeAlias = Callable[[Past | PalioError | None], None]
_MOST: Final = 4  # questions of one client at a time: each is asked of all brokers


class Asking:
    """The questions of one client, under numbers below zero: those of its events are above."""

    __slots__ = ("_ask", "_numbers", "_waiting")

    def __init__(self, ask: Callable[[ClientRequest], None]) -> None:
        self._ask = ask
        self._numbers = 0
        self._waiting: dict[int, Told] = {}

    def ask(self, request: Callable[[int], ClientRequest], told: Told) -> None:
        """Ask something under a number; `told` hears the answer, or why there is none."""
        if len(self._waiting) >= _MOST:
            raise LimitReached("questions", _MOST, "so many of a client's questions may be under way")
        self._numbers -= 1
        self._waiting[self._numbers] = told
        self._ask(request(self._numbers))

    def answered(self, number: int, answer: Past | PalioError | None) -> None:
        told = self._waiting.pop(number, None)
        if told is not None:
            told(answer)

    def close(self, error: PalioError) -> None:
        waiting, self._waiting = self._waiting, {}
        for told in waiting.values():
            told(error)

"""Which of a client's events wait for their confirmation? So many at most, and those the broker has no room for now.

A broker that cannot promise more says that it is busy. Such an event waits here until it says to proceed: its publisher
hears nothing meanwhile, and stops when its window is full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from palio.errors import LimitReached, NotAdvertised, PalioError, Refused
from palio.routing import clients
from palio.routing.clients import PublishClient

Answered: TypeAlias = Callable[[PalioError | None], None]


class Confirming:
    """The confirmed events of one client."""

    __slots__ = ("_ask", "_busy", "_numbers", "_publisher", "_waiting", "_window")

    def __init__(self, ask: Callable[[PublishClient], None], window: int, publisher: str) -> None:
        self._ask = ask
        self._window = window
        self._publisher = publisher
        self._numbers = 0
        self._waiting: dict[int, tuple[PublishClient, Answered]] = {}
        self._busy: list[PublishClient] = []

    def publish(self, body: bytes, header: bytes, answered: Answered) -> int:
        if len(self._waiting) >= self._window:
            raise LimitReached("window", self._window, "too many events wait for their confirmation")
        self._numbers += 1
        request = PublishClient(body, header, confirm=True, number=self._numbers, publisher=self._publisher)
        self._waiting[self._numbers] = request, answered
        self._ask(request)
        return self._numbers

    def accepted(self, number: int) -> None:
        self._answer(number, None)

    def refused(self, answer: clients.Refused) -> bool:
        """Whether it was an event that waits here."""
        if answer.number not in self._waiting:
            return False
        if answer.busy:
            self._busy.append(self._waiting[answer.number][0])
        else:
            self._answer(answer.number, error_of(answer))
        return True

    def proceed(self) -> None:
        busy, self._busy = self._busy, []
        for request in busy:
            self._ask(request)

    def close(self, error: PalioError) -> None:
        waiting, self._waiting = self._waiting, {}
        self._busy = []
        for _, answered in waiting.values():
            answered(error)

    def _answer(self, number: int, error: PalioError | None) -> None:
        _, answered = self._waiting.pop(number, (None, None))
        if answered is not None:
            answered(error)


def error_of(answer: clients.Refused) -> PalioError:
    """What a refusal of the broker is called outside of it."""
    return NotAdvertised(answer.reason) if answer.unadvertised else Refused(answer.reason)

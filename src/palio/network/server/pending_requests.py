"""Requests of one client that all brokers answer: queries of their event logs, and claims on durable subscriptions.

Each durable subscription has one home broker. Where it is new here, all brokers are asked first, by an echo
(`routing.durable_claims`); the client is referred to the one that holds it. A broker that cannot be reached may hold it
too. So the claim is repeated for a bounded time, because links come up soon after a start, and then fails with the
brokers that did not answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from palio.errors import HomeAway, LimitReached, LivesElsewhere, PalioError
from palio.routing.client_messages import ClaimClient, Claimed, ClientRequest, Past
from palio.routing.messages import HomeBroker

if TYPE_CHECKING:
    from palio.network.server.host import Host
    from palio.network.server.startup_barrier import StartupBarrier

OnAnswer: TypeAlias = Callable[[PalioError | None], None]
OnQueryAnswer: TypeAlias = Callable[[Past | PalioError | None], None]
_MAX_QUERIES: Final = 4  # of one client at a time: each is sent to all brokers
_CLAIM_RETRY_SECONDS: Final = 0.2


class PendingQueries:
    """Queries of one client to all brokers, under numbers below zero: its publications have those above."""

    __slots__ = ("_last_number", "_pending", "_request")

    def __init__(self, request: Callable[[ClientRequest], None]) -> None:
        self._request = request
        self._last_number = 0
        self._pending: dict[int, OnQueryAnswer] = {}

    def submit(self, request: Callable[[int], ClientRequest], on_answer: OnQueryAnswer) -> None:
        """Send a query, made with its number; `on_answer` gets the answer, or the reason why there is none."""
        if len(self._pending) >= _MAX_QUERIES:
            raise LimitReached("queries", _MAX_QUERIES, "too many queries of this client are unanswered")
        self._last_number -= 1
        self._pending[self._last_number] = on_answer
        self._request(request(self._last_number))

    def answer(self, number: int, answer: Past | PalioError | None) -> None:
        on_answer = self._pending.pop(number, None)
        if on_answer is not None:
            on_answer(answer)

    def close(self, error: PalioError) -> None:
        # Emptied first: an answer may lead back to here.
        pending, self._pending = self._pending, {}
        for on_answer in pending.values():
            on_answer(error)


def answer_future() -> tuple[asyncio.Future[None], OnAnswer]:
    """A future, and the callback that completes it."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_answer(error: PalioError | None) -> None:
        if future.done():  # cancelled: its caller waits no longer
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    return future, on_answer


def answer_together(count: int, on_answer: OnAnswer) -> OnAnswer:
    """A callback for the answers of several requests, of which the last one answers for all: None, or the first
    error."""
    left = count
    failure: PalioError | None = None

    def on_each(error: PalioError | None) -> None:
        nonlocal left, failure
        left -= 1
        failure = failure or error
        if not left:
            on_answer(failure)

    return on_each


def addresses(homes: Iterable[HomeBroker]) -> tuple[tuple[int, str], ...]:
    """Number and public address of home brokers."""
    return tuple((each.broker, each.address) for each in homes)


class _PendingClaim(NamedTuple):
    owner: str
    name: str
    deadline: float
    on_answer: OnAnswer


class PendingClaims:
    """Claims of one client on durable subscriptions that this broker does not hold yet."""

    def __init__(
        self,
        host: Host,
        request: Callable[[ClientRequest], None],
        patience: float,
        startup_barrier: StartupBarrier,
        most: int,
    ) -> None:
        """`patience` bounds the seconds of waiting for unreachable brokers, `most` the number of pending claims."""
        self._host = host
        self._request = request
        self._patience = patience
        self._startup_barrier = startup_barrier
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._last_number = 0
        self._pending: dict[int, _PendingClaim] = {}
        self._retries: dict[int, asyncio.TimerHandle] = {}

    def claim(self, owner: str, name: str, on_answer: OnAnswer) -> None:
        """Ask whether this broker may be the home; `on_answer` gets None, or the reason why not."""
        if self._host.is_durable(owner, name):
            rivals = self._host.rival_homes(owner, name)
            # Rivals are left by a network split; the home with the highest number is to be emptied first.
            higher = [each for each in rivals if each.broker > self._host.broker_id]
            on_answer(LivesElsewhere(name, addresses(higher)) if higher else None)
            return
        if len(self._pending) >= self._most:
            raise LimitReached("subscriptions_per_principal", self._most, "too many claims are pending")
        self._last_number += 1
        self._pending[self._last_number] = _PendingClaim(owner, name, self._loop.time() + self._patience, on_answer)
        self._startup_barrier.run_after(partial(self._ask_brokers, self._last_number))

    def cancel(self, name: str) -> bool:
        """Drop the pending claims on a subscription; whether there were any."""
        numbers = [number for number, pending in self._pending.items() if pending.name == name]
        for number in numbers:
            self._forget(number)
        return bool(numbers)

    def answer(self, claimed: Claimed) -> None:
        """Take the answer of all brokers that could be reached."""
        pending = self._pending.get(claimed.number)
        if pending is None:
            return
        # A broker that is away may be the home. To grant the claim without it would make two.
        if claimed.away and self._loop.time() < pending.deadline:
            retry = self._loop.call_later(_CLAIM_RETRY_SECONDS, self._ask_brokers, claimed.number)
            self._retries[claimed.number] = retry
            return
        self._forget(claimed.number)
        if claimed.elsewhere:
            pending.on_answer(LivesElsewhere(pending.name, addresses(claimed.elsewhere)))
        else:
            pending.on_answer(HomeAway(pending.name, claimed.away) if claimed.away else None)

    def close(self, error: PalioError) -> None:
        """Answer all pending claims with an error."""
        pending = list(self._pending.values())
        for number in list(self._pending):
            self._forget(number)
        for each in pending:
            each.on_answer(error)

    def _ask_brokers(self, number: int) -> None:
        self._retries.pop(number, None)
        pending = self._pending.get(number)
        if pending is not None:
            self._request(ClaimClient(pending.owner, pending.name, number))

    def _forget(self, number: int) -> None:
        del self._pending[number]
        timer = self._retries.pop(number, None)
        if timer is not None:
            timer.cancel()

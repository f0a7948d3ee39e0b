"""May a durable subscription live at this broker? Asked of all brokers where it is new here (`routing.claims`).

It may live somewhere else already: then its client is sent there. A broker that is away may have it: for a while this
one asks again, because links come up soon after a start, and then says whom it waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from palio.errors import HomeAway, LimitReached, LivesElsewhere, PalioError
from palio.filters.filter import Filter
from palio.network.durable import durable_client
from palio.network.publishing import Answered, waiter
from palio.network.settling import Settling
from palio.routing.clients import ClaimClient, Claimed, ClientRequest, Confirm
from palio.routing.messages import Lives

if TYPE_CHECKING:
    from palio.network.host import Host
    from palio.network.sessions import Session

_PAUSE: Final = 0.2  # seconds between two questions


def request_durable(
    session: Session,
    name: str,
    wanted: Filter,
    answered: Answered,
    *,
    confirm: Confirm = "edge",
    credit: int | None = None,
) -> None:
    """Subscribe durably for a client where the network has no such subscription; `LivesElsewhere` where it has."""

    def claimed(error: PalioError | None) -> None:
        try:
            if error is not None:
                raise error
            session.request_subscription(name, wanted, answered, durable=True, confirm=confirm, credit=credit)
        except PalioError as reason:
            answered(reason)

    session.claiming.claim(durable_client(session.principal, name), name, claimed)


async def subscribe_durably(session: Session, name: str, wanted: Filter) -> None:
    """The same for those who can wait."""
    done, answered = waiter()
    request_durable(session, name, wanted, answered)
    await done


async def check_home(session: Session, name: str) -> None:
    """`LivesElsewhere` where another broker has a durable subscription of this client's."""
    done, answered = waiter()
    session.claiming.claim(durable_client(session.principal, name), name, answered)
    await done


def addresses(lives: Iterable[Lives]) -> tuple[tuple[int, str], ...]:
    """Brokers, each with where clients reach it."""
    return tuple((each.broker, each.address) for each in lives)


class Claiming:
    """The durable subscriptions that one client asks for and that are not known to live here yet."""

    def __init__(
        self, host: Host, ask: Callable[[ClientRequest], None], patience: float, settling: Settling, most: int
    ) -> None:
        """`patience` is how many seconds others may be away; nobody is asked before it is known who there is. There may
        be so many at a time."""
        self._queues = host.node.broker.keeping.queues
        self._claims = host.node.broker.claims
        self._ask = ask
        self._patience = patience
        self._settling = settling
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._numbers = 0
        self._waiting: dict[int, tuple[str, str, float, Answered]] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}

    def claim(self, owner: str, name: str, answered: Answered) -> None:
        """`answered` hears nothing where the subscription may live here, otherwise why not."""
        if self._queues.is_durable(owner, name):
            first = [each for each in self._claims.rivals(owner, name) if each.broker > self._claims.node]
            answered(LivesElsewhere(name, addresses(first)) if first else None)
            return
        if len(self._waiting) >= self._most:
            raise LimitReached("subscriptions_per_principal", self._most, "so many may be asked for at a time")
        self._numbers += 1
        self._waiting[self._numbers] = owner, name, self._loop.time() + self._patience, answered
        self._settling.then(partial(self._try, self._numbers))

    def leave(self, name: str) -> bool:
        """Nobody wants a subscription any more; whether it was asked for."""
        numbers = [number for number, waiting in self._waiting.items() if waiting[1] == name]
        for number in numbers:
            self._forget(number)
        return bool(numbers)

    def answer(self, claimed: Claimed) -> None:
        if claimed.number not in self._waiting:
            return
        _, name, deadline, answered = self._waiting[claimed.number]
        if claimed.away and self._loop.time() < deadline:
            self._timers[claimed.number] = self._loop.call_later(_PAUSE, self._try, claimed.number)
            return
        self._forget(claimed.number)
        if claimed.elsewhere:
            answered(LivesElsewhere(name, addresses(claimed.elsewhere)))
        else:
            answered(HomeAway(name, claimed.away) if claimed.away else None)

    def close(self, error: PalioError) -> None:
        waiting = [self._waiting[number][3] for number in self._waiting]
        for number in list(self._waiting):
            self._forget(number)
        for answered in waiting:
            answered(error)

    def _try(self, number: int) -> None:
        self._timers.pop(number, None)
        if number in self._waiting:
            owner, name, _, _ = self._waiting[number]
            self._ask(ClaimClient(owner, name, number))

    def _forget(self, number: int) -> None:
        del self._waiting[number]
        timer = self._timers.pop(number, None)
        if timer is not None:
            timer.cancel()

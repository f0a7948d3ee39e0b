"""How do events get from the broker to one client? Straight through, or by the outlets in which they wait.

Mostly nothing waits, and the connection takes what it is given: then an event is written once for all subscriptions of
the client that want it. Where one of them has to wait, each gets it by its own outlet, so that the order of each stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Raw

from palio.network.durable import DurableOutlet
from palio.network.outlets import Outlet
from palio.network.protocol import numbers
from palio.routing.messages import Publish

if TYPE_CHECKING:
    from palio.network.host import Host

AnyOutlet: TypeAlias = Outlet | DurableOutlet
Straight: TypeAlias = Callable[[Raw, Publish], bool]


class Delivered(NamedTuple):
    """An event for a subscription, or for several of a group. A number other than 0 wants to be acknowledged.

    `name` is that of the subscription or group; `subscriptions` are what the subscriber calls those that are meant.
    """

    name: str
    event: Publish
    subscriptions: tuple[int, ...] = ()
    number: int = 0


class Way(NamedTuple):
    """Where an event for some subscriptions of a client goes."""

    handing: Handing
    outlets: tuple[Outlet, ...]
    each: tuple[tuple[int, ...], ...]  # the numbers of the subscriptions, by outlet
    all: Raw | None  # of all together, as they are written; None where there are none


class Handing:
    """The outlets of one client. `straight` sends an event at once, or says that it cannot; None where nobody can."""

    __slots__ = ("_all", "_behind", "_dropping", "_groups", "_host", "_over", "outlets", "straight")

    def __init__(self, host: Host, over: Callable[[Outlet], None]) -> None:
        """`over` is told of an outlet that is fuller than it may be, by whose rule that has consequences."""
        self.outlets: dict[str, AnyOutlet] = {}  # by the names of subscriptions
        self.straight: Straight | None = None
        self._all: dict[AnyOutlet, None] = {}
        self._host = host
        self._over = over
        self._groups: dict[str, Outlet] = {}
        self._behind: dict[AnyOutlet, None] = {}  # where something may wait
        self._dropping: dict[Outlet, None] = {}

    def each(self) -> Iterable[AnyOutlet]:
        """Every outlet once."""
        return self._all

    def group(self, name: str) -> Outlet | None:
        return self._groups.get(name)

    def add(self, name: str, outlet: AnyOutlet, number: int = 0, group: str = "") -> None:
        """A subscription, and where its events wait; `number` is what its subscriber calls it."""
        self.outlets[name] = outlet
        self._all[outlet] = None
        self._host.ways.clear()
        if isinstance(outlet, DurableOutlet):
            self._behind[outlet] = None
            return
        outlet.numbers[name] = number
        if group:
            self._groups[group] = outlet

    def remove(self, name: str) -> AnyOutlet | None:
        """Take out a subscription; its outlet, where no other uses that."""
        outlet = self.outlets.pop(name)
        self._host.ways.clear()
        if isinstance(outlet, Outlet):
            del outlet.numbers[name]
            if outlet.numbers:
                return None
            if self._groups.get(outlet.name) is outlet:
                del self._groups[outlet.name]
            self._dropping.pop(outlet, None)
        del self._all[outlet]
        self._behind.pop(outlet, None)
        return outlet

    def more(self, name: str, events: int) -> None:
        """The client takes so many more events of a subscription, or of a group."""
        outlet = self._groups.get(name) or self.outlets.get(name)
        if outlet is not None and outlet.credit is not None:
            outlet.credit += events

    def offer(self, names: tuple[str, ...], event: Publish) -> None:
        """An event for some subscriptions; those that are gone, or have their own queue on disk, do not get it here."""
        way = self._host.ways.get(names)
        if way is None or way.handing is not self:
            way = self._host.ways.put(names, self._find(names))
        if self.straight is not None and self._pass_by(way, event, self.straight):
            return
        for outlet, subscriptions in zip(way.outlets, way.each, strict=True):
            self._put(outlet, event, subscriptions)

    def _pass_by(self, way: Way, event: Publish, straight: Straight) -> bool:
        """Let an event leave at once, where it need not wait anywhere."""
        for outlet in way.outlets:
            if outlet.waiting or outlet.credit == 0:
                return False
        if way.all is None:
            return True
        if not straight(way.all, event):
            return False
        for outlet in way.outlets:
            outlet.pass_by()
        return True

    def _put(self, outlet: Outlet, event: Publish, subscriptions: tuple[int, ...]) -> None:
        before = outlet.dropped
        outlet.put(event, subscriptions)
        self._behind[outlet] = None
        if outlet.dropped != before:
            self._dropping[outlet] = None
            self._host.drops[f"subscriber slow: {outlet.overflow}"] += 1
        if outlet.is_over:
            self._over(outlet)

    def _find(self, names: tuple[str, ...]) -> Way:
        found: dict[Outlet, list[int]] = {}
        if len(self._all) == 1:
            [only] = self._all
            if isinstance(only, Outlet) and (known := only.numbers_of(names)):
                found[only] = known
        else:
            for name in names:
                outlet = self.outlets.get(name)
                if isinstance(outlet, Outlet):
                    found.setdefault(outlet, []).append(outlet.numbers[name])
        each = tuple(map(tuple, found.values()))
        return Way(self, tuple(found), each, numbers(tuple(chain.from_iterable(each))) if each else None)

    def take(self, most: int) -> list[Delivered]:
        """Events that waited and may leave now."""
        batch: list[Delivered] = []
        for outlet in list(self._behind):
            if isinstance(outlet, DurableOutlet):
                if outlet.is_waiting:
                    batch += [Delivered(outlet.name, each, number=n) for n, each in outlet.take(most - len(batch))]
                continue
            batch += [Delivered(outlet.name, *each) for each in outlet.take(most - len(batch))]
            if not outlet.waiting:
                del self._behind[outlet]
            if outlet.is_over and outlet.has_room:
                outlet.is_over = False
                self._host.unblock(outlet)
        return batch

    def dropped(self) -> list[Outlet]:
        """The outlets that have dropped events since the last call."""
        dropping, self._dropping = self._dropping, {}
        return list(dropping)

"""What does a broker run on? A simulated machine: a disk that outlives crashes, timers, and the ends of its links."""

from __future__ import annotations

from collections.abc import Iterator

from palio.routing.clients import AdvertiseClient, SubscribeClient, UnadvertiseClient, UnsubscribeClient
from palio.routing.effects import Client, Entry, Record
from palio.routing.node import Node
from palio.simulation.links import Direction, LinkModel


class Disk:
    """Keeps the last record of each name, and what was taken back not at all."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[tuple[Client, str, str], SubscribeClient | AdvertiseClient] = {}

    def write(self, entry: Entry) -> None:
        match entry:
            case Record(client, SubscribeClient() as request):
                self._kept[client, "wants", request.name] = request
            case Record(client, AdvertiseClient() as request):
                self._kept[client, "offers", request.name] = request
            case Record(client, UnsubscribeClient() as request):
                self._kept.pop((client, "wants", request.name), None)
            case Record(client, UnadvertiseClient() as request):
                self._kept.pop((client, "offers", request.name), None)

    def read(self) -> Iterator[tuple[Client, SubscribeClient | AdvertiseClient]]:
        """All that was not taken back."""
        return ((client, request) for (client, _, _), request in self._kept.items())


class Edge:
    """A link between two hosts. Its generation changes when it breaks, and what was under way is lost."""

    __slots__ = ("a", "b", "cut", "directions", "ends", "generation", "model")

    def __init__(self, a: int, b: int, ends: tuple[int, int], model: LinkModel) -> None:
        self.a = a
        self.b = b
        self.ends = ends  # the numbers of the link at either end
        self.model = model
        self.cut = False
        self.generation = 0
        self.directions = (Direction(), Direction())

    def other(self, host: int) -> tuple[int, int]:
        """The host at the other end, and the number that it has for this link."""
        return (self.b, self.ends[1]) if host == self.a else (self.a, self.ends[0])

    def break_off(self) -> None:
        self.generation += 1
        self.directions = (Direction(), Direction())


class Host:
    """A machine; it is down where it runs no node."""

    __slots__ = ("disk", "edges", "fuse", "incarnation", "node", "number", "rate", "timers")

    def __init__(self, number: int, rate: float) -> None:
        self.number = number
        self.rate = rate  # how fast its clock runs
        self.node: Node | None = None
        self.incarnation = 0
        self.disk = Disk()
        self.edges: list[Edge] = []  # by the number of the link, from 1
        self.timers: dict[str, int] = {}  # which setting of each timer is the last
        self.fuse: int | None = None  # effects that are still carried out before a crash

"""May an event that a client brings come in? What cannot be read, or was not advertised, is refused with the reason.

An event of which its publisher wants to be assured is written down first, and routed from the log (`keeping`).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from palio.errors import PalioError
from palio.routing.clients import PublishClient, Refused
from palio.routing.effects import Client, Effect, Reply
from palio.routing.event_path import EventPath
from palio.routing.forwarding.protocol import Arrival
from palio.routing.keeping.keeping import Keeping
from palio.routing.local import LocalTable
from palio.routing.messages import LOCAL, EventId, Publish
from palio.routing.propagation.advertisements import is_advertised


class Entrance:
    """Lets events in at one broker, and numbers them."""

    __slots__ = ("_events", "_incarnation", "_keeping", "_node", "_offers", "_published", "_sequence")

    def __init__(
        self, node: int, incarnation: int, events: EventPath, keeping: Keeping, offers: LocalTable | None
    ) -> None:
        """`offers` are what clients advertised, where they must."""
        self._node = node
        self._incarnation = incarnation
        self._events = events
        self._keeping = keeping
        self._offers = offers
        self._sequence = 0
        self._published: dict[Client, int] = {}  # how many events of each client were let in

    def gone(self, client: Client) -> None:
        self._published.pop(client, None)

    def let_in(self, client: Client, request: PublishClient, epoch: int) -> list[Effect]:
        arrival = self._arrival(client, request, epoch, 1)
        refused = self._refusal(client, arrival)
        if refused is not None:
            return [Reply(client, replace(refused, number=request.number))]
        self._count(client, 1)
        if request.confirm:
            return self._keeping.publish(client, request, arrival.message, arrival.event)
        dropped = self._events.take(arrival)
        return [] if dropped is None else [dropped]

    def let_in_together(self, client: Client, requests: Sequence[PublishClient], epoch: int) -> list[Effect]:
        """All of several events, or none; they are of one kind, to be confirmed or not."""
        arrivals = [self._arrival(client, request, epoch, place) for place, request in enumerate(requests, 1)]
        for arrival in arrivals:
            refused = self._refusal(client, arrival)
            if refused is not None:
                return [Reply(client, replace(refused, number=request.number)) for request in requests]
        self._count(client, len(arrivals))
        if requests[0].confirm:
            return self._keeping.publish_together(client, requests, [(each.message, each.event) for each in arrivals])
        return [dropped for arrival in arrivals if (dropped := self._events.take(arrival)) is not None]

    def _arrival(self, client: Client, request: PublishClient, epoch: int, ahead: int) -> Arrival:
        """The event that is so many ahead of the last one."""
        id = EventId(self._node, self._incarnation, self._sequence + ahead)
        number = self._published.get(client, 0) + ahead
        return Arrival(LOCAL, Publish(id, request.body, request.header, epoch=epoch, publisher=number))

    def _refusal(self, client: Client, arrival: Arrival) -> Refused | None:
        try:
            attributes = arrival.event.attributes
        except PalioError as error:
            return Refused(str(error))
        if self._offers is not None and not is_advertised(self._offers.filters(client), attributes):
            return Refused("its publisher has not advertised events like this one", "unadvertised")
        return None

    def _count(self, client: Client, events: int) -> None:
        self._sequence += events
        self._published[client] = self._published.get(client, 0) + events

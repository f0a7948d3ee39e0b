"""May an event that a client brings come in? What cannot be read, or was not advertised, is refused with the reason.

An event of which its publisher wants to be assured is written down first, and routed from the log (`keeping`).
"""

from __future__ import annotations

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
        id = EventId(self._node, self._incarnation, self._sequence + 1)
        number = self._published.get(client, 0) + 1
        arrival = Arrival(LOCAL, Publish(id, request.body, request.header, epoch=epoch, publisher=number))
        try:
            content = arrival.event
            attributes = content.attributes
        except PalioError as error:
            return [Reply(client, Refused(str(error), number=request.number))]
        if self._offers is not None and not is_advertised(self._offers.filters(client), attributes):
            reason = "its publisher has not advertised events like this one"
            return [Reply(client, Refused(reason, "unadvertised", request.number))]
        self._sequence += 1
        self._published[client] = number
        if request.confirm:
            return self._keeping.publish(client, request, arrival.message, content)
        dropped = self._events.take(arrival)
        return [] if dropped is None else [dropped]

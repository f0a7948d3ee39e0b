"""Path of an event through a broker: link filter, duplicate filter, forwarding, local match, link credit.

All events of a batch are routed together at its end. The forwarding decides over which links each goes on. For the
broker's own clients content decides, whatever the forwarding: either it already knows which of their keys match, or
they are looked up here, in an index that is built when it is first needed.

A link filter is a condition that the owner of this broker put on a link. An event that it keeps out is treated as one
without a subscriber here, one that it keeps in as one without a subscriber there; either way it is acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

import numpy as np
from msgspec.structs import replace

from palio.errors import PalioError, SealError
from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.codec import Arrival
from palio.routing.delivery.durable_delivery import DurableDelivery
from palio.routing.delivery.event_log import DeduplicationWindow
from palio.routing.duplicates import DuplicateFilter
from palio.routing.effects import UNREADABLE, UNWANTED, Deliver, Drop, Effect, Job, Recipient
from palio.routing.event_batches import BatchArrival, BatchRouter
from palio.routing.forwarding import headers
from palio.routing.forwarding.filter_index import filter_index_of
from palio.routing.forwarding.strategy import Forwarding, HasBackgroundWork, Route, SendsCopies
from palio.routing.interest_index import ClientTable, InterestIndex
from palio.routing.link_credit import LinkCredit
from palio.routing.messages import LOCAL, EventId, Key, Publish
from palio.routing.sealing import Keyring, event_context
from palio.routing.upkeep.outages import Outages

_Found = TypeVar("_Found")
_NO_OUTAGES: Final = Outages()  # where broken links take their filters along
_MAX_KNOWN_ATTEMPTS: Final = 65_536  # attempts with durable events by which duplicates are known


class LinkFilter(Protocol):
    """The events that may pass one link."""

    def admits(self, event: Event) -> bool:
        """Whether an event may come in."""

    def releases(self, event: Event) -> bool:
        """Whether an event may go out."""


class EventRouter:
    """Routes the events of each batch. As a listener it passes on to the forwarding which filters come and go."""

    __slots__ = (
        "_arrivals",
        "_attempts",
        "_batches",
        "_clients",
        "_credit",
        "_delivery",
        "_duplicates",
        "_effects",
        "_filter_counts",
        "_forwarding",
        "_index",
        "_keeps_to_tree",
        "_keys",
        "_marks",
        "_matcher",
        "_sends_copies",
        "_single_reads",
        "_suspended",
        "_working",
        "header_bytes",
        "link_filters",
        "on_damage",
        "on_gap",
        "outages",
    )

    def __init__(
        self,
        forwarding: Forwarding,
        credit: LinkCredit,
        delivery: DurableDelivery,
        may_circle: bool,
        effects: list[Effect],
        matcher: str = "columnar",
        keys: Keyring | None = None,
        suspended: Collection[int] = (),
        keeps_to_tree: bool = True,
    ) -> None:
        """`may_circle` where there is more than one way between brokers, so that an event may come twice. `keys` are
        those of a network with sealed events. `suspended` are interfaces with tables whose links are not in use;
        unless an event `keeps_to_tree` it may take them all the same, where they are up."""
        self._suspended = suspended
        self._keeps_to_tree = keeps_to_tree
        self._sends_copies = isinstance(forwarding, SendsCopies)
        self._keys = keys
        self._filter_counts: dict[int, int] = {}  # by link
        self._forwarding = forwarding
        self._working = forwarding if isinstance(forwarding, HasBackgroundWork) else None
        self._credit = credit
        self._delivery = delivery
        self._effects = effects
        self._matcher = matcher
        self.link_filters: dict[int, LinkFilter] = {}  # of those links that have one
        self._single_reads = 0  # single events whose content was examined here
        self.header_bytes = 0  # that were sent over links
        self._clients: ClientTable | None = None
        self._index: InterestIndex | None = None
        self._arrivals: list[Arrival] = []
        self._marks: list[tuple[int, Callable[[], None]]] = []  # calls between arrivals, by place
        # Called with an event that some client or neighbour may not get, although it wants it: None is any of them.
        self.on_gap: Callable[[EventId, int | None], None] | None = None
        # Broken links whose filters are kept: nothing is sent over them.
        self.outages = _NO_OUTAGES
        # Called where tables may be wrong, and an exception says so: it puts others in their place (`adopt`).
        self.on_damage: Callable[[], None] | None = None
        # In a network without circles an event cannot come twice, and no filter is asked.
        self._duplicates = DuplicateFilter() if may_circle else None
        # Each attempt with a durable event is an event of its own: its sequence number alone would hide the second.
        self._attempts = DeduplicationWindow[tuple[EventId, int]](size=_MAX_KNOWN_ATTEMPTS)
        self._batches = BatchRouter(
            forwarding,
            credit,
            delivery,
            self.link_filters,
            effects,
            keys is not None,
            self._route,
            suspended,
        )

    def serve(self, clients: ClientTable) -> None:
        """Set the subscriptions of this broker's own clients."""
        self._clients = self._batches.clients = clients

    def adopt(
        self, forwarding: Forwarding, filter_counts: dict[int, int], index: InterestIndex | None, clients: ClientTable
    ) -> None:
        """Route by other tables from now on."""
        self._forwarding = forwarding
        self._working = forwarding if isinstance(forwarding, HasBackgroundWork) else None
        self._batches.use(forwarding)
        self._filter_counts = filter_counts
        self._index = index
        self.serve(clients)

    @property
    def has_index(self) -> bool:
        """Whether local filters have an index of their own."""
        return self._index is not None

    def take(self, arrival: Arrival) -> None:
        """Route an event at the end of the batch, unless it is a duplicate or its link does not admit it."""
        # Link filter before duplicate filter: an event kept out here may be admitted by another link.
        if self.link_filters and not self._is_admitted(arrival):
            self._delivery.pass_by(arrival)
            self._effects.append(Drop("not admitted by its link", arrival.message))
        elif self._duplicates is None or not self._is_duplicate(arrival.message):
            self._arrivals.append(arrival)
        elif self._sends_copies and arrival.message.kept is None:
            arrival.is_copy = True
            self._arrivals.append(arrival)
        else:
            self._delivery.refuse(arrival)
            self._effects.append(Drop("seen before", arrival.message))
            # It was routed before, perhaps by tables that lacked a filter which is there now.
            self._note_gap(arrival.message.id, None)

    def take_batch(self, arrival: BatchArrival) -> None:
        """Route a batch of events at the end of the batch of inputs, after the events that were taken before it."""
        if not self._batches.takes_columns or self.outages.links:
            for event in arrival.events():
                self.take(Arrival(arrival.interface, event, keys=None if arrival.interface == LOCAL else self._keys))
            return
        new = arrival if self._duplicates is None else self._without_duplicates(arrival, self._duplicates)
        if new is not None:
            self.call_between(partial(self._repairing, partial(self._batches.route, new)))

    def _repairing(self, find: Callable[[], _Found]) -> _Found:
        """What is found in the tables; where they contradict each other, in those that take their place."""
        try:
            return find()
        except PalioError:
            raise
        except Exception:
            if self.on_damage is None:
                raise
            self.on_damage()
            return find()

    def _without_duplicates(self, arrival: BatchArrival, duplicates: DuplicateFilter) -> BatchArrival | None:
        """The events of a batch that have not come before; None where all have."""
        count = len(arrival.batch)
        if arrival.places is None and duplicates.add_run(arrival.message.id, count):
            return arrival
        is_new = np.array([duplicates.add(arrival.id(row)) for row in range(count)], np.bool_)
        if is_new.all():
            return arrival
        for event in arrival.events(np.flatnonzero(~is_new)):
            self._effects.append(Drop("seen before", event))
            self._note_gap(event.id, None)
        return arrival.chosen(np.flatnonzero(is_new)) if is_new.any() else None

    def _is_admitted(self, arrival: Arrival) -> bool:
        link_filter = self.link_filters.get(arrival.interface)
        try:
            return link_filter is None or link_filter.admits(arrival.event)
        except SealError:
            return False  # a filter cannot vouch for what it cannot read
        except PalioError:
            return True  # an event that cannot be read is dropped when it is routed, with the reason

    def _is_duplicate(self, event: Publish) -> bool:
        if event.kept is None:
            return self._duplicates is not None and not self._duplicates.add(event.id)
        attempt = event.id, event.kept.attempt
        if attempt in self._attempts:
            return True
        self._attempts.add(attempt)
        return False

    def call_between(self, call: Callable[[], None]) -> None:
        """Call when all events that were taken until now are routed, and none of those after."""
        self._marks.append((len(self._arrivals), call))

    def route(self) -> None:
        """Route all events taken since the last call."""
        if self._marks:
            arrivals, self._arrivals = self._arrivals, []
            marks, self._marks = self._marks, []
            begin = 0
            for end, call in marks:
                self._route(arrivals[begin:end])
                call()
                begin = end
            self._route(arrivals[begin:])
        elif self._arrivals:
            arrivals, self._arrivals = self._arrivals, []
            self._route(arrivals)

    def _note_gap(self, id: EventId, interface: int | None) -> None:
        if self.on_gap is not None:
            self.on_gap(id, interface)

    def _route(self, arrivals: Sequence[Arrival]) -> None:
        if not arrivals:
            return
        try:
            routes, local = self._repairing(partial(self._find_routes, arrivals))
        except PalioError:
            # Some body cannot be decoded. Which one is found by routing each alone: only such batches pay for it.
            arrivals, routes, local = self._route_one_by_one(arrivals)
        for arrival, route, keys in zip(arrivals, routes, local, strict=True):
            self._single_reads += arrival.is_read
            if self.link_filters or self._suspended:
                route = self._filter_route(arrival, route)
            if self.outages.links:
                route = self._without_outages(arrival, route, keys)
            self._carry_out(arrival, route, keys)

    def _find_routes(self, arrivals: Sequence[Arrival]) -> tuple[list[Route], list[tuple[Key, ...]]]:
        routes = self._forwarding.route(arrivals)
        return routes, self._match_local(arrivals, routes)

    def _recipients(self, keys: tuple[Key, ...]) -> tuple[Recipient, ...]:
        return () if self._clients is None else self._clients.recipients(keys)

    def _deliver(self, keys: tuple[Key, ...], event: Publish) -> None:
        if self.on_damage is None:
            self._effects.append(Deliver(self._recipients(keys), event))
            return
        # Where tables may be wrong, a key that was found may be nobody's.
        recipients = self._repairing(partial(self._recipients, keys))
        if recipients:
            self._effects.append(Deliver(recipients, event))

    @property
    def content_reads(self) -> int:
        """Events whose content was examined here."""
        return self._single_reads + self._batches.content_reads

    def jobs(self) -> list[Job]:
        """Work that can be done beside everything else."""
        jobs = [each.work() for each in (self._working, self._index) if each is not None]
        return [job for job in jobs if job is not None]

    def _carry_out(self, arrival: Arrival, route: Route, keys: tuple[Key, ...]) -> None:
        came = arrival.message
        sends = route.sends
        body = came.body
        if self._keys is not None:
            if arrival.interface == LOCAL:
                body = self._keys.seal(body, event_context(came.id)) if sends else b""
            elif keys:
                try:
                    arrival = Arrival(arrival.interface, replace(came, body=arrival.content))
                except SealError as error:  # its header alone has told that clients here want it
                    self._drop_sealed(arrival, error)
                    if not sends:
                        self._acknowledge_unreadable(arrival)
                        return
                    keys = ()
        # Of use at a broker that delivers it or sends it more than one way (Shen §5.6).
        is_of_use = keys or arrival.interface == LOCAL or len(sends) > 1 or (sends and len(sends[0][1]) > 1)
        useless = 0 if is_of_use else came.useless + 1
        for header, links in sends:
            encoded = b"" if header is None else headers.encode(header)
            self.header_bytes += len(encoded) * len(links)
            sent = Publish(
                came.id,
                body,
                encoded,
                came.hops + 1,
                useless,
                came.epoch,
                came.publisher,
                came.stamps,
                came.kept,
                came.age,
                came.aged_at,
            )
            self._credit.send(links, sent)
        # A plain event goes past durable delivery, unless a durable subscription here may want it queued.
        if came.kept is not None or self._delivery.has_durable:
            recipients = self._repairing(partial(self._recipients, keys)) if keys else ()
            self._delivery.on_routed(arrival, [link for _, links in sends for link in links], recipients)
        elif keys and self._clients is not None:
            self._deliver(keys, arrival.message)
        if not keys and not sends and arrival.interface != LOCAL:
            self._effects.append(Drop(UNWANTED, replace(came, useless=useless), arrival.interface))

    def _filter_route(self, arrival: Arrival, route: Route) -> Route:
        """Drop the links by which an event may not leave."""
        filters = self.link_filters
        suspended = self._suspended if self._keeps_to_tree or arrival.message.kept is not None else ()
        blocked = {
            link
            for _, links in route.sends
            for link in links
            if link in suspended or (link in filters and not _releases(filters[link], arrival))
        }
        return _without(blocked, route)

    def _without_outages(self, arrival: Arrival, route: Route, keys: tuple[Key, ...]) -> Route:
        """Drop broken links, and charge them with an event that is of no other use here."""
        broken = {link for _, links in route.sends for link in links if link in self.outages.links}
        left = _without(broken, route)
        if broken and not keys and not left.sends and arrival.interface != LOCAL:
            self.outages.charge(broken, arrival.message.useless + 1)
        return left

    def _match_local(self, arrivals: Sequence[Arrival], routes: Sequence[Route]) -> list[tuple[Key, ...]]:
        """For each event the keys of local clients that match."""
        found: list[tuple[Key, ...]] = [route.local or () for route in routes]
        unknown = [place for place, route in enumerate(routes) if route.local is None]
        if not unknown or self._clients is None or not len(self._clients):
            return found
        # Made here, at the first event that needs it: with content forwarding no event ever does.
        if self._index is None:
            self._index = InterestIndex(filter_index_of(self._matcher))
            for key, filter in self._clients.keys().items():
                self._index.add(LOCAL, key, filter)
        looked_up = self._index.find_interested([arrivals[place].event for place in unknown])
        for place, interested in zip(unknown, looked_up, strict=True):
            found[place] = interested.local
        return found

    def _route_one_by_one(
        self, arrivals: Sequence[Arrival]
    ) -> tuple[list[Arrival], list[Route], list[tuple[Key, ...]]]:
        """Route those events of a batch that can be read, where some cannot."""
        readable: list[Arrival] = []
        routes: list[Route] = []
        local: list[tuple[Key, ...]] = []
        for arrival in arrivals:
            try:
                found = self._repairing(partial(self._route_sealed, arrival))
                keys = self._repairing(partial(self._match_sealed, arrival, found))
            except PalioError as error:
                self._effects.append(Drop(f"{UNREADABLE}: {error}", arrival.message))
                self._note_gap(arrival.message.id, None)
                self._acknowledge_unreadable(arrival)
                continue
            if keys is None and not found[0].sends:
                self._acknowledge_unreadable(arrival)
                continue
            readable.append(arrival)
            routes += found
            local += keys or [()]
        return readable, routes, local

    # Sealed events that cannot be opened here

    def _route_sealed(self, arrival: Arrival) -> list[Route]:
        """The route of one event. If its header does not decide, and its content cannot be read, it goes to all
        neighbours that have filters, with the header that it came with."""
        try:
            return self._forwarding.route([arrival])
        except SealError:
            links = tuple(sorted(link for link in self._filter_counts if link != arrival.interface))
            return [Route(((arrival.header, links),) if links else ())]

    def _match_sealed(self, arrival: Arrival, found: Sequence[Route]) -> list[tuple[Key, ...]] | None:
        """The keys of local clients that match; None where the content cannot be read."""
        try:
            return self._match_local([arrival], found)
        except SealError as error:
            self._drop_sealed(arrival, error)
            return None

    def _acknowledge_unreadable(self, arrival: Arrival) -> None:
        """Acknowledge an event that goes nowhere: no later attempt would make it readable."""
        if arrival.message.kept is not None:
            self._delivery.on_routed(arrival, (), ())

    def _drop_sealed(self, arrival: Arrival, error: SealError) -> None:
        """Drop an event for the clients of this broker; it is forwarded all the same."""
        self._effects.append(Drop(f"{UNREADABLE}: {error.problem}", arrival.message, arrival.interface))
        self._note_gap(arrival.message.id, LOCAL)

    # Listener: filters that come and go

    def open_link(self, interface: int) -> None:
        self._forwarding.open_link(interface)

    def close_link(self, interface: int) -> None:
        self._forwarding.close_link(interface)

    def add_filter(self, interface: int, key: Key, wanted: Filter) -> None:
        self._forwarding.add_filter(interface, key, wanted)
        if interface != LOCAL:
            self._filter_counts[interface] = self._filter_counts.get(interface, 0) + 1
        if interface == LOCAL and self._index is not None:
            self._index.add(LOCAL, key, wanted)

    def remove_filter(self, interface: int, key: Key) -> None:
        self._forwarding.remove_filter(interface, key)
        if interface != LOCAL:
            self._filter_counts[interface] -= 1
            if not self._filter_counts[interface]:
                del self._filter_counts[interface]
        if interface == LOCAL and self._index is not None:
            self._index.remove(LOCAL, key)


def _without(blocked: set[int], route: Route) -> Route:
    if not blocked:
        return route
    sends = [(header, tuple(link for link in links if link not in blocked)) for header, links in route.sends]
    return Route(tuple((header, links) for header, links in sends if links), route.local)


def _releases(link_filter: LinkFilter, arrival: Arrival) -> bool:
    try:
        return link_filter.releases(arrival.event)
    except PalioError:
        return False  # a filter cannot vouch for what it cannot read

"""Path of a batch of events through a broker: matched as columns, delivered and sent on as the rows that are wanted.

No Python object is made of a row that nobody takes as one. One search finds all matches of the batch as pairs of a row
and the number of a filter; sorted by filter, they are the rows for each client and each link.

Columns need a forwarding by content alone. Where something here looks at single events (headers, sealing, duplicates
in circles, link filters, durable queues), the batch is split into the events of its rows, which take the way of events
that came one by one. So is a batch for a neighbour that does not take batches. Either way the same events arrive, with
the same ids and numbers, in the order of the batch.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from palio.errors import WireError
from palio.events.batches import EventBatch, Rows
from palio.routing.codec import Arrival
from palio.routing.columnar_codec import bodies_of, decode_batch, encode_batch
from palio.routing.effects import (
    UNWANTED,
    BatchRecipient,
    Client,
    Deliver,
    DeliverColumns,
    Drop,
    Effect,
    Recipient,
)
from palio.routing.forwarding.content import ContentForwarding
from palio.routing.memo import Memo
from palio.routing.messages import LOCAL, EventId, Publish, PublishColumns

if TYPE_CHECKING:
    from palio.routing.delivery.durable_delivery import DurableDelivery
    from palio.routing.event_router import LinkFilter
    from palio.routing.forwarding.strategy import Forwarding
    from palio.routing.interest_index import ClientTable
    from palio.routing.link_credit import LinkCredit

_Groups = dict[Client, list[tuple[tuple[str, ...], Rows]]]


class BatchArrival:
    """A batch that came by an interface. `places` are those of its rows in the batch that a client published."""

    __slots__ = ("batch", "interface", "message", "places")

    def __init__(self, interface: int, message: PublishColumns, batch: EventBatch | None = None) -> None:
        """Without `batch` the body of the message is decoded; a `PalioError` where that fails."""
        self.interface = interface
        self.message = message
        self.batch = decode_batch(message.body) if batch is None else batch
        self.places: Rows | None = None
        if message.count != len(self.batch):
            raise WireError(f"a batch of {len(self.batch):,} events that is said to have {message.count:,}")
        if len(message.rows) not in (0, 4 * message.count) or len(message.useless) not in (0, 4 * message.count):
            raise WireError("a batch with an envelope for another number of events")
        if message.rows:
            self.places = np.frombuffer(message.rows, "<u4").astype(np.int64)

    def place(self, row: int) -> int:
        return row if self.places is None else int(self.places[row])

    def events(self, rows: Rows | None = None) -> Iterator[Publish]:
        """The events of some rows, or of all, as they would have come one by one."""
        batch = self.batch if rows is None else self.batch.take(rows)
        numbers = range(len(batch)) if rows is None else rows.tolist()
        return map(self.event, numbers, bodies_of(batch))

    def id(self, row: int) -> EventId:
        """The number of a row's event in the network."""
        first = self.message.id
        return EventId(first.node, first.incarnation, first.sequence + self.place(row))

    def chosen(self, rows: Rows) -> BatchArrival:
        """Some rows of the batch, as if only they had come."""
        batch, useless = self.batch.take(rows), self.message.useless
        places = rows if self.places is None else self.places[rows]
        message = replace(
            self.message,
            count=len(rows),
            body=encode_batch(batch),
            rows=places.astype("<u4").tobytes(),
            useless=np.frombuffer(useless, "<u4")[rows].tobytes() if useless else b"",
        )
        return BatchArrival(self.interface, message, batch)

    def event(self, row: int, body: bytes) -> Publish:
        """The event of a row, of which the body is known."""
        came, place = self.message, self.place(row)
        return Publish(
            self.id(row),
            body,
            hops=came.hops,
            useless=int.from_bytes(came.useless[4 * row : 4 * row + 4], "little"),
            epoch=came.epoch,
            publisher=came.publisher + place,
            stamps=came.stamps,
            age=came.age,
            aged_at=came.aged_at,
        )


def events_in(message: PublishColumns) -> Iterator[Publish]:
    """The single events of a batch under way."""
    return BatchArrival(LOCAL, message).events()


def single_deliveries(effect: DeliverColumns) -> Iterator[Deliver]:
    """The deliveries of single events that a delivery of a batch stands for, in the order of its rows."""
    arrival = BatchArrival(LOCAL, effect.message, effect.batch)
    recipients: dict[int, list[Recipient]] = {}
    for client, groups in effect.clients:
        for names, rows in groups:
            for row in rows.tolist():
                recipients.setdefault(row, []).append(Recipient(client, names))
    wanted = np.array(sorted(recipients), np.int64)
    for row, event in zip(wanted.tolist(), arrival.events(wanted), strict=True):
        yield Deliver(tuple(sorted(recipients[row])), event)


class BatchRouter:
    """Routes batches of events, each as a whole where that is possible."""

    __slots__ = (
        "_credit",
        "_delivery",
        "_effects",
        "_forwarding",
        "_joined_names",
        "_link_filters",
        "_route_singly",
        "clients",
        "content_reads",
    )

    def __init__(
        self,
        forwarding: Forwarding,
        credit: LinkCredit,
        delivery: DurableDelivery,
        link_filters: dict[int, LinkFilter],
        effects: list[Effect],
        needs_single_events: bool,
        route_singly: Callable[[Sequence[Arrival]], None],
    ) -> None:
        """`route_singly` takes the events of a batch that has to be split; `needs_single_events` where all are."""
        # Not a subclass of it, which may do more.
        is_possible = type(forwarding) is ContentForwarding and not needs_single_events
        self._forwarding = forwarding if is_possible and isinstance(forwarding, ContentForwarding) else None
        self._credit = credit
        self._delivery = delivery
        self._link_filters = link_filters
        self._effects = effects
        self._route_singly = route_singly
        self.clients: ClientTable | None = None
        self.content_reads = 0
        # The names of several filters that one client's rows match: always the same tuple, as memos by identity need.
        self._joined_names = Memo[tuple[tuple[str, ...], ...], tuple[str, ...]]()

    @property
    def takes_columns(self) -> bool:
        """Whether batches are routed as such, unless a durable queue here may want some of their events."""
        return self._forwarding is not None and not self._link_filters

    def route(self, arrival: BatchArrival) -> None:
        forwarding = self._forwarding
        found = None
        if forwarding is not None and not self._delivery.has_durable:
            found = forwarding.find_columns(arrival.batch.columns)
        if forwarding is None or found is None:
            self._route_singly([Arrival(arrival.interface, each) for each in arrival.events()])
            return
        self.content_reads += len(arrival.batch)
        by_client: _Groups = {}
        by_link: dict[int, list[Rows]] = {}
        is_delivered = np.zeros(len(arrival.batch), np.bool_)
        for number, rows in _by_filter(*found):
            interested = forwarding.interested_in(array("i", (number,)).tobytes())
            for link in interested.links:
                if link != arrival.interface:
                    by_link.setdefault(link, []).append(rows)
            if interested.local and self.clients is not None:
                is_delivered[rows] = True
                for client, names in self.clients.recipients(interested.local):
                    by_client.setdefault(client, []).append((names, rows))
        self._send(arrival, {link: _union(pieces) for link, pieces in by_link.items()}, is_delivered)
        if by_client:
            self._deliver(arrival, by_client)

    def _deliver(self, arrival: BatchArrival, by_client: _Groups) -> None:
        recipients = tuple(
            BatchRecipient(client, tuple(groups) if len(groups) == 1 else self._disjoint(groups))
            for client, groups in sorted(by_client.items(), key=lambda each: each[0])
        )
        self._effects.append(DeliverColumns(recipients, arrival.message, arrival.batch))

    def _disjoint(self, groups: Sequence[tuple[tuple[str, ...], Rows]]) -> tuple[tuple[tuple[str, ...], Rows], ...]:
        """The rows that match several filters of one client, by the set of their names: each row in one group."""
        rows = np.concatenate([each for _, each in groups])
        if len(np.unique(rows)) == len(rows):
            return tuple(groups)
        matched: dict[int, list[int]] = {}
        for place, (_, each) in enumerate(groups):
            for row in each.tolist():
                matched.setdefault(row, []).append(place)
        by_set: dict[tuple[int, ...], list[int]] = {}
        for row in sorted(matched):
            by_set.setdefault(tuple(matched[row]), []).append(row)
        return tuple(
            (self._join(tuple(groups[place][0] for place in places)), np.array(several, np.int64))
            for places, several in by_set.items()
        )

    def _join(self, names: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        if len(names) == 1:
            return names[0]
        joined = self._joined_names.found.get(names)
        if joined is None:
            joined = tuple(sorted(name for each in names for name in each))
            self._joined_names.put(names, joined, len(joined))
        return joined

    def _send(self, arrival: BatchArrival, by_link: dict[int, Rows], is_delivered: np.ndarray) -> None:
        came, count = arrival.message, len(arrival.batch)
        ways = np.zeros(count, np.int64)
        for rows in by_link.values():
            ways[rows] += 1
        useless = _NOTHING
        if arrival.interface != LOCAL:
            # Of use at a broker that delivers it or sends it more than one way (Shen §5.6), as for single events.
            before = np.frombuffer(came.useless, "<u4") if came.useless else np.zeros(count, np.uint32)
            useless = np.where(is_delivered | (ways > 1), 0, before + 1).astype("<u4")
        same: dict[bytes, tuple[Rows, list[int]]] = {}
        for link, rows in sorted(by_link.items()):
            same.setdefault(rows.tobytes(), (rows, []))[1].append(link)
        for rows, links in same.values():
            self._credit.send_columns(tuple(links), _outgoing(arrival, rows, useless))
        if arrival.interface != LOCAL:
            unwanted = np.flatnonzero(~is_delivered & (ways == 0))
            if len(unwanted):
                for row, event in zip(unwanted.tolist(), arrival.events(unwanted), strict=True):
                    dropped = Publish(event.id, event.body, hops=event.hops, useless=int(useless[row]))
                    self._effects.append(Drop(UNWANTED, dropped, arrival.interface))


_NOTHING: Final = np.zeros(0, "<u4")


def _outgoing(arrival: BatchArrival, rows: Rows, useless: np.ndarray) -> PublishColumns:
    """The message with some rows of a batch; all of them travel in the bytes in which they came."""
    came, is_whole = arrival.message, len(rows) == len(arrival.batch)
    places = arrival.places
    if not is_whole:
        places = rows if places is None else places[rows]
    chosen = useless if is_whole or not len(useless) else useless[rows]
    return PublishColumns(
        came.id,
        len(rows),
        came.body if is_whole else encode_batch(arrival.batch.take(rows)),
        b"" if places is None else places.astype("<u4").tobytes(),
        came.hops + 1,
        chosen.tobytes() if chosen.any() else b"",
        came.epoch,
        came.publisher,
        came.stamps,
        came.age,
        came.aged_at,
    )


def _by_filter(rows: Rows, numbers: np.ndarray) -> Iterator[tuple[int, Rows]]:
    """The rows that each filter matches, in order."""
    if not len(rows):
        return
    order = np.argsort(numbers, kind="stable")
    rows, numbers = rows[order], numbers[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
    bounds = [*starts.tolist(), len(rows)]
    for number, (start, end) in zip(numbers[starts].tolist(), pairwise(bounds), strict=True):
        yield number, rows[start:end]


def _union(pieces: Sequence[Rows]) -> Rows:
    return pieces[0] if len(pieces) == 1 else np.unique(np.concatenate(pieces))

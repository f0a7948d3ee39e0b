"""Completeness: watermarks by which clients hear that they have all events that they wanted of a stretch.

Jerzak §6 names the goal and no mechanism. Content-based routing hides unwanted events, so that a subscriber cannot tell
an event that it did not want from one that was lost. Here the broker that accepts events numbers them, and sends a
watermark along with them: on each link it follows the events that it vouches for. The price is space decoupling: a
subscriber learns at which broker, and under which source, events are published. The doubt horizon of Gryphon (Bhola et
al., DSN 2002) is the nearest relative; there, silence is sent for each publisher, here one watermark serves all
publishers of a broker.

A watermark covers the stretch since the one before it. It is sound for a subscription if all brokers on the way had its
filter, or one that covers it, when the stretch began. No broker knows the way; so each hop answers by counting. Both
ends of a link count the updates of tables on it. A watermark says how many updates of the receiver the sender had when
the stretch began (`seen`), and the receiver remembers which filters of its other neighbours and clients were part of
its own updates by then (`_Inclusion`). It passes the watermark on with the smaller of what it had of the next receiver
itself and what upstream had: so the count is translated hop by hop, until it tells the last broker which subscriptions
of its clients were known all the way. A covered filter causes no update, and is known as soon as its coverer is.

A stretch is void, `seen` is below 0, behind a link that was opened in it, or that had no room for one of its events; at
a broker that saw one of them twice, or could not read it; and where advertisements are still under way, since filters
follow them. Void stretches are not told to clients; the next one that is sound begins later, and the gap shows. An
event that is confirmed and retried is vouched for from its first attempt on: an attempt fails by a broken link, which
voids the stretch behind it.

Watermarks are sent an interval after the first event since the last one, with an empty one right before that event, at
which stretches begin. Without events nothing is sent, unless the option `heartbeat` asks for it. Watermarks go over
links whose neighbours have filters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from math import inf
from typing import Final, NamedTuple

import msgspec

from palio.errors import SealError
from palio.routing.client_messages import Complete
from palio.routing.delivery.durable_delivery import DurableDelivery
from palio.routing.effects import UNREADABLE, Client, Drop, Effect, Reply, Send, SetTimer
from palio.routing.event_router import EventRouter
from palio.routing.link_credit import LinkCredit
from palio.routing.messages import (
    LOCAL,
    Advertise,
    Begin,
    EventId,
    Message,
    Register,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Watermark,
)
from palio.routing.sealing import Keyring, watermark_context

COMPLETENESS_TIMER: Final = "completeness"
_UPDATES: Final = (Begin, Subscribe, Unsubscribe, Register, Advertise, Unadvertise)  # that both ends of a link count
_VOID: Final = -1
_GONE: Final = -1  # the link by which a stream came, once it is closed
_MAX_STREAMS: Final = 65_536  # brokers whose watermarks are followed
_MAX_INCLUSIONS: Final = 1_024  # of one link, that no watermark has answered yet
_MAX_SOURCES: Final = 1_000  # that one watermark names

_decode_sources = msgspec.msgpack.Decoder(tuple[tuple[str, int], ...])


def no_clock() -> float:
    """The clock of a broker that has none: watermarks then tell no time."""
    return 0.0


class _Stream(NamedTuple):
    """The watermarks of one broker, as they come by one link.

    `starts` are the updates that each interface had sent when the present stretch began. `gaps` are the interfaces
    that may lack one of its events, or None for all of them.
    """

    incarnation: int
    serial: int
    came_by: int
    starts: dict[int, int]
    gaps: set[int | None]


class _Inclusion(NamedTuple):
    """The updates of each interface that are part of the first `sent` updates to a neighbour."""

    sent: int
    versions: dict[int, int]


class Completeness:
    """The watermarks at one broker: its own, those of others that pass it, and the clients that are told.

    `wants` decides whether a neighbour is interested in events at all; `begun` are the links in use, with whether the
    neighbour has begun to send its tables.
    """

    __slots__ = (
        "_accepted",
        "_begun",
        "_clock",
        "_credit",
        "_delivery",
        "_effects",
        "_filters_follow_advertisements",
        "_heartbeat",
        "_incarnation",
        "_inclusions",
        "_interval",
        "_is_timed",
        "_keys",
        "_local_version",
        "_node",
        "_openings",
        "_received",
        "_router",
        "_scanned",
        "_sent",
        "_serial",
        "_sources",
        "_streams",
        "_subscriptions",
        "_up_to",
        "_wants",
    )

    def __init__(
        self,
        node: int,
        incarnation: int,
        interval: float,
        heartbeat: float,
        filters_follow_advertisements: bool,
        clock: Callable[[], float],
        wants: Callable[[int], bool],
        begun: Mapping[int, bool],
        router: EventRouter,
        credit: LinkCredit,
        delivery: DurableDelivery,
        effects: list[Effect],
        keys: Keyring | None = None,
    ) -> None:
        self._keys = keys
        self._node = node
        self._incarnation = incarnation
        self._interval = interval
        self._heartbeat = heartbeat  # seconds between watermarks while nothing is published; 0 is none
        self._filters_follow_advertisements = filters_follow_advertisements
        self._clock = clock
        self._wants = wants
        self._begun = begun
        self._router = router
        self._credit = credit
        self._delivery = delivery
        self._effects = effects
        self._sent: dict[int, int] = {}
        self._received: dict[int, int] = {}
        self._openings: dict[int, int] = {}  # how often each link was taken into use
        self._scanned = 0  # effects of this batch that are counted in `_sent`
        self._inclusions: dict[int, deque[_Inclusion]] = {}
        self._streams: dict[int, _Stream] = {}
        self._subscriptions: dict[Client, dict[str, int]] = {}  # with the version at which each was made
        self._local_version = 0
        self._serial = 0
        self._accepted = 0  # the last event of this broker
        self._up_to = 0  # the last event that a watermark has covered
        self._sources: dict[str, int] = {}  # since the last watermark, with the last event of each
        self._is_timed = False
        router.on_gap = self._on_gap
        credit.on_drop = self._on_gap

    # Clients

    def subscribe(self, client: Client, name: str) -> None:
        """Tell a client of complete stretches from now on; a filter that replaces another begins anew."""
        self._local_version += 1
        self._subscriptions.setdefault(client, {})[name] = self._local_version

    def unsubscribe(self, client: Client, name: str) -> None:
        names = self._subscriptions.get(client, {})
        names.pop(name, None)
        if not names:
            self._subscriptions.pop(client, None)

    def accept(self, sequence: int, source: str | None) -> None:
        """Note an event that this broker accepts, before it is routed."""
        if len(self._sources) >= _MAX_SOURCES:
            self._emit(self._routed)
        if self._accepted == self._up_to:
            self._emit(self._up_to)  # here the stretch begins
        self._accepted = sequence
        self._sources[source or ""] = sequence
        self.expect_watermark()

    def expect_watermark(self) -> None:
        """Set the timer, where there is something to vouch for."""
        if not self._is_timed and self._accepted > self._up_to:
            self._is_timed = True
            self._effects.append(SetTimer(COMPLETENESS_TIMER, self._interval))

    def on_timer(self) -> None:
        self._is_timed = False
        self._emit(self._routed)
        if self._heartbeat:
            self._effects.append(SetTimer(COMPLETENESS_TIMER, self._heartbeat, upkeep=True))

    @property
    def _routed(self) -> int:
        """The last event such that it and all before it are routed, or never will be."""
        unrouted = self._delivery.first_unrouted
        up_to = self._accepted if unrouted is None else min(self._accepted, unrouted.sequence - 1)
        return max(up_to, self._up_to)

    def _emit(self, up_to: int) -> None:
        named = tuple((source, number) for source, number in self._sources.items() if number <= up_to)
        self._sources = {source: number for source, number in self._sources.items() if number > up_to}
        self._serial += 1
        sources = msgspec.msgpack.encode(named) if named else b""
        if sources and self._keys is not None:
            context = watermark_context(self._node, self._incarnation, self._serial)
            sources = self._keys.seal(sources, context)
        mark = Watermark(self._node, self._incarnation, self._serial, self._up_to, up_to, 0, 0, self._clock(), sources)
        self._up_to = up_to
        self.receive(LOCAL, mark)

    # Links

    def on_link_up(self, link: int) -> None:
        """A connection begins, on which both ends count from 0."""
        self._count_sent()  # those of the connection before
        self._sent[link] = self._received[link] = 0

    def open_link(self, link: int) -> None:
        self._openings[link] = self._openings.get(link, 0) + 1
        self._inclusions[link] = deque()

    def close_link(self, link: int) -> None:
        self._inclusions.pop(link, None)
        self.restart_link(link)
        for node, stream in self._streams.items():
            if stream.came_by == link:
                self._streams[node] = stream._replace(came_by=_GONE)

    def restart_link(self, link: int) -> None:
        """All filters of a neighbour are withdrawn, and about to come again, where the link stays."""
        for stream in self._streams.values():
            stream.starts.pop(link, None)
        # Earlier updates to other neighbours included filters that are withdrawn now: nothing may rely on them, even
        # where upstream answers only for the time before. A new connection would count from 0 again, besides.
        for inclusions in self._inclusions.values():
            for each in inclusions:
                each.versions.pop(link, None)

    def count_received(self, link: int, message: Message) -> None:
        if isinstance(message, _UPDATES):
            self._received[link] = self._received.get(link, 0) + 1
            if self._filters_follow_advertisements and isinstance(message, Advertise) and link in self._inclusions:
                # Filters that it serves are about to be sent: what was sent before includes them no longer.
                self._inclusions[link].clear()

    def note_inclusions(self) -> None:
        """Remember what the updates to each neighbour include; all changes of tables until now are sent."""
        self._count_sent()
        versions = self._versions()
        for link, inclusions in self._inclusions.items():
            sent = self._sent.get(link, 0)
            # The last one is replaced where nothing was sent since. Where there are too many it may go as well: those
            # that remain are true, and only answered later.
            if inclusions and (inclusions[-1].sent == sent or len(inclusions) == _MAX_INCLUSIONS):
                inclusions.pop()
            inclusions.append(_Inclusion(sent, versions))

    def end_batch(self) -> None:
        """Count the updates of this batch; its effects are about to be cleared."""
        self._count_sent()
        self._scanned = 0

    def _count_sent(self) -> None:
        effects = self._effects
        for place in range(self._scanned, len(effects)):
            effect = effects[place]
            if type(effect) is Send and isinstance(effect.message, _UPDATES):
                for link in effect.links:
                    self._sent[link] = self._sent.get(link, 0) + 1
        self._scanned = len(effects)

    def _versions(self) -> dict[int, int]:
        versions = {link: self._received.get(link, 0) for link, has_begun in self._begun.items() if has_begun}
        versions[LOCAL] = self._local_version
        return versions

    def _included(self, link: int, seen: int) -> Mapping[int, int] | None:
        """The versions of all interfaces that the first `seen` updates to a neighbour include."""
        inclusions = self._inclusions.get(link, deque())
        while len(inclusions) > 1 and inclusions[1].sent <= seen:
            inclusions.popleft()
        return inclusions[0].versions if inclusions and inclusions[0].sent <= seen else None

    # Watermarks

    def receive(self, link: int, mark: Watermark) -> None:
        """Pass a watermark on when the events before it are routed."""
        opening = self._openings.get(link, 0)
        self._router.call_between(lambda: self._pass_on(link, mark, opening))

    def _pass_on(self, link: int, mark: Watermark, opening: int) -> None:
        if link != LOCAL and (link not in self._begun or opening != self._openings.get(link)):
            self._effects.append(Drop("link not in use", mark))
            return
        stream = self._streams.get(mark.node)
        if stream is not None and (mark.incarnation, mark.serial) <= (stream.incarnation, stream.serial):
            self._effects.append(Drop("seen before", mark))  # while brokers agree on another tree
            return
        self._count_sent()
        included = self._included_upstream(link, mark, stream)
        for other in sorted(each for each, has_begun in self._begun.items() if has_begun and each != link):
            if self._wants(other):
                seen = self._vouched(other, stream, included)
                sent = self._sent.get(other, 0)
                self._credit.send_watermark(other, msgspec.structs.replace(mark, seen=seen, sent=sent))
        version = self._vouched(LOCAL, stream, included)
        if version >= 0 and self._subscriptions:
            self._tell(version, mark)
        self._streams.pop(mark.node, None)  # put back at the end: the first is the one not heard of for longest
        self._streams[mark.node] = _Stream(mark.incarnation, mark.serial, link, self._versions(), set())
        if len(self._streams) > _MAX_STREAMS:
            del self._streams[next(iter(self._streams))]

    def _included_upstream(self, link: int, mark: Watermark, stream: _Stream | None) -> Mapping[int, float] | None:
        """The versions that upstream vouches for; None where the stretch is void, or did not begin here."""
        follows = (
            stream is not None
            and (stream.incarnation, stream.serial + 1, stream.came_by) == (mark.incarnation, mark.serial, link)
            and None not in stream.gaps
        )
        if not follows or mark.seen < 0 or mark.sent > self._received.get(link, 0):
            return None
        if link == LOCAL:
            return {LOCAL: inf, **dict.fromkeys(self._begun, inf)}
        return self._included(link, mark.seen)

    def _vouched(self, interface: int, stream: _Stream | None, included: Mapping[int, float] | None) -> int:
        """How many updates of an interface were known all the way, and here, when the stretch began."""
        if stream is None or included is None or interface in stream.gaps:
            return _VOID
        return int(min(stream.starts.get(interface, _VOID), included.get(interface, _VOID)))

    def _tell(self, version: int, mark: Watermark) -> None:
        try:
            sources = self._read_sources(mark) if mark.sources else ()
        except (msgspec.DecodeError, UnicodeError, SealError):
            self._effects.append(Drop(f"{UNREADABLE}: the sources of a watermark", mark))
            return
        for client, made in self._subscriptions.items():
            names = tuple(name for name, since in made.items() if since <= version)
            if names:
                told = Complete(names, mark.node, mark.incarnation, mark.after, mark.up_to, mark.time, sources)
                self._effects.append(Reply(client, told))

    def _read_sources(self, mark: Watermark) -> tuple[tuple[str, int], ...]:
        sources = mark.sources
        if self._keys is not None:
            sources = self._keys.open(sources, watermark_context(mark.node, mark.incarnation, mark.serial))
        return _decode_sources.decode(sources)

    def _on_gap(self, id: EventId, interface: int | None) -> None:
        stream = self._streams.get(id.node)
        if stream is not None and stream.incarnation == id.incarnation:
            stream.gaps.add(interface)

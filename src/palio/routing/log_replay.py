"""Replay of the event logs of all brokers: confirmed events of the past, merged by time.

Each event is logged once, at the broker that accepted it. A replay is an echo: each broker reads a page of its own log,
awaits the pages of those behind it, and answers with all of them. The initiator merges them in the order of time. A
page ends somewhere, so that the answer ends where the first log that has more was read to; what is left out is read
again, from the offsets that the client hands back. A log that is known of and did not answer is named as missing.

Link filters hold for replays as for live events: a replay reveals nothing that a subscription would not have received.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from typing import Final

from msgspec.structs import replace

from palio.errors import PalioError, SealError
from palio.events import Event
from palio.routing.client_messages import Past, ReplayClient
from palio.routing.codec import decode_event
from palio.routing.echo import Echo, Query
from palio.routing.effects import Client, Effect, Read, ReadDone, Reply, Send
from palio.routing.event_router import LinkFilter
from palio.routing.messages import LOCAL, BrokerLogPage, EventId, PastEvent, Replay, Replayed
from palio.routing.sealing import Keyring, log_context

_MAX_EVENTS_READ: Final = 2_000  # of one log, for one answer
_MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024  # of events in one answer, however many logs there are


@dataclass(slots=True)
class _Collection:
    """The pages read so far, and at the initiator the request and the brokers that are known to have a log."""

    request: tuple[Client, ReplayClient, list[int]] | None
    pages: list[BrokerLogPage] = field(default_factory=list)


class LogReplay:
    """The replays under way at one broker."""

    __slots__ = ("_effects", "_keys", "_link_filters", "_node", "_reads", "_tokens", "echo")

    def __init__(
        self,
        node: int,
        incarnation: int,
        tokens: Iterator[int],
        link_filters: Mapping[int, LinkFilter],
        links: Collection[int],
        effects: list[Effect],
        keys: Keyring | None = None,
    ) -> None:
        """`keys` are those of a network with sealed events: pages travel sealed, too."""
        self._keys = keys
        self._node = node
        self._tokens = tokens
        self._link_filters = link_filters
        self._effects = effects
        self._reads: dict[int, EventId] = {}  # replays that wait for this broker's own log, by token
        self.echo = Echo[_Collection](node, incarnation, links, effects, self._complete)

    def start(self, client: Client, request: ReplayClient, logs: list[int]) -> None:
        """Answer a client with `Past`; `logs` are the brokers that are known to have a log."""
        id = self.echo.next_id()
        replay = Replay(id, request.wanted, request.since, request.places, request.limit)
        self._begin(LOCAL, replay, _Collection((client, request, logs)))

    def on_replay(self, link: int, replay: Replay) -> None:
        self._begin(link, replay, _Collection(None))

    def on_replayed(self, link: int, answer: Replayed) -> None:
        def merge(collected: _Collection) -> None:
            collected.pages += filter_incoming_pages(link, answer.pages, self._link_filters, self._keys)

        self.echo.receive(link, answer.id, merge=merge)

    def on_read_done(self, done: ReadDone) -> None:
        """Add the page of this broker's own log; there is none where it could not be read."""
        id = self._reads.pop(done.token, None)
        pages = [_seal_page(done.page, self._keys)] if done.page is not None else []
        if id is not None:
            self.echo.receive(LOCAL, id, merge=lambda collected: collected.pages.extend(pages))

    def _begin(self, parent: int, replay: Replay, collected: _Collection) -> None:
        token = next(self._tokens)
        self._reads[token] = replay.id
        offset = dict(replay.places).get(self._node)
        limit = max(1, min(replay.limit, _MAX_EVENTS_READ))
        self._effects.append(Read(replay.wanted, offset, replay.since, limit, token))
        self.echo.send(replay.id, parent, collected, replay, awaits_local=True)

    def _complete(self, query: Query[_Collection]) -> None:
        collected = query.state
        if collected.request is None:
            pages = filter_outgoing_pages(query.parent, collected.pages, self._link_filters, self._keys)
            self._effects.append(Send((query.parent,), Replayed(query.id, fit_pages(pages))))
        else:
            client, request, logs = collected.request
            pages = [_open_page(page, self._keys) for page in collected.pages]
            self._effects.append(Reply(client, merge_pages(request, fit_pages(pages), logs)))


def _seal_page(page: BrokerLogPage, keys: Keyring | None) -> BrokerLogPage:
    if keys is None or keys.is_empty:  # an inner broker accepts no events, and has none in its log
        return page if keys is None else replace(page, events=())
    sealed = (replace(each, body=keys.seal(each.body, log_context(page.broker, each.offset))) for each in page.events)
    return replace(page, events=tuple(sealed))


def _open_page(page: BrokerLogPage, keys: Keyring | None) -> BrokerLogPage:
    """A page with readable events; those that cannot be opened are left out."""
    if keys is None:
        return page
    opened = []
    for each in page.events:
        try:
            opened.append(replace(each, body=keys.open(each.body, log_context(page.broker, each.offset))))
        except SealError:
            continue
    return replace(page, events=tuple(opened))


def filter_incoming_pages(
    link: int,
    pages: Sequence[BrokerLogPage],
    link_filters: Mapping[int, LinkFilter],
    keys: Keyring | None = None,
) -> Sequence[BrokerLogPage]:
    """Drop the events that may not come in by a link."""
    passing = link_filters.get(link)
    return pages if passing is None else _filter_pages(pages, passing.admits, keys)


def filter_outgoing_pages(
    link: int,
    pages: Sequence[BrokerLogPage],
    link_filters: Mapping[int, LinkFilter],
    keys: Keyring | None = None,
) -> Sequence[BrokerLogPage]:
    """Drop the events that may not go out by a link."""
    passing = link_filters.get(link)
    return pages if passing is None else _filter_pages(pages, passing.releases, keys)


def _filter_pages(
    pages: Iterable[BrokerLogPage], may_pass: Callable[[Event], bool], keys: Keyring | None
) -> list[BrokerLogPage]:
    return [
        replace(page, events=tuple(event for event in page.events if _passes(page, event, may_pass, keys)))
        for page in pages
    ]


def _passes(page: BrokerLogPage, event: PastEvent, may_pass: Callable[[Event], bool], keys: Keyring | None) -> bool:
    try:
        body = event.body if keys is None else keys.open(event.body, log_context(page.broker, event.offset))
        return may_pass(decode_event(body))
    except PalioError:
        return False  # a filter cannot vouch for what it cannot read


def fit_pages(pages: Sequence[BrokerLogPage], most: int = _MAX_ANSWER_BYTES) -> tuple[BrokerLogPage, ...]:
    """Shorten pages that are too much for one message together; the earliest event always stays."""
    order = sorted((event.time, page.broker, event.offset, len(event.body)) for page in pages for event in page.events)
    sizes = list(accumulate(size for *_, size in order))
    if not sizes or sizes[-1] <= most:
        return tuple(pages)
    # At least one event, however large: an empty answer would never get past it.
    *last, _ = order[max(1, bisect_right(sizes, most)) - 1]
    return tuple(_up_to(last, page) for page in pages)


def _up_to(last: list[float], page: BrokerLogPage) -> BrokerLogPage:
    """Cut a page off after an event, which is given as its time, its broker and its offset."""
    kept = sum([event.time, page.broker, event.offset] <= last for event in page.events)  # times never go down
    if kept == len(page.events):
        return page
    next = page.events[kept].offset
    return replace(page, next=next, until=min(page.until, last[0]), events=page.events[:kept])


def merge_pages(request: ReplayClient, pages: Sequence[BrokerLogPage], logs: Iterable[int]) -> Past:
    """Merge pages in the order of time, up to where the first of those ends that have more."""
    expired = tuple(sorted((page.broker, page.oldest) for page in pages if not page.oldest <= page.start <= page.end))
    missing = tuple(sorted({*logs, *dict(request.places)} - {page.broker for page in pages}))
    unread = [page for page in pages if page.next < page.end]
    until = min((page.until for page in unread), default=inf)
    # Broker and offset break ties, so that an answer does not depend on the order in which pages came.
    found = [(event.time, page.broker, event.offset, event) for page in pages for event in page.events]
    found.sort(key=lambda each: each[:3])
    by_identity: dict[bytes, tuple[int, PastEvent]] = {}
    places = dict(request.places) | {page.broker: page.next for page in pages}
    # Events after `until` are left out: each log goes on from its first of them.
    for time, broker, offset, _ in reversed(found):
        if time > until:
            places[broker] = offset
    for time, broker, offset, event in found:
        if time <= until:
            # A publisher may have sent one event to two brokers: equal identities are one event.
            by_identity.setdefault(event.identity or f"{broker} {offset}".encode(), (broker, event))
    # Nothing where an offset has expired: the client must learn of the gap before it reads past it.
    events = () if expired else tuple(by_identity.values())
    return Past(request.number, events, tuple(sorted(places.items())), missing, expired, not unread and not expired)

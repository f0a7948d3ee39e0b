"""What was confirmed in the past? The logs of all brokers are asked, along the tree, and their answers merged by time.

Each event is logged once, where it was let in. A question goes to everybody; each broker reads its own log, waits for
those behind it, and answers with all pages. Whoever was asked by a client puts them in order. A page ends somewhere, so
that nothing is said of a time for which some log has not been read: what is left out is read again, from the places
that the client hands back. A log that is known of and did not answer is named.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from typing import Final

from msgspec.structs import replace

from palio.routing.clients import Past, ReplayClient
from palio.routing.effects import Client, Effect, Read, ReadDone, Reply, Send
from palio.routing.gates import Gate, pages_in, pages_out
from palio.routing.messages import EventId, LogPage, PastEvent, Replay, Replayed

_MOST: Final = 2_000  # events of one log that are looked at for one answer
_MOST_BYTES: Final = 4 * 1024 * 1024  # of events in one answer, however many logs there are


@dataclass(slots=True)
class _Question:
    """Who asked, and who has not answered."""

    asked: tuple[Client, ReplayClient, list[int]] | int  # a client, with all logs that are known of, or a link
    waiting: set[int]
    token: int | None  # of the broker's own log, while it is read
    pages: list[LogPage] = field(default_factory=list)


class Replays:
    """The questions under way at one broker."""

    __slots__ = ("_gates", "_incarnation", "_node", "_questions", "_sequence", "_tokens")

    def __init__(self, node: int, incarnation: int, tokens: Iterator[int], gates: Mapping[int, Gate]) -> None:
        self._node = node
        self._gates = gates
        self._incarnation = incarnation
        self._tokens = tokens
        self._sequence = 0
        self._questions: dict[EventId, _Question] = {}

    def ask(self, client: Client, request: ReplayClient, links: Iterable[int], logs: list[int]) -> list[Effect]:
        """A client asks; `logs` are the brokers that are known to have one."""
        self._sequence += 1
        id = EventId(self._node, self._incarnation, self._sequence)
        replay = Replay(id, request.wanted, request.since, request.places, request.limit)
        return self._begin(replay, (client, request, logs), links)

    def asked(self, link: int, replay: Replay, links: Iterable[int]) -> list[Effect]:
        """A neighbour asks; `links` are all the others."""
        return self._begin(replay, link, links)

    def answered(self, link: int, answer: Replayed) -> list[Effect]:
        question = self._questions.get(answer.id)
        if question is None or link not in question.waiting:
            return []
        question.waiting.remove(link)
        question.pages += pages_in(link, answer.pages, self._gates)
        return self._end_if_complete(answer.id, question)

    def read(self, done: ReadDone) -> list[Effect]:
        """The broker's own log has been read."""
        for id, question in self._questions.items():
            if question.token == done.token:
                question.token = None
                question.pages += [done.page] if done.page is not None else []
                return self._end_if_complete(id, question)
        return []

    def closed(self, link: int) -> list[Effect]:
        """A neighbour is gone: its questions with it, and what it would have answered is missing."""
        effects: list[Effect] = []
        for id, question in list(self._questions.items()):
            if question.asked == link:
                del self._questions[id]
            elif link in question.waiting:
                question.waiting.remove(link)
                effects += self._end_if_complete(id, question)
        return effects

    def _begin(
        self, replay: Replay, asked: tuple[Client, ReplayClient, list[int]] | int, links: Iterable[int]
    ) -> list[Effect]:
        token = next(self._tokens)
        question = self._questions[replay.id] = _Question(asked, set(links), token)
        place = dict(replay.places).get(self._node)
        limit = max(1, min(replay.limit, _MOST))
        effects: list[Effect] = [Read(replay.wanted, place, replay.since, limit, token)]
        if question.waiting:
            effects.append(Send(tuple(sorted(question.waiting)), replay))
        return effects

    def _end_if_complete(self, id: EventId, question: _Question) -> list[Effect]:
        if question.waiting or question.token is not None:
            return []
        del self._questions[id]
        if isinstance(question.asked, int):
            pages = pages_out(question.asked, question.pages, self._gates)
            return [Send((question.asked,), Replayed(id, fitting(pages)))]
        client, request, logs = question.asked
        return [Reply(client, merged(request, fitting(question.pages), logs))]


def fitting(pages: Sequence[LogPage], most: int = _MOST_BYTES) -> tuple[LogPage, ...]:
    """The same pages, ending earlier where they are too much for one message; the earliest event always stays."""
    order = sorted((event.time, page.broker, event.offset, len(event.body)) for page in pages for event in page.events)
    sizes = list(accumulate(size for *_, size in order))
    if not sizes or sizes[-1] <= most:
        return tuple(pages)
    *last, _ = order[max(1, bisect_right(sizes, most)) - 1]
    return tuple(_up_to(last, page) for page in pages)


def _up_to(last: list[float], page: LogPage) -> LogPage:
    """A page without what comes after an event, which is named by its time, its broker and its offset."""
    kept = sum([event.time, page.broker, event.offset] <= last for event in page.events)  # times never go down
    if kept == len(page.events):
        return page
    next = page.events[kept].offset
    return replace(page, next=next, until=min(page.until, last[0]), events=page.events[:kept])


def merged(request: ReplayClient, pages: Sequence[LogPage], logs: Iterable[int]) -> Past:
    """All pages in the order of time, up to where the first of those ends that have more."""
    expired = tuple(sorted((page.broker, page.oldest) for page in pages if not page.oldest <= page.start <= page.end))
    missing = tuple(sorted({*logs, *dict(request.places)} - {page.broker for page in pages}))
    unread = [page for page in pages if page.next < page.end]
    until = min((page.until for page in unread), default=inf)
    found = [(event.time, page.broker, event.offset, event) for page in pages for event in page.events]
    found.sort(key=lambda each: each[:3])
    said: dict[bytes, tuple[int, PastEvent]] = {}
    places = dict(request.places) | {page.broker: page.next for page in pages}
    for time, broker, offset, _ in reversed(found):
        if time > until:
            places[broker] = offset
    for time, broker, offset, event in found:
        if time <= until:
            said.setdefault(event.identity or f"{broker} {offset}".encode(), (broker, event))
    events = () if expired else tuple(said.values())
    return Past(request.number, events, tuple(sorted(places.items())), missing, expired, not unread and not expired)

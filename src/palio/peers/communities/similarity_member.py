"""Member of the similarity graph: a node whose neighbours have interests close to its own (Chand §7.4).

A member chooses its closest `semantic` neighbours and some at random, which join communities that would otherwise be
closed; links hold in both directions. An event goes on from those that want it. So some who want it may miss it, and
the graph survives crashes that would tear a tree.

Each link keeps what it is for, on either side: a member that drops a neighbour from its own choice must not cut the
link that this neighbour has chosen.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, Final, Literal, TypeAlias

from palio.events import Event
from palio.filters.filter import Filter
from palio.peers.communities.member import LONELY_ROUNDS, MemberHost, RecentIds, draw, draw_pair
from palio.peers.communities.messages import (
    Address,
    Alone,
    AskLinks,
    Begun,
    Connect,
    Connected,
    Disconnect,
    Enter,
    Forward,
    Links,
    MemberMessage,
    Ping,
    Seek,
    Similar,
)
from palio.peers.communities.settings import CommunitySettings

Proximity: TypeAlias = Callable[[Filter, Filter], float]
Choice: TypeAlias = tuple[float, int, Address]  # minus the proximity, neighbours, member: the best is the least

CHOSEN: Final = 1  # by this member for its interest
CHOSEN_BY: Final = 2  # this member, by the other
RANDOM: Final = 4  # chosen by this member at random
RANDOM_BY: Final = 8
_SEMANTIC: Final = CHOSEN | CHOSEN_BY
_MAX_REMEMBERED_SEARCHES: Final = 256
_MAX_REMEMBERED_GONE: Final = 128
_MAX_SEARCH_STEPS: Final = 64  # neighbours that are asked for another neighbour
_MERGE_ROUNDS: Final = 10  # between two searches of a member that has few neighbours


@dataclass(slots=True)
class _NeighbourSearch:
    """A search that floods the graph; it is over when every member has answered."""

    number: int
    tried: set[Address] = field(default_factory=set)
    open: int | None = None
    early: int = 0
    best: list[Choice] = field(default_factory=list)
    random: list[tuple[float, Address]] = field(default_factory=list)  # the least numbers drawn


@dataclass(slots=True)
class _Replacement:
    """A neighbour to be replaced by one of a neighbour's neighbours (basic leave)."""

    kind: Literal["semantic", "random"]
    ask: list[Address]


class SimilarityMember:
    """One member. It tells its peer what to send, and is told what came."""

    def __init__(
        self, address: Address, wanted: Filter, settings: CommunitySettings, proximity: Proximity, host: MemberHost
    ) -> None:
        self.address = address
        self.wanted = wanted
        self.links: dict[Address, int] = {}
        self.best: list[Choice] = []  # L_f, the closest first
        self.is_placed = False
        self.settings = settings
        self._proximity = proximity
        self._host = host
        self._seen = RecentIds(settings.remembered_events)
        self._searched = RecentIds(_MAX_REMEMBERED_SEARCHES)
        self._gone = RecentIds(_MAX_REMEMBERED_GONE)  # whom neighbours may still name
        self._search: _NeighbourSearch | None = None
        self._replacements: list[_Replacement] = []
        self._next_number = 0
        self._turn = 0
        self._round = 0
        self._rounds_alone = 0

    @property
    def degree(self) -> int:
        """The number of neighbours."""
        return len(self.links)

    # What its peer calls

    def join(self, contact: Address) -> None:
        """Search for neighbours, by some member or a peer that may have one."""
        self._begin_search(contact)

    def found(self) -> None:
        """Be the first member of all."""
        self._search = None
        self._set_placed()

    def leave(self) -> None:
        """Tell the neighbours, with others to turn to."""
        semantic, random = self._links_by_kind()
        for each in self.links:
            self._host.send(each, Links(each[1], self.address, semantic, random, True))
        self.links, self.best, self.is_placed = {}, [], False

    def publish(self, event: Event) -> None:
        """Pass an event on that this member's own client has published, whether it wants it itself or not."""
        self._on_event(None, event, 0, 0)

    def on_message(self, message: MemberMessage) -> None:
        _HANDLERS[type(message)](self, message)

    def _on_forward(self, message: Forward) -> None:
        self._on_event(message.sender, message.event, message.hops, message.indulged)

    def _on_alone(self, message: Alone) -> None:
        if self._search is not None and self._search.number == message.number and not self.is_placed:
            self.found()

    def _on_connected(self, message: Connected) -> None:
        if self.links.get(message.sender, 0) & CHOSEN:
            self._set_proximity(message.proximity, message.sender)

    def _on_disconnect(self, message: Disconnect) -> None:
        self.drop(message.sender, CHOSEN_BY)

    def _on_ask_links(self, message: AskLinks) -> None:
        to = message.sender
        self._host.send(to, Links(to[1], self.address, *self._links_by_kind(), False))

    def _on_ping(self, message: Ping) -> None:
        if message.sender not in self.links:
            self._host.send(message.sender, Links(message.sender[1], self.address, (), (), True))

    def on_unreachable(self, to: Address, message: MemberMessage) -> None:
        """A message could not be delivered: the member is gone."""
        self._lose(to, (), ())
        match message:
            case Enter() if self._search is not None and self._search.number == message.number:
                self._search.tried.add(to)
                self._try_next_entry()
            case Seek():
                self._host.send(message.origin, Similar(message.origin[1], self.address, message.number, 0, -1.0, 0))
            case AskLinks():
                self._ask_next()

    def on_patience_ended(self, number: int) -> None:
        """A search took too long: what was found has to do."""
        search = self._search
        if search is None or search.number != number:
            return
        if search.open is None:
            self._try_next_entry()
        else:
            self._end_search(search)

    def maintain(self) -> None:
        """One round of maintenance: one neighbour is asked for a sign of life, and a search that failed begun again."""
        if self.links:
            self._turn = (self._turn + 1) % len(self.links)
            each = list(self.links)[self._turn]
            self._host.send(each, Ping(each[1], self.address))
        self._round += 1
        # Few neighbours are all that there are, or they are of another graph, torn off by crashes.
        is_torn = len(self.links) < self.settings.semantic and self._round % _MERGE_ROUNDS == 0
        is_lost = not self.is_placed or not self.links
        if self._search is None and (is_torn or is_lost) and self._host.contacts(self.address[1]):
            self._begin_search(None)
        # An answer that never came must not keep other neighbours from being replaced.
        if self._replacements:
            self._ask_next()

    # Search for neighbours

    def _begin_search(self, contact: Address | None) -> None:
        self._next_number += 1
        self._search = _NeighbourSearch(self._next_number)
        if contact is None:
            self._try_next_entry()
        else:
            self._enter(contact)

    def _enter(self, at: Address) -> None:
        assert self._search is not None
        number = self._search.number
        self._host.send(at, Enter(at[1], self.address, self.address, number, self.wanted, None, ""))
        self._host.set_timer(self.address[1], number, self.settings.patience)

    def _try_next_entry(self) -> None:
        search = self._search
        assert search is not None
        for each in (*self.links, *self._host.contacts(self.address[1])):
            if each not in search.tried and each != self.address:
                search.tried.add(each)
                self._enter(each)
                return
        # Nobody is left; the next round of maintenance tries all again.
        self._search = None
        self._rounds_alone += 1
        if self.is_placed or self.best or self._rounds_alone >= LONELY_ROUNDS:
            self._set_placed()

    def _on_enter(self, message: Enter) -> None:
        origin, number = message.origin, message.number
        if origin == self.address:
            self._host.send(origin, Begun(origin[1], self.address, number, -1))
            return
        self._host.send(origin, Begun(origin[1], self.address, number, 1))
        self._on_seek(Seek(self.address[1], origin, origin, number, message.wanted))

    def _on_seek(self, message: Seek) -> None:
        origin, number = message.origin, message.number
        if origin == self.address or not self._searched.add((origin, number)):
            self._host.send(origin, Similar(origin[1], self.address, number, 0, -1.0, 0))
            return
        onward = [each for each in self.links if each not in (message.sender, origin)]
        for each in onward:
            self._host.send(each, Seek(each[1], self.address, origin, number, message.wanted))
        found = self._proximity(self.wanted, message.wanted)
        self._host.send(origin, Similar(origin[1], self.address, number, len(onward), found, len(self.links)))
        self.consider(found, origin)

    def consider(self, proximity: float, newcomer: Address) -> None:
        """Choose a newcomer if it is closer than the farthest of those chosen."""
        if any(member == newcomer for _, _, member in self.best):
            return
        if len(self.best) < self.settings.semantic or -proximity < self.best[-1][0]:
            self._set_proximity(proximity, newcomer)
            self._host.send(newcomer, Connect(newcomer[1], self.address, False, proximity, self.wanted))

    def _on_begun(self, message: Begun) -> None:
        search = self._search
        if search is None or search.number != message.number or search.open is not None:
            return
        if message.probes < 0:
            self._try_next_entry()
            return
        search.open = message.probes + search.early
        if search.open == 0:
            self._end_search(search)

    def _on_similar(self, message: Similar) -> None:
        search = self._search
        if search is None or search.number != message.number:
            return
        if search.open is None:
            search.early += message.forwarded - 1
        else:
            search.open += message.forwarded - 1
        if message.proximity >= 0:
            self._add_answer(search, (-message.proximity, message.neighbours, message.sender))
        if search.open == 0:
            self._end_search(search)

    def _add_answer(self, search: _NeighbourSearch, answer: Choice) -> None:
        """Only the closest are kept, and those drawn at random: as many as are needed, however many answer."""
        settings = self.settings
        insort(search.best, answer)
        del search.best[settings.semantic :]
        # Whoever is among the closest needs no random link: so many more are kept.
        insort(search.random, (draw_pair(self.address, answer[2]), answer[2]))
        del search.random[settings.semantic + settings.random :]

    def _end_search(self, search: _NeighbourSearch) -> None:
        """Connect to the closest members, and to some at random."""
        self._search = None
        before = {member for _, _, member in self.best}
        chosen = {member for _, _, member in search.best}
        self.best = list(search.best)
        for each in before - chosen:
            self._host.send(each, Disconnect(each[1], self.address))
            self.drop(each, CHOSEN)
        for proximity, _, member in search.best:
            self.links[member] = self.links.get(member, 0) | CHOSEN
            if member not in before:
                self._host.send(member, Connect(member[1], self.address, False, -proximity, self.wanted))
        wanting = self.settings.random - sum(1 for flags in self.links.values() if flags & RANDOM)
        for _, member in search.random:
            if wanting > 0 and not self.links.get(member, 0) & (CHOSEN | RANDOM):
                self.links[member] = self.links.get(member, 0) | RANDOM
                self._host.send(member, Connect(member[1], self.address, True, -1.0, self.wanted))
                wanting -= 1
        self._set_placed()

    def _set_placed(self) -> None:
        self.is_placed = True
        self._rounds_alone = 0
        self._host.on_placed(self.address[1])

    # Links

    def _set_proximity(self, proximity: float, member: Address) -> None:
        for dropped in self.choose(proximity, member):
            self._host.send(dropped, Disconnect(dropped[1], self.address))

    def choose(self, proximity: float, member: Address) -> list[Address]:
        """Put a member among those chosen; the farthest are dropped where they are too many, and returned."""
        self.best = [each for each in self.best if each[2] != member]
        insort(self.best, (-proximity, 0, member), key=lambda each: each[0])
        self.links[member] = self.links.get(member, 0) | CHOSEN
        dropped = [each for _, _, each in self.best[self.settings.semantic :]]
        del self.best[self.settings.semantic :]
        for each in dropped:
            self.drop(each, CHOSEN)
        return dropped

    def drop(self, member: Address, reason: int) -> None:
        """Drop one reason for a link, and the link with the last."""
        left = self.links.get(member, 0) & ~reason
        if left:
            self.links[member] = left
        else:
            self.links.pop(member, None)

    def _on_connect(self, message: Connect) -> None:
        sender = message.sender
        self.links[sender] = self.links.get(sender, 0) | (RANDOM_BY if message.is_random else CHOSEN_BY)
        if not message.is_random and message.proximity < 0:
            found = self._proximity(self.wanted, message.wanted)
            self._host.send(sender, Connected(sender[1], self.address, found))
            self.consider(found, sender)

    def _links_by_kind(self) -> tuple[tuple[Address, ...], tuple[Address, ...]]:
        semantic = tuple(each for each, flags in self.links.items() if flags & _SEMANTIC)
        return semantic, tuple(each for each, flags in self.links.items() if not flags & _SEMANTIC)

    # Neighbours that go

    def _on_links(self, message: Links) -> None:
        if message.leaves:
            self._lose(message.sender, message.semantic, message.random)
            return
        if not self._replacements:
            return
        wanted = self._replacements[0]
        offered = message.semantic if wanted.kind == "semantic" else (*message.random, *message.semantic)
        if self._replace_by(wanted.kind, offered):
            self._replacements.pop(0)
        self._ask_next()

    def _lose(self, member: Address, semantic: tuple[Address, ...], random: tuple[Address, ...]) -> None:
        """Replace a neighbour that is gone, if this member had chosen it; it may have left word of its own ones."""
        flags = self.links.pop(member, 0)
        self._gone.add(member)
        self.best = [each for each in self.best if each[2] != member]
        for each in self._replacements:
            each.ask = [other for other in each.ask if other != member]
        if flags & (CHOSEN | RANDOM) and self.settings.leave == "full":
            if self._search is None:
                self._begin_search(None)
            return
        if flags & RANDOM and not self._replace_by("random", semantic):
            self._replace("random", list(self.links))
        if flags & CHOSEN:
            self._replace("semantic", [each for each, kept in self.links.items() if kept & _SEMANTIC])

    def _replace(self, kind: Literal["semantic", "random"], ask: list[Address]) -> None:
        self._replacements.append(_Replacement(kind, ask[:_MAX_SEARCH_STEPS]))
        if len(self._replacements) == 1:
            self._ask_next()

    def _ask_next(self) -> None:
        """Ask the next neighbour for its own ones; where none is left, search for neighbours anew."""
        while self._replacements:
            wanted = self._replacements[0]
            if wanted.ask:
                asked = wanted.ask.pop(0)
                self._host.send(asked, AskLinks(asked[1], self.address))
                return
            self._replacements.pop(0)
            if self._search is None:
                self._begin_search(None)

    def _replace_by(self, kind: Literal["semantic", "random"], offered: tuple[Address, ...]) -> bool:
        """Connect to one of some members that is no neighbour yet; whether there is one."""
        free = [each for each in offered if each not in self.links and each not in self._gone and each != self.address]
        if not free:
            return False
        [(_, chosen)] = nsmallest(1, ((draw_pair(self.address, each), each) for each in free))
        is_random = kind == "random"
        self.links[chosen] = RANDOM if is_random else CHOSEN
        self._host.send(chosen, Connect(chosen[1], self.address, is_random, -1.0, self.wanted))
        return True

    # Events

    def _on_event(self, sender: Address | None, event: Event, hops: int, indulged: int) -> None:
        if not self._seen.add(event.id):
            return
        if self.wanted.matches(event):
            self._host.deliver(self.address[1], event, hops)
        else:
            self._host.ignore(self.address[1], event, hops)
            # Its publisher passes an event on in any case, and so does a member that got it from no neighbour.
            if sender in self.links:
                if indulged >= self.settings.indulgence:
                    return
                indulged += 1
        for each, flags in list(self.links.items()):
            if each != sender and (flags & _SEMANTIC or self._is_lucky(event, each)):
                self._host.send(each, Forward(each[1], self.address, event, False, hops + 1, indulged))

    def _is_lucky(self, event: Event, neighbour: Address) -> bool:
        share = self.settings.random_share
        return share >= 1 or draw(event.id, self.address, neighbour) < share


_HANDLERS: Final[dict[type, Callable[[SimilarityMember, Any], None]]] = {
    Forward: SimilarityMember._on_forward,
    Seek: SimilarityMember._on_seek,
    Similar: SimilarityMember._on_similar,
    Enter: SimilarityMember._on_enter,
    Begun: SimilarityMember._on_begun,
    Alone: SimilarityMember._on_alone,
    Connect: SimilarityMember._on_connect,
    Connected: SimilarityMember._on_connected,
    Disconnect: SimilarityMember._on_disconnect,
    AskLinks: SimilarityMember._on_ask_links,
    Links: SimilarityMember._on_links,
    Ping: SimilarityMember._on_ping,
}

"""Member of the containment tree: a node whose parent wants all that it wants itself (Chand §7.3).

An event that a member publishes or gets from below climbs to the top, and from every member that wants it goes down to
all children. Since a parent wants whatever its children want, nobody misses an event, and only leaves of the way get
events in vain. The virtual root is the mesh of the top-level members, which all know each other.

Members come at any time, crash and are moved, and no link may close a circle. So every link goes down in a fixed order:
a parent contains its child strictly, or is equivalent to it and has the lower `order`, which is given once. The source
leaves open what happens when members crash: here a child asks its ancestors, the nearest first, for a new place, and
takes all below it along; events that climb wait until it has one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Final
from zlib import crc32

from palio.events import Event
from palio.filters.filter import Filter
from palio.peers.communities.join_search import JoinSearch, Purpose
from palio.peers.communities.member import LONELY_ROUNDS, MemberHost, RecentIds, draw
from palio.peers.communities.messages import (
    Address,
    Alone,
    Attach,
    Attached,
    Begun,
    Check,
    Compare,
    Detach,
    Enter,
    Forward,
    Found,
    Inherit,
    MemberMessage,
    Move,
    Order,
    Ping,
    Pong,
    Probe,
    Reevaluate,
    Refused,
    Reorganise,
    Sibling,
    Siblings,
    Succeed,
)
from palio.peers.communities.relation import Relate, Relation
from palio.peers.communities.settings import CommunitySettings

_EQUIVALENCE_ROOT_SHARE: Final = 2  # the root of an equivalence tree takes L/r equivalent children (r)
MAX_TOPS: Final = 4  # top-level members that a member knows as ways back
_MAX_RECENT_SIBLINGS: Final = 8  # told to each newcomer at the top, so that two who come at once meet
_MAX_CLIMBING: Final = 256  # events that wait for a parent
_MAX_HOPS: Final = 10_000
_MERGE_ROUNDS: Final = 10


class ContainmentMember:
    """One member. It tells its peer what to send, and is told what came."""

    def __init__(
        self, address: Address, wanted: Filter, settings: CommunitySettings, relate: Relate, host: MemberHost
    ) -> None:
        self.address = address
        self.wanted = wanted
        self.parent: Address | None = None
        self.children: dict[Address, bool] = {}  # whether they are equivalent
        self.siblings: dict[Address, None] = {}  # at the top level
        self.is_placed = False
        self.depth = 1
        self.order: Order | None = None
        self.ancestors: tuple[Address, ...] = ()  # the nearest first, without the parent
        self.tops: tuple[Address, ...] = ()
        self.search: JoinSearch | None = None
        self.settings = settings
        self._relate = relate
        self._host = host
        self._seen = RecentIds(settings.remembered_events)
        self._climbing: deque[tuple[Event, int]] = deque(maxlen=_MAX_CLIMBING)
        self._greeted: set[Address] | None = None  # siblings that have not answered a newcomer at the top yet
        self._next_number = 0
        self._turn = 0  # among equivalent children
        self._round = 0
        self._rounds_alone = 0

    @property
    def is_top(self) -> bool:
        return self.is_placed and self.parent is None

    @property
    def degree(self) -> int:
        """The number of neighbours."""
        return len(self.children) + len(self.siblings) + (self.parent is not None)

    # What its peer calls

    def join(self, contact: Address) -> None:
        """Search for a place, by some member or a peer that may have one."""
        self._begin_search("join", contact)

    def found(self) -> None:
        """Be the first member of all."""
        self.search = None
        self._order_of()
        self._set_placed()

    def leave(self) -> None:
        """Hand the children over, and go."""
        mine = self.address
        equivalents = [child for child, is_equivalent in self.children.items() if is_equivalent]
        if equivalents and self.is_placed:
            self._bequeath(equivalents)
        else:
            is_full = self.settings.leave == "full"
            siblings = tuple(self.siblings)
            first = next(iter(self.children), None) if self.is_top and not siblings else None
            for child in self.children:
                # Children of a top-level member come to the top; where it was alone, by the first of them.
                known = siblings if first in (None, child) else (first,)
                self._host.send(child, Move(child[1], mine, self.parent, known, is_full))
        for each in self.siblings:
            self._host.send(each, Detach(each[1], mine, True))
        if self.parent is not None:
            self._host.send(self.parent, Detach(self.parent[1], mine))
        self.children, self.siblings, self.parent, self.is_placed = {}, {}, None, False

    def publish(self, event: Event) -> None:
        """Pass an event on that this member's own client has published."""
        self._on_event(None, event, True, 0)

    def on_message(self, message: MemberMessage) -> None:
        _HANDLERS[type(message)](self, message)

    def _on_forward(self, message: Forward) -> None:
        self._on_event(message.sender, message.event, message.climbs, message.hops)

    def _on_alone(self, message: Alone) -> None:
        if self.search is not None and self.search.number == message.number and not self.is_placed:
            self.found()

    def _on_refused(self, message: Refused) -> None:
        if self._greeted is not None:
            self._on_greeted(message.sender)
        elif message.sender == self.parent or self.parent is None:
            self._lose_parent()

    def _on_detach(self, message: Detach) -> None:
        # One that was a sibling may be a child by now.
        (self.siblings if message.was_sibling else self.children).pop(message.sender, None)

    def _on_check(self, message: Check) -> None:
        if message.sender != self.parent:
            self._host.send(message.sender, Detach(message.sender[1], self.address))

    def _on_pong(self, message: Pong) -> None:
        if message.sender == self.parent:
            self._set_place(message.depth, message.ancestors, message.tops)

    def _on_compare(self, message: Compare) -> None:
        sender = message.sender
        if self.is_top and message.digest != self._digest():
            self.siblings.setdefault(sender)
            self._host.send(sender, Siblings(sender[1], self.address, tuple(self.siblings)))
        elif not self.is_top and self._greeted is None:
            self._host.send(sender, Detach(sender[1], self.address, True))

    def _on_reevaluate(self, message: Reevaluate) -> None:
        if message.sender == self.parent and self.search is None and self.ancestors:
            self._begin_search("reevaluate", self.ancestors[0], starts_here=True)

    def on_unreachable(self, to: Address, message: MemberMessage) -> None:
        """A message could not be delivered: the member is gone."""
        self.children.pop(to, None)
        self.siblings.pop(to, None)
        self.tops = tuple(each for each in self.tops if each != to)
        self.ancestors = tuple(each for each in self.ancestors if each != to)
        match message:
            case Probe():
                self._host.send(message.origin, Found(message.origin[1], self.address, message.number, 0))
            case Enter() if message.origin != self.address:
                self._host.send(message.origin, Begun(message.origin[1], self.address, message.number, -1))
            case Enter() if self.search is not None and self.search.number == message.number:
                self.search.tried.add(to)
                self._try_next_entry()
            case Attach() if message.child == self.address and not self.is_placed:
                self._begin_again()
            case Forward() if message.climbs and to == self.parent:
                self._climbing.append((message.event, message.hops))
            case Sibling():
                self._on_greeted(to)
            case Inherit():
                self._on_inherit(message)
        if to == self.parent:
            self._lose_parent()

    def on_patience_ended(self, number: int) -> None:
        """A search took too long: what was found has to do."""
        search = self.search
        if search is None or search.number != number:
            return
        if search.open is None:
            self._try_next_entry()
        else:
            self._end_search(search)

    def maintain(self) -> None:
        """One round of maintenance."""
        self._round += 1
        if self.children:
            # One of them in each round.
            child = next(islice(self.children, self._round % len(self.children), None))
            self._host.send(child, Check(child[1], self.address))
        if self.parent is not None:
            self._host.send(self.parent, Ping(self.parent[1], self.address))
        elif self.is_placed:
            if self.siblings:
                sibling = next(islice(self.siblings, self._round % len(self.siblings), None))
                self._host.send(sibling, Compare(sibling[1], self.address, self._digest()))
            # One of the top level looks now and then whether there is another overlay, torn off by crashes.
            if (
                self._round % _MERGE_ROUNDS == 0
                and self.search is None
                and self.address <= min(self.siblings, default=self.address)
            ):
                self._begin_again()
        elif self.search is None:
            self._begin_again()

    # Search for a place

    def _begin_search(self, purpose: Purpose, at: Address, starts_here: bool = False) -> None:
        self._next_number += 1
        self.search = JoinSearch(self._next_number, purpose)
        self._enter(at, starts_here)

    def _enter(self, at: Address, starts_here: bool) -> None:
        search = self.search
        assert search is not None
        search.starts_here = starts_here
        # The source's adaptive join is for newcomers: those that lost their place join by the basic one (§7.3.5).
        mode = self.settings.join if search.purpose == "join" else "basic"
        self._host.send(
            at, Enter(at[1], self.address, self.address, search.number, self.wanted, self.order, mode, starts_here)
        )
        self._host.set_timer(self.address[1], search.number, self.settings.patience)

    def _begin_again(self) -> None:
        """Search for a place once more: below an ancestor if one is left, or from the top."""
        purpose: Purpose = "join" if self.order is None else "orphan"
        self._next_number += 1
        self.search = JoinSearch(self._next_number, purpose)
        self._try_next_entry()

    def _try_next_entry(self) -> None:
        """Enter the overlay by whoever was not tried yet."""
        search = self.search
        assert search is not None
        for each in self.ancestors:
            if each not in search.tried:
                search.tried.add(each)
                self._enter(each, True)
                return
        for each in (*self.tops, *self._host.contacts(self.address[1])):
            if each not in search.tried and each != self.address:
                search.tried.add(each)
                self._enter(each, False)
                return
        # Nobody is left; the next round of maintenance tries all again.
        self.search = None
        self._rounds_alone += 1
        if self._rounds_alone >= LONELY_ROUNDS:
            self.found()

    def _on_enter(self, message: Enter) -> None:
        origin, number = message.origin, message.number
        if message.hops > _MAX_HOPS or origin == self.address or not (self.is_placed or message.starts_here):
            self._host.send(origin, Begun(origin[1], self.address, number, -1))
            return
        if message.starts_here:
            self._host.send(origin, Begun(origin[1], self.address, number, 1))
            self._host.send(self.address, self._probe(message, self.address, self.depth - 1, 0))
            return
        if self.parent is not None:
            up = Enter(
                self.parent[1], self.address, origin, number, message.wanted, message.order, message.mode, False,
                message.hops + 1,
            )  # fmt: skip
            self._host.send(self.parent, up)
            return
        others = [each for each in self.siblings if each != origin]
        self._host.send(origin, Begun(origin[1], self.address, number, len(others) + 1))
        for each in (self.address, *others):
            self._host.send(each, self._probe(message, each, 0, len(others) + 1))

    def _probe(self, of: Enter | Probe, to: Address, depth: int, children: int) -> Probe:
        return Probe(to[1], self.address, of.origin, of.number, of.wanted, of.order, of.mode, depth, children)

    def _on_probe(self, probe: Probe) -> None:
        if self.is_placed:
            self.depth = probe.depth + 1
        answer, onward = self.examine(probe)
        for child in onward:
            self._host.send(child, self._probe(probe, child, probe.depth + 1, len(self.children)))
        self._host.send(probe.origin, answer)

    def examine(self, probe: Probe) -> tuple[Found, list[Address]]:
        """The answer to a probe, and the children that it goes on to."""
        depth, children, order = probe.depth + 1, len(self.children), self.order
        onward: list[Address] = []
        answer = Relation.UNRELATED
        own = probe.origin == self.address
        relation = Relation.UNRELATED if own else self._relate(self.wanted, probe.wanted)
        if relation is Relation.EQUIVALENT:
            if probe.order is not None and self._order_of() > probe.order:
                # It must not be above the one that asks, and belongs below.
                answer, depth = Relation.WITHIN, 0
            elif (child := self._next_equivalent()) is None:
                answer = Relation.EQUIVALENT
            else:
                onward = [child]
        elif relation is Relation.CONTAINS:
            answer = Relation.CONTAINS
            onward = self._other_children()
        elif not own and self._is_full(probe):
            if relation is Relation.WITHIN:
                answer, children = Relation.WITHIN, probe.children
            else:
                onward = self._other_children()
        found = Found(probe.origin[1], self.address, probe.number, len(onward), int(answer), depth, children, order)
        return found, onward

    def _other_children(self) -> list[Address]:
        return [child for child, is_equivalent in self.children.items() if not is_equivalent]

    def _next_equivalent(self) -> Address | None:
        """The equivalent child to ask in turn, where this member has as many as it takes."""
        equivalents = [child for child, is_equivalent in self.children.items() if is_equivalent]
        if len(equivalents) < self._equivalents_limit():
            return None
        # In turn instead of at random: so their subtrees grow evenly.
        self._turn += 1
        return equivalents[self._turn % len(equivalents)]

    def _equivalents_limit(self) -> int:
        is_inner = self.order is not None and self.order[0] > 0
        return self.settings.equivalents // (1 if is_inner else _EQUIVALENCE_ROOT_SHARE)

    def _is_full(self, probe: Probe) -> bool:
        """Whether narrower members that are found here may be moved."""
        if probe.mode != "adaptive":
            return probe.mode == "full"
        limit = self.settings.adaptive_children
        if len(self.children) > limit or probe.children > limit:
            return True
        return draw(self.address, probe.origin, probe.number) < self.settings.adaptive_share

    def _on_begun(self, message: Begun) -> None:
        search = self.search
        if search is None or search.number != message.number or search.open is not None:
            return
        if message.probes < 0:
            self._try_next_entry()
            return
        search.begin(message.sender, message.probes)
        if search.is_answered:
            self._end_search(search)

    def _on_found(self, answer: Found) -> None:
        search = self.search
        if search is None or search.number != answer.number or search.is_over:
            return
        if answer.sender in self.children and answer.relation == Relation.WITHIN:
            answer = Found(answer.to, answer.sender, answer.number, answer.forwarded)
        search.add(answer)
        if search.is_answered:
            self._end_search(search)

    def _end_search(self, search: JoinSearch) -> None:
        """Attach to the best parent that was found."""
        search.is_over = True
        chosen = search.parent()
        if search.purpose == "reevaluate" and self.is_placed:
            self.search = None
            if chosen is None or chosen.member == self.parent or chosen.depth + 1 <= self.depth:
                return
        if chosen is not None:
            self._attach_to(chosen.member)
        elif search.top is None or search.starts_here:
            self._begin_again()
        else:
            self._greet(search.top)

    def _attach_to(self, member: Address) -> None:
        self._host.send(member, Attach(member[1], self.address, self.address, self.wanted, self.order))

    def _on_attach(self, message: Attach) -> None:
        child = message.child
        relation = self._relate(self.wanted, message.wanted)
        is_equivalent = relation is Relation.EQUIVALENT
        is_below = message.order is None or self._order_of() < message.order
        if child == self.address or relation not in (Relation.EQUIVALENT, Relation.CONTAINS) or (
            is_equivalent and not is_below
        ):  # fmt: skip
            self._host.send(child, Refused(child[1], self.address))
            return
        if is_equivalent and child not in self.children and message.order is None:
            other = self._next_equivalent()
            if other is not None:
                self._host.send(other, Attach(other[1], self.address, child, message.wanted, message.order))
                return
        order = message.order
        if order is None:
            order = (self._order_of()[0] + 1 if is_equivalent else 0, *child)
        self.children[child] = is_equivalent
        self._host.send(
            child,
            Attached(child[1], self.address, self.depth + 1, self._line(), self._known_tops(), order),
        )

    def _order_of(self) -> Order:
        if self.order is None:
            self.order = (0, *self.address)
        return self.order

    def _line(self) -> tuple[Address, ...]:
        """The ancestors of a child beyond its parent."""
        above = () if self.parent is None else (self.parent,)
        return (*above, *self.ancestors)[: self.settings.ancestors]

    def _known_tops(self) -> tuple[Address, ...]:
        if not self.is_top:
            return self.tops
        return (self.address, *islice(self.siblings, MAX_TOPS - 1))

    def _on_attached(self, message: Attached) -> None:
        before, parent, search = self.parent, message.sender, self.search
        depth_before = self.depth
        self.search = None
        # An orphan keeps its order: others are below it already.
        if self.order is None:
            self.order = message.order
        if before is not None and before != parent:
            self._host.send(before, Detach(before[1], self.address))
        for each in self.siblings:
            self._host.send(each, Detach(each[1], self.address, True))
        self.siblings, self.parent, self._greeted = {}, parent, None
        self.children.pop(parent, None)
        self._set_place(message.depth, message.ancestors, message.tops)
        if search is not None:
            self._move_narrower(search)
            if search.purpose != "join" and self.settings.leave == "full" and self.depth < depth_before:
                for child, is_equivalent in self.children.items():
                    if not is_equivalent:
                        self._host.send(child, Reevaluate(child[1], self.address))
        self._set_placed()

    def _set_place(self, depth: int, ancestors: tuple[Address, ...], tops: tuple[Address, ...]) -> None:
        self.depth, self.ancestors, self.tops = depth, ancestors, tops

    def _move_narrower(self, search: JoinSearch) -> None:
        """Move narrower members below this one (REORG), unless it is within an equivalence tree."""
        order = self._order_of()
        if search.equivalent is not None:
            return
        for member in search.moved(self.depth, len(self.children)):
            self._host.send(member, Reorganise(member[1], self.address, self.wanted, order))

    def _on_reorganise(self, message: Reorganise) -> None:
        above = message.sender
        relation = self._relate(self.wanted, message.wanted)
        is_below = relation is Relation.WITHIN or (relation is Relation.EQUIVALENT and message.order < self._order_of())
        if is_below and above not in (self.parent, self.address):
            self._attach_to(above)

    def _set_placed(self) -> None:
        self.is_placed = True
        self._rounds_alone = 0
        self._host.on_placed(self.address[1])
        waiting, self._climbing = self._climbing, deque(maxlen=_MAX_CLIMBING)
        for event, hops in waiting:
            self._climb(None, event, hops)

    def _lose_parent(self) -> None:
        """Search for a new parent, with all that is below."""
        if self.is_top and self.parent is None:
            return
        self.parent, self.is_placed = None, False
        if self.search is None or self.search.purpose == "reevaluate" or self.search.is_over:
            self._begin_again()

    # The top level

    def _greet(self, top: Address) -> None:
        """Become a member of the top level, by one that is; all others get to know of it before it has its place."""
        self.depth, self.ancestors, self.tops = 1, (), ()
        self._order_of()
        self._greeted = {top}
        self._host.send(top, Sibling(top[1], self.address, True))

    def _on_sibling(self, message: Sibling) -> None:
        sender = message.sender
        if not self.is_top and self._greeted is None:
            self._host.send(sender, Refused(sender[1], self.address))
            return
        known = [each for each in self.siblings if each != sender]
        if not message.asks_all:
            known = known[-_MAX_RECENT_SIBLINGS:]
        self.children.pop(sender, None)
        self.siblings[sender] = None
        self._host.send(sender, Siblings(sender[1], self.address, tuple(known)))

    def _on_siblings(self, message: Siblings) -> None:
        if not self.is_top and self._greeted is None:
            self._host.send(message.sender, Detach(message.sender[1], self.address, True))
            return
        self.siblings.setdefault(message.sender)
        for each in message.known:
            if each not in self.siblings and each != self.address:
                # It is a sibling when it says so itself: others may not know that it is gone.
                if self._greeted is not None:
                    if each in self._greeted:
                        continue
                    self._greeted.add(each)
                self._host.send(each, Sibling(each[1], self.address, False))
        self._on_greeted(message.sender)

    def _on_greeted(self, sibling: Address) -> None:
        if self._greeted is None:
            return
        self._greeted.discard(sibling)
        if not self._greeted:
            self._greeted = None
            if not self.siblings:
                self._begin_again()  # whoever was at the top has gone meanwhile
                return
            search, self.search = self.search, None
            if search is not None:
                self._move_narrower(search)
            self._set_placed()

    def _digest(self) -> int:
        """A digest of the top level, the same for all who know it alike."""
        found = 0
        for each in (self.address, *self.siblings):
            found ^= crc32(repr(each).encode()) * 0x9E3779B1 & 0x7FFFFFFFFFFF
        return found

    # Leaving

    def _bequeath(self, equivalents: list[Address]) -> None:
        """Let a leaf of the equivalence tree take this member's place."""
        others = tuple(self._other_children())
        heir = equivalents[0]
        self._host.send(
            heir,
            Inherit(
                heir[1], self.address, self.address, self._order_of(), self.depth, self.parent, self.ancestors,
                self.tops, tuple(equivalents), others, tuple(self.siblings),
            ),
        )  # fmt: skip

    def _on_inherit(self, message: Inherit) -> None:
        """Pass a place on to an equivalent child, or take it as a leaf."""
        child = next((child for child, is_equivalent in self.children.items() if is_equivalent), None)
        if child is not None:
            self._host.send(
                child,
                Inherit(
                    child[1], self.address, message.leaving, message.order, message.depth, message.parent,
                    message.ancestors, message.tops, message.equivalents, message.others, message.siblings,
                ),
            )  # fmt: skip
            return
        before = self.parent
        if before not in (None, message.leaving):
            self._host.send(before, Detach(before[1], self.address))
        self.order = message.order
        self.parent = message.parent
        self._set_place(message.depth, message.ancestors, message.tops)
        self.children.update(dict.fromkeys((each for each in message.equivalents if each != self.address), True))
        self.children.update(dict.fromkeys(message.others, False))
        if message.parent is None:
            self.siblings.update(dict.fromkeys(message.siblings))
        for each in self.children:
            self._host.send(each, Succeed(each[1], self.address, message.leaving))
        for each in self.siblings:
            self._host.send(each, Sibling(each[1], self.address, False))
        if self.parent is not None:
            self._attach_to(self.parent)
        self.search = None
        self._set_placed()

    def _on_succeed(self, message: Succeed) -> None:
        heir, leaving = message.sender, message.leaving
        if self.parent == leaving:
            self.parent = heir
        elif self.parent != heir:
            self._host.send(heir, Detach(heir[1], self.address))

    def _on_move(self, message: Move) -> None:
        if message.sender != self.parent:
            return
        self.parent = None
        above = message.parent
        self.is_placed = False
        if above is None and not message.siblings:
            self.found()
        elif message.is_full:
            self.ancestors = () if above is None else tuple(dict.fromkeys((above, *self.ancestors)))
            self.tops = message.siblings[:MAX_TOPS] or self.tops
            self._begin_again()
        elif above is not None:
            self._attach_to(above)
        else:
            self._greet(message.siblings[0])

    # Events

    def _on_event(self, sender: Address | None, event: Event, climbs: bool, hops: int) -> None:
        if not self._seen.add(event.id):
            return
        if self.wanted.matches(event):
            self._host.deliver(self.address[1], event, hops)
            for child in list(self.children):
                if child != sender:
                    self._host.send(child, Forward(child[1], self.address, event, False, hops + 1))
        else:
            self._host.ignore(self.address[1], event, hops)
        # What nobody here wants goes up all the same: its publisher may be one that does not want its own events.
        if climbs:
            self._climb(sender, event, hops)

    def _climb(self, sender: Address | None, event: Event, hops: int) -> None:
        if self.parent is not None:
            self._host.send(self.parent, Forward(self.parent[1], self.address, event, True, hops + 1))
        elif self.is_placed:
            for each in list(self.siblings):
                if each != sender:
                    self._host.send(each, Forward(each[1], self.address, event, False, hops + 1))
        else:
            self._climbing.append((event, hops))

    def _on_ping(self, message: Ping) -> None:
        child = message.sender
        if child in self.children:
            self._host.send(child, Pong(child[1], self.address, self.depth + 1, self._line(), self._known_tops()))
        else:
            self._host.send(child, Refused(child[1], self.address))


_HANDLERS: Final[dict[type, Callable[[ContainmentMember, Any], None]]] = {
    Forward: ContainmentMember._on_forward,
    Probe: ContainmentMember._on_probe,
    Found: ContainmentMember._on_found,
    Enter: ContainmentMember._on_enter,
    Begun: ContainmentMember._on_begun,
    Alone: ContainmentMember._on_alone,
    Attach: ContainmentMember._on_attach,
    Attached: ContainmentMember._on_attached,
    Refused: ContainmentMember._on_refused,
    Detach: ContainmentMember._on_detach,
    Reorganise: ContainmentMember._on_reorganise,
    Ping: ContainmentMember._on_ping,
    Pong: ContainmentMember._on_pong,
    Check: ContainmentMember._on_check,
    Sibling: ContainmentMember._on_sibling,
    Siblings: ContainmentMember._on_siblings,
    Compare: ContainmentMember._on_compare,
    Move: ContainmentMember._on_move,
    Inherit: ContainmentMember._on_inherit,
    Succeed: ContainmentMember._on_succeed,
    Reevaluate: ContainmentMember._on_reevaluate,
}

"""Overlays as they are after all members have joined one after the other, built without messages.

The containment tree is built by the members' own answers to probes, so that it is what the protocol arrives at, to the
last link. For the similarity graph the answers of all members to one newcomer are computed together.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

import numpy as np

from palio.filters.filter import Filter
from palio.peers.communities.containment_member import MAX_TOPS, ContainmentMember
from palio.peers.communities.event_sample import EventSample, estimate
from palio.peers.communities.join_search import JoinSearch
from palio.peers.communities.member import FACTORS
from palio.peers.communities.messages import Address, Probe
from palio.peers.communities.relation import Relation
from palio.peers.communities.similarity_member import (
    CHOSEN,
    CHOSEN_BY,
    RANDOM,
    RANDOM_BY,
    SimilarityMember,
)

_FIRST_SEARCH: Final = 1


def build_containment(members: Sequence[ContainmentMember]) -> None:
    """Let members join a containment tree one after the other."""
    by_address = {each.address: each for each in members}
    tops: dict[Address, None] = {}
    for newcomer in members:
        search = _search(newcomer, by_address, tops)
        chosen = search.parent()
        newcomer.is_placed = True
        if chosen is None:
            newcomer.depth, newcomer.order = 1, (0, *newcomer.address)
            tops[newcomer.address] = None
        else:
            parent = by_address[chosen.member]
            is_equivalent = search.equivalent is not None
            assert parent.order is not None
            rank = parent.order[0] + 1 if is_equivalent else 0
            newcomer.parent, newcomer.order = chosen.member, (rank, *newcomer.address)
            newcomer.depth = chosen.depth + 1
            parent.children[newcomer.address] = is_equivalent
        if search.equivalent is None:
            for address in search.moved(newcomer.depth, 0):
                moved = by_address[address]
                if moved.parent is None:
                    del tops[address]
                else:
                    del by_address[moved.parent].children[address]
                moved.parent = newcomer.address
                newcomer.children[address] = False
    _complete(by_address, tops)


def _search(
    newcomer: ContainmentMember, by_address: dict[Address, ContainmentMember], tops: dict[Address, None]
) -> JoinSearch:
    search = JoinSearch(_FIRST_SEARCH, "join")
    mode = newcomer.settings.join
    waiting = [(each, 0, len(tops)) for each in tops]
    for address, depth, children in waiting:
        probe = Probe(
            address[1], newcomer.address, newcomer.address, _FIRST_SEARCH, newcomer.wanted, None, mode, depth, children
        )
        answer, onward = by_address[address].examine(probe)
        if answer.relation != Relation.UNRELATED:
            search.add(answer)
        waiting += [(each, depth + 1, len(by_address[address].children)) for each in onward]
    return search


def _complete(by_address: dict[Address, ContainmentMember], tops: dict[Address, None]) -> None:
    """What members know of their ancestors and of the top level."""
    for address in tops:
        by_address[address].siblings = {each: None for each in tops if each != address}
    waiting = list(tops)
    for address in waiting:
        member = by_address[address]
        if member.parent is not None:
            parent = by_address[member.parent]
            above = () if parent.parent is None else (parent.parent,)
            member.depth = parent.depth + 1
            member.ancestors = (*above, *parent.ancestors)[: member.settings.ancestors]
            member.tops = parent.tops if parent.parent is not None else (
                member.parent, *islice(parent.siblings, MAX_TOPS - 1)
            )  # fmt: skip
        waiting += member.children


def build_similarity(members: Sequence[SimilarityMember], sample: EventSample) -> None:
    """Let members join a similarity graph one after the other.

    Costs time in the square of the members, some tens of nanoseconds for each pair, and memory in their number.
    """
    numbers = {each.address: number for number, each in enumerate(members)}
    addresses = np.array([(each.address[0] << 20) + each.address[1] for each in members], np.uint64)
    kinds: dict[Filter, int] = {}
    kind_of = np.array([kinds.setdefault(each.wanted, len(kinds)) for each in members], np.int64)
    proximities = _Proximities(list(kinds), sample)
    farthest = np.full(len(members), -np.inf)  # of those that each has chosen; below all where there is room
    degrees = np.zeros(len(members), np.int64)
    for number, newcomer in enumerate(members):
        newcomer.is_placed = True
        if not number:
            continue
        semantic = newcomer.settings.semantic
        found = proximities.row(kind_of[number])[kind_of[:number]]
        answers = [
            (-float(found[place]), int(degrees[place]), members[place].address)
            for place in _first(np.lexsort((degrees[:number], -found)), found, degrees, semantic)
        ]
        chosen = sorted(answers)[:semantic]
        changed = {number}
        for place in np.nonzero(found > farthest[:number])[0].tolist():
            member = members[place]
            for dropped in member.choose(float(found[place]), newcomer.address):
                members[numbers[dropped]].drop(member.address, CHOSEN_BY)
                changed.add(numbers[dropped])
            _add_reason(newcomer, member.address, CHOSEN_BY)
            changed.add(place)
            if len(member.best) == semantic:
                farthest[place] = -member.best[-1][0]
        newcomer.best = chosen
        if len(chosen) == semantic:
            farthest[number] = -chosen[-1][0]
        for _, _, address in chosen:
            _link(newcomer, members[numbers[address]], CHOSEN, CHOSEN_BY)
            changed.add(numbers[address])
        wanting = newcomer.settings.random
        for place in np.argsort(_draw_pairs(addresses[number], addresses[:number]), kind="stable").tolist():
            if not wanting:
                break
            if not newcomer.links.get(members[place].address, 0) & CHOSEN:
                _link(newcomer, members[place], RANDOM, RANDOM_BY)
                changed.add(place)
                wanting -= 1
        for each in changed:
            degrees[each] = members[each].degree


class _Proximities:
    """How close interests are to each other, a row at a time."""

    def __init__(self, interests: list[Filter], sample: EventSample) -> None:
        self._interests = interests
        self._sample = sample
        matches = [sample.matches(each) for each in interests]
        width = len(sample)
        # Of floats, since only their products are computed by a library for matrices; exact up to 2^24 events.
        self._bits = np.array(
            [[found >> place & 1 for place in range(width)] for found in matches], np.float32
        ).reshape(len(interests), width)
        self._counts = np.array([found.bit_count() for found in matches], np.float64)

    def row(self, number: int) -> np.ndarray:
        """How close all interests are to one, as `EventSample.proximity` has it."""
        both = (self._bits @ self._bits[number]).astype(np.float64)
        mine, events = self._counts[number], len(self._sample)
        forth = estimate(mine, self._counts, both, events)
        back = estimate(self._counts, mine, both, events)
        interest = self._interests[number]
        for place in np.nonzero((both == mine) | (both == self._counts))[0].tolist():
            relation = self._sample.relate(interest, self._interests[place])
            if relation in (Relation.EQUIVALENT, Relation.WITHIN):
                forth[place] = 1.0
            if relation in (Relation.EQUIVALENT, Relation.CONTAINS):
                back[place] = 1.0
        found: np.ndarray = (forth + back) / 2
        return found


def _draw_pairs(one: np.uint64, others: np.ndarray) -> np.ndarray:
    """`draw_pair` of one member with many."""
    with np.errstate(over="ignore"):
        mixed = one * np.uint64(FACTORS[0]) ^ others * np.uint64(FACTORS[1])
        mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64(FACTORS[2])
    found: np.ndarray = mixed >> np.uint64(11)
    return found


def _first(order: np.ndarray, found: np.ndarray, degrees: np.ndarray, count: int) -> list[int]:
    """The first places in an order, and those that share the rank of the last."""
    taken = [int(each) for each in order[:count]]
    for place in order[count:]:
        if found[place] != found[taken[-1]] or degrees[place] != degrees[taken[-1]]:
            break
        taken.append(int(place))
    return taken


def _link(newcomer: SimilarityMember, other: SimilarityMember, reason: int, other_reason: int) -> None:
    _add_reason(newcomer, other.address, reason)
    _add_reason(other, newcomer.address, other_reason)


def _add_reason(member: SimilarityMember, to: Address, reason: int) -> None:
    member.links[to] = member.links.get(to, 0) | reason

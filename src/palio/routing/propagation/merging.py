"""Merging reduction: one filter in place of several (Jerzak §2.5.5, Figure 2.17).

Filters that agree in all conditions but those on one attribute are one filter with the union of that attribute's
values, exactly, because sets of values may have gaps. All that agree are merged at once, attribute by attribute in the
order of names; then what a merger covers is dropped. That is a round, and rounds follow each other until one merges
nothing. What comes out depends on the set alone, never on the order in which it came to be. Imperfect merging closes
gaps of at most `slack` of an attribute's extent.

A round is kept up to date by differences: a filter that comes or goes concerns one group for each of its attributes,
and what its group gave. So a change costs what the mergers cost that it is part of, whatever else is there. The
rejected alternative, to merge everything anew, took a hundred times as long as covering with 400 filters.

A merger is sent whole when it changes, and parsed where it arrives. So the filters of one that would grow too long are
divided among several.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from heapq import heappop, heappush
from typing import Final, TypeAlias

from palio.covering.relation_graph import FlatGraph, RelationGraph
from palio.filters.algebra import enumerable_union, negation
from palio.filters.filter import Filter
from palio.filters.normal_form import conjoin, simplify
from palio.filters.tree import And, Leaf, Node, Or
from palio.filters.value_sets import ValueSet
from palio.routing.messages import Key
from palio.routing.propagation.reductions import Change, Covering

MAX_MERGER_CHARACTERS: Final = 1024  # about, of the attribute that its filters differ in: some dozens of values
_CHARACTERS_OF_A_CUT: Final = 8  # a number has several, of the kinds that it is compared with

Difference: TypeAlias = dict[Filter, int]
"""Filters that come, each with how often, and filters that go, with negative counts."""


class Merging:
    """Mergers of the filters that no other covers, each under its digest."""

    __slots__ = ("_entered", "_known", "_maximal", "_rounds", "_slack")

    def __init__(self, slack: float = 0.0, graph: Callable[[], RelationGraph] = FlatGraph) -> None:
        """`graph` finds the filters that no other covers; where it overlooks some, they are merged too."""
        self._maximal = Covering(graph)
        self._slack = slack
        self._entered: dict[Key, Filter] = {}
        self._rounds: list[MergeRound] = []
        self._known: dict[Key, Filter] = {}

    def add(self, key: Key, wanted: Filter) -> None:
        self._maximal.add(key, wanted)

    def remove(self, key: Key) -> None:
        self._maximal.remove(key)

    def change(self) -> Change:
        additions, withdrawals = self._maximal.change()
        self._entered |= additions
        difference = dict.fromkeys(additions.values(), 1) | {self._entered.pop(key): -1 for key in withdrawals}
        merged = self._merge(difference) if difference else {}
        come = {wanted.digest: wanted for wanted, count in merged.items() if count > 0}
        go = sorted(wanted.digest for wanted, count in merged.items() if count < 0)
        for key in go:
            del self._known[key]
        self._known |= come
        return Change(dict(sorted(come.items())), tuple(go))

    def _merge(self, difference: Difference) -> Difference:
        """Bring all rounds up to date; the difference of what the last one gives."""
        for each in self._rounds:
            difference = each.apply(difference)
        if self._rounds and not self._rounds[-1].has_mergers:
            return difference
        # The last round merges something, so that another one may: it begins with all that this one gives.
        result: Collection[Filter] = self._rounds[-1].result if self._rounds else self._entered.values()
        while not self._rounds or self._rounds[-1].has_mergers:
            # Later rounds leave alone what the first one has found too long for one merger.
            self._rounds.append(MergeRound(self._slack, _Group if self._rounds else _HalvedGroup))
            self._rounds[-1].apply(dict.fromkeys(result, 1))
            result = self._rounds[-1].result
        whole = dict.fromkeys(result, 1)
        for known in self._known.values():
            _add(whole, known, -1)
        return whole


class MergeRound:
    """One pass over all attributes, for a set of filters none of which covers another."""

    __slots__ = ("_graph", "_groups", "_make_group", "_mergers", "_slack", "_uncovered")

    def __init__(self, slack: float, make_group: Callable[[], _Group]) -> None:
        self._slack = slack
        self._make_group = make_group
        self._groups: dict[tuple[str, bytes], _Group] = {}
        self._mergers = 0
        self._uncovered: Difference = {}  # what attributes gave, before what a merger covers is dropped
        self._graph: FlatGraph | None = None  # made with the first merger: without any, no filter covers another

    @property
    def has_mergers(self) -> bool:
        return self._mergers > 0

    @property
    def result(self) -> Collection[Filter]:
        """The filters that the round gives; none covers another."""
        return self._uncovered.keys() if self._graph is None else self._graph.forwarded

    def apply(self, difference: Difference) -> Difference:
        """Take the difference of what goes in; the difference of what comes out."""
        merged = self._merge(difference)
        if self._graph is None and not self.has_mergers:
            _add_all(self._uncovered, merged)
            return merged
        if self._graph is None:
            self._graph = FlatGraph()
            for wanted in self._uncovered:
                self._graph.insert(wanted)
        _add_all(self._uncovered, merged)
        changed: Difference = {}
        # What comes before what goes: a filter that both cover is not forwarded in between.
        for wanted, count in sorted(merged.items(), key=lambda each: -each[1]):
            for _ in range(abs(count)):
                forward, retract = self._graph.insert(wanted) if count > 0 else self._graph.remove(wanted)
                _add_all(changed, dict.fromkeys(forward, 1))
                _add_all(changed, dict.fromkeys(retract, -1))
        return changed

    def _merge(self, difference: Difference) -> Difference:
        """Attribute by attribute, each with what those before it gave."""
        merged: Difference = {}
        waiting: dict[str, dict[bytes, Difference]] = {}
        names: list[str] = []

        def pass_on(wanted: Filter, count: int, after: str) -> None:
            name, rest = _next_group(wanted, after)
            if name == _NO_ATTRIBUTE:
                _add(merged, wanted, count)
                return
            if name not in waiting:
                waiting[name] = {}
                heappush(names, name)
            _add(waiting[name].setdefault(rest, {}), wanted, count)

        for wanted, count in difference.items():
            pass_on(wanted, count, _NO_ATTRIBUTE)
        while names:
            name = heappop(names)
            for rest, changed in waiting.pop(name).items():
                for wanted, count in self._change_group((name, rest), changed).items():
                    pass_on(wanted, count, name)
        return merged

    def _change_group(self, place: tuple[str, bytes], changed: Difference) -> Difference:
        """Change the members of a group; the difference of what they are merged to."""
        group = self._groups.get(place)
        if group is None:
            group = self._groups[place] = self._make_group()
        before = group.mergers
        difference = group.change(place[0], changed, self._slack)
        self._mergers += group.mergers - before
        if not group.members:
            del self._groups[place]
        return difference


class _Group:
    """Filters that agree in all but one attribute: one merger, unless that would be too long."""

    __slots__ = ("length", "members", "merged", "mergers")

    def __init__(self) -> None:
        self.members: Difference = {}
        self.merged: Collection[Filter] = ()  # the members themselves, where they stay apart
        self.mergers = 0  # how many of the results are mergers
        self.length = 0

    def change(self, attribute: str, changed: Difference, slack: float) -> Difference:
        """Change the members; the difference of what they are merged to."""
        was_apart = self.merged is self.members
        moved = {wanted: -1 for wanted in changed if wanted in self.members}
        self._count(attribute, changed)
        is_apart = not 0 < self.length <= MAX_MERGER_CHARACTERS
        if not was_apart:
            return self._replace(self.members if is_apart else (_merge_by(attribute, self.members, slack),))
        # The results were the members, and there may be very many: only those that come or go are looked at.
        for wanted in changed:
            if wanted in self.members:
                _add(moved, wanted, 1)
        if is_apart:
            return moved
        difference = self._replace((_merge_by(attribute, self.members, slack),), before=self.members)
        _add_all(difference, moved)
        return difference

    def _count(self, attribute: str, changed: Difference) -> None:
        for wanted, count in changed.items():
            before = len(self.members)
            _add(self.members, wanted, count)
            if len(self.members) != before:
                self.length += _characters(wanted, attribute) * (len(self.members) - before)

    def _replace(self, merged: Collection[Filter], before: Collection[Filter] | None = None) -> Difference:
        before = self.merged if before is None else before
        self.merged = merged
        self.mergers = int(len(self.members) > len(self.merged))
        difference = dict.fromkeys(self.merged, 1)
        for wanted in before:
            _add(difference, wanted, -1)
        return difference


class _HalvedGroup(_Group):
    """A group that is halved by a bit of the members' digests, and again, until no merger is too long.

    So a change concerns one merger of bounded length, however many filters agree, and which ones are merged depends on
    the set alone.
    """

    __slots__ = ("_depth", "_halves")

    def __init__(self, depth: int = 0) -> None:
        super().__init__()
        self._depth = depth
        self._halves: tuple[_HalvedGroup, _HalvedGroup] | None = None

    def results(self) -> list[Filter]:
        return list(self.merged) if self._halves is None else [each for half in self._halves for each in half.results()]

    def change(self, attribute: str, changed: Difference, slack: float) -> Difference:
        self._count(attribute, changed)
        if self.length <= MAX_MERGER_CHARACTERS or len(self.members) == 1:
            if self._halves is not None:
                self.merged, self._halves = self.results(), None
            return self._replace((_merge_by(attribute, self.members, slack),) if self.members else ())
        difference: Difference = {}
        if self._halves is None:
            self._halves = _HalvedGroup(self._depth + 1), _HalvedGroup(self._depth + 1)
            difference = self._replace(())
            changed = dict.fromkeys(self.members, 1)
        sides: tuple[Difference, Difference] = {}, {}
        for wanted, count in changed.items():
            byte, bit = divmod(self._depth, 8)
            sides[wanted.digest[byte] >> bit & 1][wanted] = count
        for half, side in zip(self._halves, sides, strict=True):
            if side:
                _add_all(difference, half.change(attribute, side, slack))
        self.mergers = sum([half.mergers for half in self._halves])
        return difference


_NO_ATTRIBUTE: Final = ""  # before all others; no attribute has this name


def _next_group(wanted: Filter, after: str) -> tuple[str, bytes]:
    """The next attribute by which a filter may be merged, and what others must share with it for that."""
    parts = _parts(wanted)
    for place, part in enumerate(parts):
        # A set with tests has no union with others in general.
        if isinstance(part, Leaf) and part.attribute > after and part.values.is_enumerable:
            return part.attribute, b"".join([each.fingerprint for each in (*parts[:place], *parts[place + 1 :])])
    return _NO_ATTRIBUTE, b""


def _merge_by(attribute: str, filters: Collection[Filter], slack: float) -> Filter:
    """The filter that matches what any of some does that differ in their conditions on one attribute."""
    first = next(iter(filters))
    if len(filters) == 1:
        return first
    union = enumerable_union(*(_values(each, attribute) for each in filters))
    rest = [part for part in _parts(first) if not (isinstance(part, Leaf) and part.attribute == attribute)]
    merger = _conjunction([simplify(Leaf(attribute, union)), *rest])
    return merger.merge(merger, slack) if slack else merger


def _conjunction(parts: list[Node]) -> Filter:
    tree = conjoin(parts)
    if any(isinstance(part, Or) for part in (tree, *parts)):
        return Filter.of_tree(tree)
    # Canonical already: normalising it again would cost as much as the union.
    return Filter.of_canonical(tree, lambda: negation(tree), tree)


@lru_cache(maxsize=4_096)  # a filter is counted again in each group that it is divided into, for each neighbour
def _characters(wanted: Filter, attribute: str) -> int:
    """About the length of a filter's values of an attribute as SQL, by their cuts: to write them costs far more."""
    length = 0
    for part in _values(wanted, attribute).parts:
        if not part.cuts:
            continue
        length += _CHARACTERS_OF_A_CUT * len(part.cuts)
        # Each value of a list, and each prefix, is written once and has two cuts.
        length += sum(len(cut) for cut in part.cuts[::2] if isinstance(cut, str | bytes))
    return max(1, length)


def _parts(wanted: Filter) -> tuple[Node, ...]:
    return wanted.tree.children if isinstance(wanted.tree, And) else (wanted.tree,)


def _values(wanted: Filter, attribute: str) -> ValueSet:
    [values] = [part.values for part in _parts(wanted) if isinstance(part, Leaf) and part.attribute == attribute]
    return values


def _add(difference: Difference, wanted: Filter, count: int) -> None:
    total = difference.get(wanted, 0) + count
    if total:
        difference[wanted] = total
    else:
        del difference[wanted]


def _add_all(difference: Difference, further: Difference) -> None:
    for wanted, count in further.items():
        _add(difference, wanted, count)


def mergers(filters: Iterable[Filter], slack: float = 0.0) -> list[Filter]:
    """The fewest filters that merging attribute by attribute gives; none covers another."""
    reduction = Merging(slack)
    for wanted in dict.fromkeys(filters):
        reduction.add(wanted.digest, wanted)
    return list(reduction.change().additions.values())

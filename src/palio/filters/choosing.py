"""Does a tree hold for an event with arrays: for some choice of one element of each?

Trying every choice of everything would let an event of a few hundred bytes cost hours, so a choice is made only
where conditions depend on each other:

- an OR holds where one alternative does, so nothing is chosen across alternatives;
- a condition on one attribute leaves the elements that satisfy it, and the rest of its AND chooses among those;
- conditions of an AND that share no array are judged each for itself;
- a comparison of two attributes looks at the extremes of both, or at what they have in common;
- elements that no condition of a group tells apart count as one.

What is left, one element for every array that a group of conditions shares, is tried one by one. Whether some choice
satisfies a tree is in general as hard as satisfiability, so there is a limit: a group that leaves more than
`MOST_CHOICES` is NULL for that event, as everything is that cannot be computed. Counted is beforehand, by what the
elements are and not by how they are ordered, so that equal events are answered alike.

Where there are objects in an array, the values within one of them are chosen together: `grouping` does that first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Final, TypeAlias, TypeVar

from palio.events.groups import Grouped
from palio.events.values import Scalar, Value
from palio.filters.expressions.pairs import Elements, some_pair
from palio.filters.kinds import MISSING
from palio.filters.tree import And, Attributes, Leaf, Node, Or, Residual, attributes_in, leaves, reads_all

MOST_CHOICES: Final = 10_000  # choices of elements tried for one group of conditions of a filter

_T = TypeVar("_T")
Scalars: TypeAlias = Mapping[str, Scalar]
Arrays: TypeAlias = Mapping[str, tuple[Scalar, ...]]


def holds_for_some_choice(node: Node, event: Attributes) -> bool:
    """Whether a tree holds for some choice of one element of each array of an event."""
    names = event if reads_all(node) else [name for name in attributes_in(node) if name in event]
    read = {name: event[name] for name in names}
    choosing = Choosing({name: value for name, value in read.items() if isinstance(value, tuple)})
    if isinstance(event, Grouped):
        from palio.filters.grouping import holds_for_some_objects

        return holds_for_some_objects(node, event, choosing)
    return choosing.holds(node, *parted(read))


def parted(attributes: Mapping[str, Value]) -> tuple[Scalars, Arrays]:
    """Attributes that have one value, and those of which one is to be chosen."""
    arrays = {name: value for name, value in attributes.items() if isinstance(value, tuple)}
    return _settled({name: value for name, value in attributes.items() if name not in arrays}, arrays)  # type: ignore[misc]


def connected(items: Iterable[tuple[_T, Sequence[str]]]) -> Iterator[list[_T]]:
    """Items in groups such that no two groups have a key in common; those without a key come first, each alone."""
    above: dict[str, str] = {}

    def root(key: str) -> str:
        while (next_ := above.setdefault(key, key)) != key:
            above[key] = key = above.setdefault(next_, next_)
        return key

    alone: list[list[_T]] = []
    joined: list[tuple[str, _T]] = []
    for item, keys in items:
        for key in keys[1:]:
            above[root(key)] = root(keys[0])
        if keys:
            joined.append((keys[0], item))
        else:
            alone.append([item])
    groups: dict[str, list[_T]] = {}
    for key, item in joined:
        groups.setdefault(root(key), []).append(item)
    yield from alone
    yield from groups.values()


class Choosing:
    """One tree and one event. `scalars` has what is chosen or never was several, `several` what is still open.

    Plain loops: a generator would take a frame of its own at each of up to two hundred levels.
    """

    def __init__(self, whole: Arrays) -> None:
        self._whole = whole  # what functions of whole arrays see, whatever is chosen
        self._names: dict[int, frozenset[str]] = {}
        self._elements: dict[tuple[int, str], tuple[tuple[Scalar, ...], Elements]] = {}

    def holds(self, node: Node, scalars: Scalars, several: Arrays, counted: bool = False) -> bool:
        """Whether a tree holds for some choice; `counted` says that its choices were, with those around it."""
        match node:
            case Leaf(attribute, values):
                found = several.get(attribute)
                if found is None:
                    return values.contains(scalars.get(attribute, MISSING))
                return any(map(values.contains, found))
            case Or(children):
                for child in children:
                    if self.holds(child, scalars, several, counted):
                        return True
                return False
            case And(children):
                return self._all(children, scalars, several, counted)
            case Residual():
                return self._residual(node, scalars, several, counted)

    def _all(self, children: Iterable[Node], scalars: Scalars, several: Arrays, counted: bool) -> bool:
        others = [child for child in children if not isinstance(child, Leaf)]
        read = frozenset().union(*map(self.read, others))
        left: dict[str, tuple[Scalar, ...]] = {}
        for child in children:
            if not isinstance(child, Leaf):
                continue
            name, values = child.attribute, child.values
            if name not in read or name not in several:
                if not self.holds(child, scalars, several):
                    return False
            else:
                left[name] = tuple(filter(values.contains, left.get(name, several[name])))
                if not left[name]:
                    return False
        scalars, several = _settled(scalars, {**several, **left}) if left else (scalars, several)
        for group in self._groups(others, several):
            if not self._group(group, scalars, several, counted):
                return False
        return True

    def _group(self, children: Sequence[Node], scalars: Scalars, several: Arrays, counted: bool) -> bool:
        """Conditions that must hold together and share arrays."""
        if len(children) == 1:
            return self.holds(children[0], scalars, several, counted)
        if not counted:
            scalars, several = _settled(scalars, self._told_apart(children, several))
            if self._cost(children, several) > MOST_CHOICES:
                return False
        shared = self._shared(children, several)
        if not shared:
            for child in children:
                if not self.holds(child, scalars, several, True):
                    return False
            return True
        # The shortest array first: where it leaves nothing, the longer ones are never looked at.
        name = min(shared, key=lambda name: (len(several[name]), name))
        open_ = {each: values for each, values in several.items() if each != name}
        for value in several[name]:
            if self._all(children, {**scalars, name: value}, open_, True):
                return True
        return False

    def _residual(self, node: Residual, scalars: Scalars, several: Arrays, counted: bool) -> bool:
        names = [name for name in sorted(node.scalar_attributes) if name in several]
        if not names:
            return node.holds(scalars, self._whole)
        if node.compared is not None:
            operator, *sides = node.compared
            return some_pair(operator, *(self._elements_of(name, scalars, several, node.timezone) for name in sides))
        choices = [several[name] if counted else _distinct(several[name]) for name in names]
        if not counted and prod(map(len, choices)) > MOST_CHOICES:
            return False
        for chosen in product(*choices):
            if node.holds({**scalars, **dict(zip(names, chosen, strict=True))}, self._whole):
                return True
        return False

    def _elements_of(self, name: str, scalars: Scalars, several: Arrays, zone: str) -> Elements:
        values = several.get(name)
        if values is None:
            return Elements((scalars.get(name),), zone)
        known = self._elements.get((id(values), zone))
        if known is None:  # the array is kept beside, so that no other has its id
            known = self._elements[id(values), zone] = values, Elements(values, zone)
        return known[1]

    # Which conditions depend on each other

    def read(self, node: Node) -> frozenset[str]:
        """The attributes of which a tree looks at one element."""
        if isinstance(node, Leaf):
            return frozenset((node.attribute,))
        if isinstance(node, Residual):
            return node.scalar_attributes
        found = self._names.get(id(node))
        if found is None:
            found = self._names[id(node)] = frozenset().union(*map(self.read, node.children))
        return found

    def _groups(self, children: Iterable[Node], several: Arrays) -> Iterator[list[Node]]:
        """The children in groups such that no two groups share an array."""
        return connected((child, [name for name in self.read(child) if name in several]) for child in children)

    def _shared(self, children: Iterable[Node], several: Arrays) -> list[str]:
        """The arrays that several of the children look at."""
        uses = Counter(name for child in children for name in self.read(child) if name in several)
        return [name for name, count in uses.items() if count > 1]

    # How many choices there are

    def _told_apart(self, children: Iterable[Node], several: Arrays) -> Arrays:
        """One of all elements that no condition of a group tells from each other."""
        sets: dict[str, dict[Leaf, None]] = {}
        computed: set[str] = set()
        for child in children:
            for condition in leaves(child):
                if isinstance(condition, Leaf):
                    sets.setdefault(condition.attribute, {})[condition] = None
                else:
                    computed |= condition.scalar_attributes
        told = dict(several)
        for name, values in several.items():
            if name in computed:
                told[name] = _distinct(values)
            elif name in sets:
                by_answers = {tuple(leaf.values.contains(value) for leaf in sets[name]): value for value in values}
                told[name] = tuple(by_answers.values())
        return told

    def _cost(self, children: Sequence[Node], several: Arrays) -> int:
        """The most choices that are tried for any one condition of a group."""
        shared = self._shared(children, several) if len(children) > 1 else []
        open_ = {name: values for name, values in several.items() if name not in shared}
        return prod(len(several[name]) for name in shared) * max(self._own_cost(child, open_) for child in children)

    def _own_cost(self, node: Node, several: Arrays) -> int:
        match node:
            case Residual():
                if node.compared is not None:
                    return 1
                return prod(len(several[name]) for name in node.scalar_attributes if name in several)
            case Or(children):
                return max((self._own_cost(child, several) for child in children), default=1)
            case And(children):
                others = [child for child in children if not isinstance(child, Leaf)]
                return max((self._cost(group, several) for group in self._groups(others, several)), default=1)
        return 1


def _settled(scalars: Scalars, several: Arrays) -> tuple[Scalars, Arrays]:
    """Arrays of one element are no choice."""
    single = {name: values[0] for name, values in several.items() if len(values) == 1}
    if not single:
        return scalars, several
    return {**scalars, **single}, {name: values for name, values in several.items() if name not in single}


def _distinct(values: Iterable[Scalar]) -> tuple[Scalar, ...]:
    """Each value once; those that are equal but not the same to a computation, 1.0 and 1.00, are two."""
    return tuple({(type(value), repr(value)): value for value in values}.values())

"""Evaluation on events with arrays: whether a condition tree holds for some choice of one element per array.

Trying every combination would let an event of a few hundred bytes cost hours, so elements are chosen only where
conditions depend on each other:

- an OR holds where one alternative does, so nothing is chosen across alternatives;
- a condition on one attribute filters its elements, and the rest of its AND chooses among the remaining ones;
- conditions of an AND that share no array are evaluated independently;
- a comparison of two attributes uses the extremes of both arrays, or their common values;
- elements that no condition of a group distinguishes count as one.

The remaining combinations, one element for every array that a group of conditions shares, are tried one by one. Whether
some choice satisfies a tree is in general as hard as satisfiability, so there is a limit: a group with more than
`MAX_CHOICES` combinations is NULL for that event, like everything that cannot be computed. Combinations are counted in
advance, by the content of elements and not by their order, so that equal events are answered alike.

**Arrays of objects.** The values within one object are chosen together, and an attribute that the object lacks is
missing; nested arrays of objects are chosen from in turn. The rules above apply to objects as to elements. Arrays of
scalars remain, and are chosen from as described.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Final, NamedTuple, TypeVar

from palio.events.nested_content import Element, GroupedAttributes
from palio.events.values import Scalar, Value
from palio.filters.expressions.coercion import Arrays, Scalars
from palio.filters.expressions.value_comparison import Elements, some_pair
from palio.filters.kinds import MISSING
from palio.filters.tree import And, Attributes, Leaf, Node, Or, Residual, attributes_in, leaves, reads_all

MAX_CHOICES: Final = 10_000  # combinations of elements tried for one group of conditions

_T = TypeVar("_T")


def holds_for_some_choice(node: Node, event: Attributes) -> bool:
    """Whether a tree holds for some choice of one element of each array of an event."""
    # Arrays that the tree does not read would only multiply the combinations.
    names = event if reads_all(node) else [name for name in attributes_in(node) if name in event]
    read = {name: event[name] for name in names}
    # All of them: a function of a whole array within objects also reads the arrays around it.
    elements = ArrayChoice({name: value for name, value in event.items() if isinstance(value, tuple)})
    if isinstance(event, GroupedAttributes):
        return holds_for_some_objects(node, event, elements)
    return elements.holds(node, *split_arrays(read))


def split_arrays(attributes: Mapping[str, Value]) -> tuple[Scalars, Arrays]:
    """The attributes with one value, and those with several; an empty array offers no element, so it is missing."""
    scalars: dict[str, Scalar] = {}
    arrays: dict[str, tuple[Scalar, ...]] = {}
    for name, value in attributes.items():
        if not isinstance(value, tuple):
            scalars[name] = value
        elif value:
            arrays[name] = value
    return _settle(scalars, arrays)


def connected_components(items: Iterable[tuple[_T, Sequence[str]]]) -> Iterator[list[_T]]:
    """Connected components of items that share keys (union-find); items without a key come first, each alone."""
    above: dict[str, str] = {}

    def root(key: str) -> str:
        # Path halving: every second key on the way points further up from now on.
        while (next_ := above.setdefault(key, key)) != key:
            above[key] = key = above.setdefault(next_, next_)
        return key

    keyless: list[list[_T]] = []
    joined: list[tuple[str, _T]] = []
    for item, keys in items:
        for key in keys[1:]:
            above[root(key)] = root(keys[0])
        if keys:
            joined.append((keys[0], item))
        else:
            keyless.append([item])
    groups: dict[str, list[_T]] = {}
    for key, item in joined:
        groups.setdefault(root(key), []).append(item)
    yield from keyless
    yield from groups.values()


class ArrayChoice:
    """The evaluation of one tree on one event.

    `scalars` has the attributes with one value or a chosen one, `several` those not chosen yet. Plain loops instead of
    generators: a generator would take a frame of its own at each of up to two hundred levels.
    """

    def __init__(self, whole: Arrays) -> None:
        self._whole = whole  # functions of whole arrays see all elements, whatever is chosen
        # By the identity of nodes: an evaluation asks for the attributes of a node at every choice, and equality of
        # trees costs a walk.
        self._names: dict[int, frozenset[str]] = {}
        self._elements: dict[tuple[int, str], tuple[tuple[Scalar, ...], Elements]] = {}

    def holds(self, node: Node, scalars: Scalars, several: Arrays, counted: bool = False) -> bool:
        """Whether a tree holds for some choice; `counted` tells that its combinations are already counted."""
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
        # A leaf filters the elements of its array only where other conditions read the same array.
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
        scalars, several = _settle(scalars, {**several, **left}) if left else (scalars, several)
        # Groups share no array, so each chooses by itself: their combinations add up instead of multiplying.
        for group in self._groups(others, several):
            if not self._group(group, scalars, several, counted):
                return False
        return True

    def _group(self, children: Sequence[Node], scalars: Scalars, several: Arrays, counted: bool) -> bool:
        """Whether conditions that share arrays hold together."""
        if len(children) == 1:
            return self.holds(children[0], scalars, several, counted)
        if not counted:
            scalars, several = _settle(scalars, self._representatives(children, several))
            # Counted once for the outermost group; inner groups only choose within these combinations.
            if self._cost(children, several) > MAX_CHOICES:
                return False
        shared = self._shared(children, several)
        if not shared:
            for child in children:
                if not self.holds(child, scalars, several, True):
                    return False
            return True
        # The shortest array first: where none of its elements fits, the longer ones are never tried.
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
        # One comparison of two arrays needs no pairs: their extremes or common values decide.
        if node.compared is not None:
            operator, *sides = node.compared
            return some_pair(operator, *(self._elements_of(name, scalars, several, node.timezone) for name in sides))
        choices = [several[name] if counted else _distinct(several[name]) for name in names]
        if not counted and prod(map(len, choices)) > MAX_CHOICES:
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
        if known is None:  # the array is kept alive, so that no other gets its id
            known = self._elements[id(values), zone] = values, Elements(values, zone)
        return known[1]

    # Which conditions depend on each other

    def read(self, node: Node) -> frozenset[str]:
        """The attributes of which a tree reads one element."""
        if isinstance(node, Leaf):
            return frozenset((node.attribute,))
        if isinstance(node, Residual):
            return node.scalar_attributes
        names = self._names.get(id(node))
        if names is None:
            names = self._names[id(node)] = frozenset().union(*map(self.read, node.children))
        return names

    def _groups(self, children: Iterable[Node], several: Arrays) -> Iterator[list[Node]]:
        """The children in groups such that no two groups share an array."""
        return connected_components(
            (child, [name for name in self.read(child) if name in several]) for child in children
        )

    def _shared(self, children: Iterable[Node], several: Arrays) -> list[str]:
        """The arrays that more than one child reads."""
        uses = Counter(name for child in children for name in self.read(child) if name in several)
        return [name for name, count in uses.items() if count > 1]

    # How many choices there are

    def _representatives(self, children: Iterable[Node], several: Arrays) -> Arrays:
        """One representative of all elements that no condition of a group distinguishes."""
        sets: dict[str, dict[Leaf, None]] = {}
        computed: set[str] = set()
        for child in children:
            for condition in leaves(child):
                if isinstance(condition, Leaf):
                    sets.setdefault(condition.attribute, {})[condition] = None
                else:
                    computed |= condition.scalar_attributes
        kept = dict(several)
        for name, values in several.items():
            if name in computed:
                kept[name] = _distinct(values)
            elif name in sets:
                # Elements that are in the same sets satisfy the same conditions, so any one of them will do.
                by_outcomes = {tuple(leaf.values.contains(value) for leaf in sets[name]): value for value in values}
                kept[name] = tuple(by_outcomes.values())
        return kept

    def _cost(self, children: Sequence[Node], several: Arrays) -> int:
        """The largest number of combinations tried for any condition of a group."""
        shared = self._shared(children, several) if len(children) > 1 else []
        open_ = {name: values for name, values in several.items() if name not in shared}
        return prod(len(several[name]) for name in shared) * max(self._cost_of(child, open_) for child in children)

    def _cost_of(self, node: Node, several: Arrays) -> int:
        match node:
            case Residual():
                if node.compared is not None:
                    return 1
                return prod(len(several[name]) for name in node.scalar_attributes if name in several)
            case Or(children):
                return max((self._cost_of(child, several) for child in children), default=1)
            case And(children):
                others = [child for child in children if not isinstance(child, Leaf)]
                return max((self._cost(group, several) for group in self._groups(others, several)), default=1)
        return 1


def _settle(scalars: Scalars, several: Arrays) -> tuple[Scalars, Arrays]:
    """Move arrays of one element to the scalars."""
    single = {name: values[0] for name, values in several.items() if len(values) == 1}
    if not single:
        return scalars, several
    return {**scalars, **single}, {name: values for name, values in several.items() if name not in single}


def _distinct(values: Iterable[Scalar]) -> tuple[Scalar, ...]:
    """Each value once; equal values that a computation may distinguish, 1.0 and 1.00, both stay."""
    return tuple({(type(value), repr(value)): value for value in values}.values())


class _ObjectAttributes(NamedTuple):
    """The attributes that are read of an event or of an object in it, and the open choices."""

    ungrouped: Mapping[str, Value]
    choices: tuple[_Choice, ...]


class _Choice(NamedTuple):
    """One array of objects: all attribute names within it, and the part of each object."""

    names: frozenset[str]
    parts: tuple[_ObjectAttributes, ...]


def holds_for_some_objects(node: Node, event: GroupedAttributes, elements: ArrayChoice) -> bool:
    """Whether a tree holds for some choice of one object per array of objects, and of one element per other array."""
    part, _ = _read_of(Element(event.ungrouped, event.groups), elements.read(node))
    if reads_all(node):
        part = part._replace(ungrouped=event.ungrouped)
    return _ObjectChoice(elements).holds(node, part)


class _ObjectChoice:
    """The evaluation of one tree on one event with arrays of objects."""

    def __init__(self, elements: ArrayChoice) -> None:
        self._elements = elements

    def holds(self, node: Node, part: _ObjectAttributes) -> bool:
        match node:
            case Or(children):
                for child in children:
                    if self.holds(child, part):
                        return True
                return False
            case And(children) if part.choices:
                for together in self._independent_groups(children, part):
                    if not self._holds_together(together, part):
                        return False
                return True
        return self._holds_together([node], part)

    def _independent_groups(self, children: Iterable[Node], part: _ObjectAttributes) -> Iterable[list[Node]]:
        """The children in groups such that no two groups share a choice."""
        chosen = {name: name for name, value in part.ungrouped.items() if type(value) is tuple}
        for number, choice in enumerate(part.choices):
            chosen |= dict.fromkeys(choice.names, f"[{number}]")  # no attribute has such a name
        return connected_components(
            (child, [chosen[name] for name in self._elements.read(child) if name in chosen]) for child in children
        )

    def _holds_together(self, children: Sequence[Node], part: _ObjectAttributes) -> bool:
        node = children[0] if len(children) == 1 else And(tuple(children))
        read = self._read(children)
        relevant = [choice for choice in part.choices if not read.isdisjoint(choice.names)]
        if not relevant:
            return self._elements.holds(node, *split_arrays(part.ungrouped))
        # Counted before any object is chosen, as for elements: a large event costs no more than the count.
        if _size(_ObjectAttributes(part.ungrouped, tuple(relevant)), self._tried(children)) > MAX_CHOICES:
            return False
        first, *others = relevant
        for chosen in first.parts:
            ungrouped = {**part.ungrouped, **_beside(part.ungrouped, chosen.ungrouped)}
            if self.holds(node, _ObjectAttributes(ungrouped, (*chosen.choices, *others))):
                return True
        return False

    def _tried(self, children: Sequence[Node]) -> frozenset[str]:
        """The attributes whose elements may be tried one by one."""
        if len(children) > 1 or isinstance(children[0], And | Or):
            return self._read(children)
        return children[0].scalar_attributes if isinstance(children[0], Residual) else frozenset()

    def _read(self, children: Iterable[Node]) -> frozenset[str]:
        return frozenset().union(*map(self._elements.read, children))


def _read_of(element: Element, names: frozenset[str]) -> tuple[_ObjectAttributes, tuple[object, ...]]:
    """The part of an object with these names, and a key that objects with equal parts share."""
    # An empty array has no element to choose: to the conditions that choose one it is missing.
    ungrouped = {name: element.ungrouped[name] for name in names if element.ungrouped.get(name, ()) != ()}
    choices: list[_Choice] = []
    keys: list[object] = [(name, repr(value)) for name, value in sorted(ungrouped.items())]
    for group in element.groups:
        # Objects that are equal in what is read count as one.
        parts = {key: part for part, key in (_read_of(each, names) for each in group.elements)}
        within = frozenset().union(*map(_names_in, parts.values()))
        if within:
            choices.append(_Choice(within, tuple(parts.values())))
            keys.append((group.path, *parts))
    return _ObjectAttributes(ungrouped, tuple(choices)), tuple(keys)


def _names_in(part: _ObjectAttributes) -> frozenset[str]:
    return frozenset(part.ungrouped).union(*(choice.names for choice in part.choices))


def _size(part: _ObjectAttributes, tried: frozenset[str]) -> int:
    """The number of combinations of objects, and of elements of the arrays that are tried one by one."""
    values = prod(
        len(value) for name, value in part.ungrouped.items() if name in tried and isinstance(value, tuple) and value
    )
    # One object of each array: the objects of one array are alternatives, the arrays multiply.
    return values * prod(sum(_size(each, tried) for each in choice.parts) for choice in part.choices)


def _beside(ungrouped: Mapping[str, Value], chosen: Mapping[str, Value]) -> Mapping[str, Value]:
    """The attributes of an object; values beside it in its array are candidates together with its own."""
    return {
        name: (*_several(ungrouped[name]), *_several(value)) if name in ungrouped else value
        for name, value in chosen.items()
    }


def _several(value: Value) -> tuple[Scalar, ...]:
    return value if isinstance(value, tuple) else (value,)

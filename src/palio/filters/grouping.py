"""Does a tree hold for an event with arrays of objects: for some choice of one object of each?

With an object are chosen the values of all attributes within it, and what it lacks is missing; arrays of objects within
it are chosen from in turn. What is left then are arrays of values, which `choosing` knows how to choose from.

As there, nothing is chosen across the alternatives of an OR, conditions of an AND that no choice has in common are
judged each for itself, objects that no condition tells apart count as one, and a group of conditions that leaves more
than `MOST_CHOICES` is NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from palio.events.groups import Element, Grouped
from palio.events.values import Scalar, Value
from palio.filters.choosing import MOST_CHOICES, Choosing, connected, parted
from palio.filters.tree import And, Node, Or, Residual, reads_all


class _Part(NamedTuple):
    """What is read of an event, or of an object in it: attributes, and what is still to be chosen."""

    alone: Mapping[str, Value]
    choices: tuple[_Choice, ...]


class _Choice(NamedTuple):
    """One array of objects: all names within it, and what is read of each object."""

    names: frozenset[str]
    parts: tuple[_Part, ...]


def holds_for_some_objects(node: Node, event: Grouped, choosing: Choosing) -> bool:
    """Whether a tree holds for some choice of one object of each array of objects, and of one of all other elements."""
    part, _ = _read_of(Element(event.alone, event.groups), choosing.read(node))
    if reads_all(node):
        part = part._replace(alone=event.alone)
    return _Grouping(choosing).holds(node, part)


class _Grouping:
    def __init__(self, choosing: Choosing) -> None:
        self._choosing = choosing

    def holds(self, node: Node, part: _Part) -> bool:
        match node:
            case Or(children):
                for child in children:
                    if self.holds(child, part):
                        return True
                return False
            case And(children) if part.choices:
                for together in self._apart(children, part):
                    if not self._holds_together(together, part):
                        return False
                return True
        return self._holds_together([node], part)

    def _apart(self, children: Iterable[Node], part: _Part) -> Iterable[list[Node]]:
        """The children in groups such that no choice is common to two of them."""
        chosen = {name: name for name, value in part.alone.items() if type(value) is tuple}
        for number, choice in enumerate(part.choices):
            chosen |= dict.fromkeys(choice.names, f"[{number}]")  # which is the name of no attribute
        return connected(
            (child, [chosen[name] for name in self._choosing.read(child) if name in chosen]) for child in children
        )

    def _holds_together(self, children: Sequence[Node], part: _Part) -> bool:
        node = children[0] if len(children) == 1 else And(tuple(children))
        read = self._read(children)
        asked = [choice for choice in part.choices if not read.isdisjoint(choice.names)]
        if not asked:
            return self._choosing.holds(node, *parted(part.alone))
        if _size(_Part(part.alone, tuple(asked)), self._tried(children)) > MOST_CHOICES:
            return False
        first, *others = asked
        for chosen in first.parts:
            alone = {**part.alone, **_beside(part.alone, chosen.alone)}
            if self.holds(node, _Part(alone, (*chosen.choices, *others))):
                return True
        return False

    def _tried(self, children: Sequence[Node]) -> frozenset[str]:
        """The attributes whose elements may have to be tried one by one."""
        if len(children) > 1 or isinstance(children[0], And | Or):
            return self._read(children)
        return children[0].scalar_attributes if isinstance(children[0], Residual) else frozenset()

    def _read(self, children: Iterable[Node]) -> frozenset[str]:
        return frozenset().union(*map(self._choosing.read, children))


def _read_of(element: Element, names: frozenset[str]) -> tuple[_Part, tuple[object, ...]]:
    """What is read of an object if these names are, and a key that objects have in common that say the same there."""
    alone = {name: element.alone[name] for name in names if name in element.alone}
    choices: list[_Choice] = []
    keys: list[object] = [(name, repr(value)) for name, value in sorted(alone.items())]
    for group in element.groups:
        parts = {key: part for part, key in (_read_of(each, names) for each in group.elements)}
        within = frozenset().union(*map(_names_in, parts.values()))
        if within:
            choices.append(_Choice(within, tuple(parts.values())))
            keys.append((group.path, *parts))
    return _Part(alone, tuple(choices)), tuple(keys)


def _names_in(part: _Part) -> frozenset[str]:
    return frozenset(part.alone).union(*(choice.names for choice in part.choices))


def _size(part: _Part, tried: frozenset[str]) -> int:
    """How many choices there are, of objects and of elements of the arrays that are tried one by one."""
    values = prod(len(value) for name, value in part.alone.items() if name in tried and isinstance(value, tuple))
    return values * prod(sum(_size(each, tried) for each in choice.parts) for choice in part.choices)


def _beside(alone: Mapping[str, Value], chosen: Mapping[str, Value]) -> Mapping[str, Value]:
    """What an object says; where values stand beside it in its array, they are open to choice with its own."""
    return {
        name: (*_several(alone[name]), *_several(value)) if name in alone else value for name, value in chosen.items()
    }


def _several(value: Value) -> tuple[Scalar, ...]:
    return value if isinstance(value, tuple) else (value,)

"""Which values of an event belong together?

The fields of one object do. Where an array holds objects, `{"items": [{"sku": 1, "size": 2}, {"sku": 3}]}`, the
attribute `items.sku` has two values and `items.size` one, and that does not say which of them are of one item.
`Grouped` are attributes that also know that: for every such array, what each of its objects alone says. Who asks for
some choice of values chooses one object of the array, and what that object lacks is missing.

An array within an array is chosen like an object, if there are objects in it. Values beside objects in one array
belong to none of them.

Rejected: an attribute more, with the position of every value, because all who read an event's attributes would have
to know that it is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from palio.events.values import Scalar, Value


class Element(NamedTuple):
    """What one object of an array says: attributes by their whole names, and the arrays of objects within it."""

    alone: Mapping[str, Value]
    groups: tuple[Group, ...]


class Group(NamedTuple):
    """An array with objects in it: where it is, and what each of its elements says."""

    path: str
    elements: tuple[Element, ...]


class Grouped(dict[str, Value]):
    """The attributes of an event, as any event has them, and which of their values belong together."""

    def __init__(self, alone: Mapping[str, Value], groups: tuple[Group, ...]) -> None:
        super().__init__(alone)
        self.alone = alone
        """What is in no object of an array."""
        self.groups = groups
        gathered: dict[str, list[Scalar]] = {}
        for name, value in values_within(groups):
            gathered.setdefault(name, []).extend(value if type(value) is tuple else (value,))  # type: ignore[arg-type]
        for name, values in gathered.items():
            before = alone.get(name, ())
            self[name] = (*(before if type(before) is tuple else (before,)), *values)

    def __reduce__(self) -> tuple[type[Grouped], tuple[Mapping[str, Value], tuple[Group, ...]]]:
        return Grouped, (self.alone, self.groups)


def values_within(groups: tuple[Group, ...]) -> Iterator[tuple[str, Value]]:
    """All names and values of the objects of some arrays, in their order."""
    stack = [element for group in reversed(groups) for element in reversed(group.elements)]
    while stack:
        element = stack.pop()
        yield from element.alone.items()
        stack.extend(inner for group in reversed(element.groups) for inner in reversed(group.elements))

"""Which branches of a routing tree an event satisfies: all that brokers after the first need to know of it.

A branch names a node by the places of the children that lead to it (Jerzak §4.3). Branches that reach no filter's
end are kept where others may have tags on them. A tree may be cut at a height; a node there stands for itself and all
below it, which sends an event further than need be, never less far (Jerzak §4.3.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from msgspec import Struct

Branch: TypeAlias = tuple[int, ...]
Places: TypeAlias = "dict[int, Places]"
GREATEST_HEIGHT: Final = 255


class ForwardingTree(Struct, frozen=True, gc=False):
    """Branches in the bytes that travel: the height, 0 for none, and a code (`kernels` says how that is written).

    >>> found = ForwardingTree.of([(0, 0, 0, 0), (2,)])
    >>> found.code.hex(), found.branches
    ('020102010101010100', ((0, 0, 0, 0), (2,)))
    """

    data: bytes

    @property
    def height(self) -> int:
        return self.data[0]

    @property
    def code(self) -> bytes:
        return self.data[1:]

    @classmethod
    def of(cls, branches: Iterable[Branch], height: int = 0) -> ForwardingTree:
        """The tree of some branches, each with all that lead to it."""
        root: Places = {}
        for branch in branches:
            places = root
            for place in branch:
                places = places.setdefault(place, {})
        code = bytearray()
        level = [root]
        for places in level:  # which grows meanwhile: level by level
            code += _number(len(places))
            before = -1
            for place, below in sorted(places.items()):
                code += _number((place - before - 1) << 1 | bool(below))
                before = place
                if below:
                    level.append(below)
        return cls(bytes((height,)) + code)

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The places that lead to each of the leaves, in order."""
        return tuple(sorted(_leaves(self._places())))

    def __len__(self) -> int:
        """The number of nodes, the root not among them."""
        level = [self._places()]
        for places in level:
            level.extend(places.values())
        return len(level) - 1

    def covers(self, other: ForwardingTree) -> bool:
        """Whether who gets an event with the other tree gets one with this tree too, whatever the routing tree.

        It is so where this tree has all branches of the other: nobody need look at the content (Jerzak §4.3.1).
        """
        return _covers(self._places(), self.height, other._places(), other.height)

    def _places(self) -> Places:
        numbers = _numbers(self.code)
        root: Places = {}
        level = [root]
        for places in level:
            place = -1
            for _ in range(next(numbers)):
                number = next(numbers)
                place += (number >> 1) + 1
                places[place] = {}
                if number & 1:
                    level.append(places[place])
        return root


# Loops, no recursion: a tree of nested conditions is as deep as there are conditions.
def _covers(wide: Places, height: int, narrow: Places, other_height: int) -> bool:
    level, depth = [(wide, narrow)], 0
    while level:
        if depth and depth == height:  # nodes stand for all below them
            return True
        if depth and depth == other_height:
            return False
        if any(place not in places for places, others in level for place in others):
            return False
        level = [(places[place], below) for places, others in level for place, below in others.items()]
        depth += 1
    return True


def _leaves(root: Places) -> Iterator[Branch]:
    open_: list[tuple[Branch, Places]] = [((), root)]
    while open_:
        above, places = open_.pop()
        for place, below in places.items():
            if below:
                open_.append(((*above, place), below))
            else:
                yield (*above, place)


def _number(number: int) -> bytes:
    code = bytearray()
    while number > 127:
        code.append(number & 127 | 128)
        number >>= 7
    code.append(number)
    return bytes(code)


def _numbers(code: bytes) -> Iterator[int]:
    number = shift = 0
    for octet in code:
        number |= (octet & 127) << shift
        shift += 7
        if octet < 128:
            yield number
            number = shift = 0

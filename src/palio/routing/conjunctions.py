"""Conjunctions of a filter, for structures that hold nothing else.

Routing trees, digests and curves hold conjunctions of conditions, each on one attribute (Jerzak §4.2.1, §5.2). A filter
enters them as its conjunctions, up to a limit that the network agrees on. What such a structure cannot hold is widened:
a condition over several attributes and a pattern that can only be tested become TRUE, and a filter of too many
conjunctions becomes one that covers them all. A broker that goes by the structure alone may therefore send an event too
far, never too short; the broker that delivers tests the filter itself.

An event may have several values for an attribute, and a filter then wants one choice of values that satisfies all its
conditions. These structures test each condition for itself whether some value satisfies it: again wider, never
narrower.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from palio.events.nested_content import GroupedAttributes
from palio.filters.filter import Filter
from palio.filters.kinds import MISSING, Value
from palio.filters.tree import And, Attributes, Leaf, Node
from palio.filters.value_sets import ValueSet

CONJUNCTION_LIMIT: Final = 64  # conjunctions of one filter that enter trees, digests and curves

Conjunction: TypeAlias = tuple[Leaf, ...]
"""Conditions without tests, one per attribute, in the order of names; none is TRUE."""

TRUE: Final[Conjunction] = ()


def to_conjunctions(wanted: Filter, limit: int) -> tuple[Conjunction, ...]:
    """Conjunctions that together admit every event a filter matches; none where it matches nothing.

    They depend on the filter and the limit alone, in order too. Where one admits everything it is the only one.
    """
    widened = dict.fromkeys(_widened(each.tree) for each in wanted.conjunctions(limit))
    kept: list[Conjunction] = []
    for each in widened:
        if not any(_admits_all_of(other, each) for other in kept):
            kept = [other for other in kept if not _admits_all_of(each, other)]
            kept.append(each)
    return tuple(kept)


def possible_values(event: Attributes) -> Mapping[str, tuple[Value, ...]]:
    """The values that an event may have for each of its attributes; every other attribute is missing.

    An attribute within the objects of an array is missing from those objects that lack it, and so is an empty array.
    """
    grouped = isinstance(event, GroupedAttributes)
    found: dict[str, tuple[Value, ...]] = {}
    for name, value in event.items():
        if not isinstance(value, tuple):
            found[name] = (value,)
        else:
            found[name] = (*value, MISSING) if grouped or not value else value
    return found


def _widened(node: Node) -> Conjunction:
    parts = node.children if isinstance(node, And) else (node,)
    plain = [Leaf(part.attribute, _without_tests(part.values)) for part in parts if isinstance(part, Leaf)]
    return tuple(leaf for leaf in plain if not leaf.values.is_full)


def _without_tests(values: ValueSet) -> ValueSet:
    return ValueSet(values.parts) if values.tests else values


def _admits_all_of(wide: Conjunction, narrow: Conjunction) -> bool:
    """Whether each condition of one follows from one of the other, whatever values an event has."""
    held = {leaf.attribute: leaf.values for leaf in narrow}
    return all(leaf.attribute in held and leaf.values.covers(held[leaf.attribute]) for leaf in wide)

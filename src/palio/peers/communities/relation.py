"""Relation of two interests by containment, as it is known (Chand §7.3)."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TypeAlias

from palio.filters.filter import Filter


class Relation(IntEnum):
    """How one interest is related to another."""

    UNRELATED = 0
    EQUIVALENT = 1
    CONTAINS = 2
    WITHIN = 3


Relate: TypeAlias = Callable[[Filter, Filter], Relation]


def relate(one: Filter, other: Filter) -> Relation:
    """The relation of one interest to another: `CONTAINS` where the one matches all that the other does, and more.

    Containment is sound and transitive, which the overlay rests on; where it is not known the interests are unrelated,
    which only costs events that come in vain.
    """
    if one is other or one == other:
        return Relation.EQUIVALENT
    contains, within = one.covers(other), other.covers(one)
    if contains:
        return Relation.EQUIVALENT if within else Relation.CONTAINS
    return Relation.WITHIN if within else Relation.UNRELATED

"""What a template asks of each attribute: its AND, OR and NOT written out into few conjunctions of *groups*."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from palio.languages.sql.lowering import NEGATED, Ask, two_valued
from palio.languages.sql.templates import (
    INTEGER,
    STRING,
    Compared,
    Condition,
    Decided,
    Joined,
    Liked,
    Listed,
    Negated,
    Simple,
    Slot,
)
from palio.matching.columnar.conditions import MOST_CONJUNCTIONS

Asked: TypeAlias = tuple[Simple, Ask]  # a condition, and whether it is wanted to be TRUE or FALSE
Group: TypeAlias = list[Asked]  # on one attribute, all of which must hold for one value
Common: TypeAlias = tuple[tuple[str, ...], tuple[Slot, ...]]  # comparisons with integers; without operators, equality

_OPPOSITE: Final = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def conjunctions(condition: Condition) -> list[list[tuple[str, Group]]] | None:
    """A condition as few conjunctions of groups; None where they are many, or one cannot be made so."""
    alternatives = _alternatives(condition, Ask.TRUE)
    if alternatives is None:
        return None
    found = []
    for each in alternatives:
        groups: dict[str, Group] = {}
        for simple, ask in each:
            if isinstance(simple, Liked) and ask in (Ask.NOT_TRUE, Ask.NOT_FALSE):
                return None
            groups.setdefault(simple.name, []).append((simple, ask))
        found.append(list(groups.items()))
    return found


def _alternatives(condition: Condition, ask: Ask) -> list[list[Asked]] | None:
    match condition:
        case Negated(part):
            return _alternatives(part, NEGATED[ask])
        case Decided(positive, part):
            return _alternatives(part, two_valued(positive, ask))
        case Joined(is_and, parts):
            each = [_alternatives(part, ask) for part in parts]
            return _product(each) if is_and is (ask in (Ask.TRUE, Ask.NOT_FALSE)) else _sum(each)
    return [[(condition, ask)]]


def _sum(parts: Sequence[list[list[Asked]] | None]) -> list[list[Asked]] | None:
    found: list[list[Asked]] = []
    for part in parts:
        if part is None or len(found) + len(part) > MOST_CONJUNCTIONS:
            return None
        found += part
    return found


def _product(parts: Sequence[list[list[Asked]] | None]) -> list[list[Asked]] | None:
    found: list[list[Asked]] = [[]]
    for part in parts:
        if part is None or len(found) * len(part) > MOST_CONJUNCTIONS:
            return None
        found = [[*one, *other] for one in found for other in part]
    return found


def slots_of(simple: Simple) -> tuple[Slot, ...]:
    match simple:
        case Compared(_, _, operand) | Liked(_, _, operand):
            return (operand,) if isinstance(operand, Slot) else ()
        case Listed(_, operands):
            return tuple(operand for operand in operands if isinstance(operand, Slot))
    return ()


def operator_of(asked: Asked) -> str | None:
    """The comparison that is wanted to hold; None where it is none, or takes NULL for a value."""
    simple, ask = asked
    if not isinstance(simple, Compared) or simple.operator not in _OPPOSITE or ask not in (Ask.TRUE, Ask.FALSE):
        return None
    return simple.operator if ask is Ask.TRUE else _OPPOSITE[simple.operator]


def bounds_of(group: Group) -> dict[str, Slot] | None:
    """The comparisons of a group by operator, where it is one, or one from below and one from above."""
    found: dict[str, Slot] = {}
    for simple, ask in group:
        operator = operator_of((simple, ask))
        if operator is None or not isinstance(simple, Compared) or not isinstance(simple.operand, Slot):
            return None
        found[operator] = simple.operand
    if len(found) != len(group):
        return None
    if len(found) == 1 or (len(found) == 2 and len({*found} & {"<", "<="}) == 1 == len({*found} & {">", ">="})):
        return found
    return None


def common_of(group: Group) -> Common | None:
    """What is asked, whatever the attribute, where it is compared with integers or equal to texts."""
    bounds = bounds_of(group)
    if bounds is not None and all(slot.kind == INTEGER for slot in bounds.values()):
        return tuple(bounds), tuple(bounds.values())
    slots = equalities_of(group)
    return ((), slots) if slots is not None and slots[0].kind == STRING and not slots[0].before else None


def equalities_of(group: Group) -> tuple[Slot, ...] | None:
    """The slots of a group that asks for one of them, all of one kind, so that each may be taken by itself."""
    match group:
        case [(Compared(_, "=", Slot() as slot), Ask.TRUE)]:
            return (slot,)
        case [(Listed(_, operands) as listed, Ask.TRUE)]:
            slots = slots_of(listed)
            alike = len({(slot.kind, slot.before) for slot in slots}) == 1
            return slots if alike and len(slots) == len(operands) else None
    return None

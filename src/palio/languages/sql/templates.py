"""A parsed condition with places where its literals were: what all conditions of one shape have in common.

A template is made of the expression that the parser found for one condition of the shape, and filled in with the
literals of another. It holds nothing but AND, OR, NOT and conditions on one attribute each, whose meaning is asked of
the same functions that lowering asks; so what is filled in is what reading the whole text again would have given.
Whatever else a condition may have, arithmetic, two attributes, a function, has no template and is read anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final, TypeAlias

from palio.events.values import Scalar
from palio.filters.comparisons import MIRRORED, OPERATORS, Truth, equal_to_any
from palio.filters.expressions.tree import Attribute, Call, Expression, Literal, Micros, Months
from palio.filters.like import LikePattern
from palio.filters.normal_form import normal
from palio.filters.tree import NOTHING, And, Leaf, Node, Or
from palio.filters.values import NULLS, PRESENT, ValueSet, intersection_of
from palio.languages.sql import literals
from palio.languages.sql.lexer import NUMBER, TEXT, tokenize
from palio.languages.sql.lowering import NEGATED, Ask, asked, check, compared, liked, two_valued
from palio.languages.sql.parser import parse_condition

# The kinds of literal that are cut out, each a mark in the shape it leaves.
INTEGER: Final = "\1"  # at most 18 digits
DECIMAL: Final = "\2"  # digits, a point, digits
DOUBLE: Final = "\3"  # with an exponent, or the letter D
STRING: Final = "\4"  # in quotes, without a backslash

Cut: TypeAlias = tuple[str, int, int]  # the kind of a literal, where it begins and ends
Given: TypeAlias = Sequence[Any]  # the values of all literals of one condition
Test: TypeAlias = Callable[[Mapping[str, Any], Given, str], bool]  # of an event, literals and a time zone


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a literal: which of those cut out it is, and how its text is read."""

    index: int
    kind: str
    before: str  # what belongs to the literal and stands before it: a sign, or the word DATE

    def read(self, text: str, timezone: str) -> Scalar:
        """The value of a literal that stands here; `BadLiteral` where it has none."""
        if self.kind == INTEGER:
            return -int(text) if self.before == "-" else int(text)
        if self.kind != STRING:
            return literals.number(text if self.before == "+" else self.before + text)
        inside, quote = text[1:-1], text[0]
        if quote in inside:
            inside = inside.replace(quote * 2, quote)
        return inside if not self.before else _TYPED[self.before](inside, timezone)


_TYPED: Final[dict[str, Callable[[str, str], Scalar]]] = {
    "date": lambda text, _: literals.date_literal(text),
    "timestamp": literals.timestamp_literal,
    "timestamp_ltz": literals.timestamp_literal,
    "timestamp_ntz": literals.local_timestamp_literal,
    "x": lambda text, _: literals.hexadecimal(text),
}


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal that is a part of the shape: NULL, TRUE, 5L."""

    value: Scalar


Operand: TypeAlias = Slot | Constant


def _value(operand: Operand, given: Given) -> Scalar:
    return given[operand.index] if type(operand) is Slot else operand.value  # type: ignore[union-attr]


POSITIVE: Final = (Ask.TRUE, Ask.NOT_FALSE)
"""The questions that AND answers as an AND, and a condition that is never NULL with itself."""


# --- conditions on one attribute -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compared:
    """An attribute compared with one literal, the attribute first."""

    name: str
    operator: str
    operand: Operand

    def node(self, given: Given, timezone: str, ask: Ask) -> Node:
        return asked(self.name, compared(self.operator, _value(self.operand, given), timezone), ask)


@dataclass(frozen=True, slots=True)
class Listed:
    """IN."""

    name: str
    operands: tuple[Operand, ...]

    def node(self, given: Given, timezone: str, ask: Ask) -> Node:
        return asked(self.name, equal_to_any([_value(each, given) for each in self.operands], timezone), ask)


@dataclass(frozen=True, slots=True)
class Liked:
    """LIKE, ILIKE, startswith, endswith, contains."""

    name: str
    function: str
    operand: Slot

    def pattern(self, given: Given) -> LikePattern:
        return _pattern(self.function, given[self.operand.index])

    def node(self, given: Given, timezone: str, ask: Ask) -> Node:
        return liked(self.name, self.pattern(given), ask)


@lru_cache(maxsize=4_096)
def _pattern(function: str, text: str) -> LikePattern:
    return _PATTERNS[function](text)


_PATTERNS: Final[dict[str, Callable[..., LikePattern]]] = {
    "like": LikePattern.parse,
    "ilike": lambda text: LikePattern.parse(text, ignore_case=True),
    "startswith": LikePattern.starting,
    "endswith": LikePattern.ending,
    "contains": LikePattern.containing,
}


@dataclass(frozen=True, slots=True)
class Nulled:
    """IS NULL, IS NOT NULL."""

    name: str
    is_null: bool

    def node(self, given: Given, timezone: str, ask: Ask) -> Node:
        return Leaf(self.name, NULLS if self.is_null is (ask in POSITIVE) else PRESENT)


@dataclass(frozen=True, slots=True)
class Flagged:
    """An attribute as a condition."""

    name: str
    truth: ClassVar[Truth] = Truth(ValueSet.points([True]), ValueSet.points([False]))

    def node(self, given: Given, timezone: str, ask: Ask) -> Node:
        return asked(self.name, self.truth, ask)


Simple: TypeAlias = Compared | Listed | Liked | Nulled | Flagged


# --- and what joins them -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Joined:
    """AND, OR; BETWEEN is an AND of two comparisons."""

    is_and: bool
    parts: tuple[Condition, ...]

    def node(self, given: Given, timezone: str, ask: Ask) -> Node:
        nodes = tuple([part.node(given, timezone, ask) for part in self.parts])
        return And(nodes) if self.is_and is (ask in POSITIVE) else Or(nodes)


@dataclass(frozen=True, slots=True)
class Negated:
    """NOT."""

    part: Condition

    def node(self, given: Given, timezone: str, ask: Ask) -> Node:
        return self.part.node(given, timezone, NEGATED[ask])


@dataclass(frozen=True, slots=True)
class Decided:
    """IS TRUE, IS FALSE."""

    positive: bool
    part: Condition

    def node(self, given: Given, timezone: str, ask: Ask) -> Node:
        return self.part.node(given, timezone, two_valued(self.positive, ask))


Condition: TypeAlias = Simple | Joined | Negated | Decided


class Template:
    """The conditions of one shape, but for their literals."""

    __slots__ = ("_by_name", "condition", "equalities", "names", "needed", "slots", "test")

    def __init__(self, condition: Condition, slots: Sequence[Slot]) -> None:
        self.condition = condition
        self.slots = tuple(slots)
        self._by_name = _by_name(condition)
        self.test: Test | None = None
        """The condition as a function, once somebody has asked for it."""
        self.equalities = _equalities(condition)
        """Attributes that must be one of some strings, with the places of these."""
        self.names = frozenset(_names(condition))
        """All attributes that are asked about."""
        self.needed = _needed(condition)
        """Attributes without which an event does not match."""

    def read(self, texts: Sequence[str], timezone: str) -> list[Scalar]:
        """The values of the literals of a condition; `BadLiteral` where one has none."""
        return [slot.read(text, timezone) for slot, text in zip(self.slots, texts, strict=True)]

    def tree(self, given: Given, timezone: str) -> Node:
        """The canonical tree of a condition with these literals."""
        if self._by_name is None:
            return normal(self.node(given, timezone))
        # What `normal` makes of a conjunction, without looking for anything else.
        leaves: list[Node] = []
        for name, parts in self._by_name:
            values = intersection_of([_values(part, given, timezone) for part in parts])
            if values.is_empty:
                return NOTHING
            if not values.is_full:
                leaves.append(Leaf(name, values))
        return leaves[0] if len(leaves) == 1 else And(tuple(leaves))

    def node(self, given: Given, timezone: str, ask: Ask = Ask.TRUE) -> Node:
        """The tree of the events for which a condition with these literals answers as asked, as it was written."""
        return self.condition.node(given, timezone, ask)


def join_templates(parts: Sequence[Template]) -> Template:
    """The template of the conjunction of some conditions, whose literals follow each other."""
    conditions: list[Condition] = []
    slots: list[Slot] = []
    for part in parts:
        if slots and part.slots:
            moved = [Slot(slot.index + len(slots), slot.kind, slot.before) for slot in part.slots]
            conditions.append(_with_slots(part.condition, moved))
            slots += moved
        else:
            conditions.append(part.condition)
            slots += part.slots
    return Template(Joined(True, tuple(conditions)), slots)


def _with_slots(condition: Condition, slots: Sequence[Slot]) -> Condition:
    """The same condition, its slots by their place among these. By type: this is done for every single condition."""
    kind = type(condition)
    if kind is Compared:
        return Compared(condition.name, condition.operator, _moved(condition.operand, slots))  # type: ignore[union-attr]
    if kind is Joined:
        return Joined(condition.is_and, tuple([_with_slots(each, slots) for each in condition.parts]))  # type: ignore[union-attr]
    match condition:
        case Listed(name, operands):
            return Listed(name, tuple([_moved(each, slots) for each in operands]))
        case Liked(name, function, operand):
            return Liked(name, function, slots[operand.index])
        case Negated(part):
            return Negated(_with_slots(part, slots))
        case Decided(positive, part):
            return Decided(positive, _with_slots(part, slots))
    return condition


def _moved(operand: Operand, slots: Sequence[Slot]) -> Operand:
    return slots[operand.index] if type(operand) is Slot else operand


_Conjuncts: TypeAlias = list[tuple[str, list[Condition]]]


def _by_name(condition: Condition) -> _Conjuncts | None:
    """The parts of a flat conjunction by attribute, in the order of names; None for any other condition."""
    flat = isinstance(condition, Joined) and condition.is_and and not _is_between(condition)
    parts = condition.parts if isinstance(condition, Joined) and flat else (condition,)
    names: dict[str, list[Condition]] = {}
    for part in parts:
        name = _name(part)
        if name is None:
            return None
        names.setdefault(name, []).append(part)
    return [(name, names[name]) for name in sorted(names)]


def _names(condition: Condition) -> Iterator[str]:
    match condition:
        case Joined(_, parts):
            for part in parts:
                yield from _names(part)
        case Negated(part) | Decided(_, part):
            yield from _names(part)
        case _:
            yield condition.name


def _needed(condition: Condition) -> tuple[str, ...]:
    match condition:
        case Joined(True, parts):
            return tuple(dict.fromkeys(name for part in parts for name in _needed(part)))
        case Compared(name, operator, _) if operator != "<=>":
            return (name,)
        case Listed(name) | Liked(name) | Flagged(name) | Nulled(name, False):
            return (name,)
    return ()


def _equalities(condition: Condition) -> list[tuple[str, tuple[Slot, ...]]]:
    found = []
    for part in condition.parts if isinstance(condition, Joined) and condition.is_and else (condition,):
        operands: tuple[Operand, ...] = ()
        if isinstance(part, Compared) and part.operator == "=":
            operands = (part.operand,)
        elif isinstance(part, Listed):
            operands = part.operands
        slots = tuple(each for each in operands if isinstance(each, Slot) and each.kind == STRING and not each.before)
        if slots and len(slots) == len(operands):
            found.append((part.name, slots))  # type: ignore[union-attr]
    return found


def _is_between(condition: Condition) -> bool:
    """Whether this is a comparison from below and one from above of one attribute, as BETWEEN is."""
    if not isinstance(condition, Joined) or not condition.is_and or len(condition.parts) != 2:
        return False
    low, high = condition.parts
    if not isinstance(low, Compared) or not isinstance(high, Compared):
        return False
    return low.name == high.name and low.operator == ">=" and high.operator == "<="


def _name(condition: Condition) -> str | None:
    """The attribute of a condition on one alone, whose values `_values` can tell."""
    if isinstance(condition, Joined):
        first = condition.parts[0]
        return first.name if _is_between(condition) and isinstance(first, Compared) else None
    return None if isinstance(condition, Negated | Decided) else condition.name


def _values(condition: Condition, given: Given, timezone: str) -> ValueSet:
    node = condition.node(given, timezone, Ask.TRUE)
    if isinstance(node, And):
        return intersection_of([each.values for each in node.children if isinstance(each, Leaf)])
    assert isinstance(node, Leaf)  # only what is not asked for TRUE may be two of them
    return node.values


# --- making one ----------------------------------------------------------------------------------------------


def make_template(text: str, cuts: Sequence[Cut]) -> Template | None:
    """The template of the conditions that differ from this one in what was cut out; None where there is none."""
    tokens = {(start, end): kind for kind, _, start, end in tokenize(text)}
    if any(tokens.get((start, end)) != (TEXT if kind == STRING else NUMBER) for kind, start, end in cuts):
        return None  # what looks like a literal is a part of something else
    expression = parse_condition(text)
    check(expression, text)
    maker = _Maker(text, cuts)
    condition = maker.condition(expression)
    if condition is None or None in maker.slots:
        return None
    return Template(condition, [slot for slot in maker.slots if slot is not None])


class _Maker:
    def __init__(self, text: str, cuts: Sequence[Cut]) -> None:
        self._text = text
        self._cuts = cuts
        self._ends = {end: index for index, (_, _, end) in enumerate(cuts)}
        self.slots: list[Slot | None] = [None] * len(cuts)

    def condition(self, expression: Expression) -> Condition | None:
        match expression:
            case Attribute(name):
                return Flagged(name)
            case Call("and" | "or" as function, arguments):
                parts = [self.condition(each) for each in arguments]
                found = tuple(part for part in parts if part is not None)
                return Joined(function == "and", found) if len(found) == len(parts) else None
            case Call("not", (argument,)):
                part = self.condition(argument)
                return None if part is None else Negated(part)
            case Call("istrue" | "isfalse" as function, (argument,)):
                part = self.condition(argument)
                return None if part is None else Decided(function == "istrue", part)
            case Call("isnull" | "isnotnull" as function, (Attribute(name),)):
                return Nulled(name, function == "isnull")
            case Call("between", (Attribute(name), low, high)):
                ends = self._operand(low), self._operand(high)
                if ends[0] is None or ends[1] is None:
                    return None
                return Joined(True, (Compared(name, ">=", ends[0]), Compared(name, "<=", ends[1])))
            case Call("in", (Attribute(name), *items)):
                operands = [self._operand(item) for item in items]
                listed = tuple(operand for operand in operands if operand is not None)
                return Listed(name, listed) if len(listed) == len(operands) else None
            case Call(function, (Attribute(name), pattern)) if function in _PATTERNS:
                slot = self._text_slot(pattern)
                return None if slot is None else Liked(name, function, slot)
            case Call(function, (Attribute(name), other)) if function in OPERATORS or function == "<=>":
                return self._comparison(name, function, other)
            case Call(function, (other, Attribute(name))) if function in OPERATORS or function == "<=>":
                return self._comparison(name, MIRRORED.get(function, function), other)
        return None

    def _comparison(self, name: str, operator: str, other: Expression) -> Condition | None:
        operand = self._operand(other)
        return None if operand is None else Compared(name, operator, operand)

    def _text_slot(self, expression: Expression) -> Slot | None:
        operand = self._operand(expression)
        return operand if isinstance(operand, Slot) and operand.kind == STRING and not operand.before else None

    def _operand(self, expression: Expression) -> Operand | None:
        """A literal as what stands in its place; None for anything that is no literal, or not one that is known."""
        if not isinstance(expression, Literal) or isinstance(expression.value, Months | Micros):
            return None
        first, last = expression.span
        index = self._ends.get(last)
        if index is None:
            return Constant(expression.value)
        kind, start, end = self._cuts[index]
        before = self._text[first:start].strip().lower()
        if before not in (("", *_TYPED) if kind == STRING else ("", "-", "+")) or self.slots[index] is not None:
            return None
        slot = self.slots[index] = Slot(index, kind, before)
        # What the parser read here is what a slot reads: a check of the rules above by the case at hand.
        known = slot.read(self._text[start:end], "UTC")
        return slot if (type(known), known) == (type(expression.value), expression.value) else None

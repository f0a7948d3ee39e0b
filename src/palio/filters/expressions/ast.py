"""Abstract syntax tree of expressions: literals, attributes and calls.

Every operator is a `Call` with a canonical function name, so that evaluation, printing, equality and
validation are tables over names instead of a class per operator. The names:

    and or not                         Kleene logic; `and` and `or` take two or more arguments
    = <=> <> < <= > >=                 comparisons (`==` is `=`, `!=` is `<>`)
    in between                         in(x, a, b, …), between(x, low, high)
    like ilike rlike                   like(x, pattern, escape); rlike(x, pattern)
    isnull isnotnull istrue isfalse    always TRUE or FALSE, never NULL
    + - * / % div neg concat           arithmetic; `||` is concat
    cast                               cast(x, Literal type name), such as 'bigint' or 'decimal(10,2)'
    case                               case(when, then, when, then, …[, else])
    anything else                      a function of the catalogue (`functions.py`), by its lower-case canonical name

Spans point into the text an expression was parsed from; they take no part in equality.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from palio.events.values import Scalar

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True, order=True)
class Months:
    """A year-month interval, in months."""

    months: int


@dataclass(frozen=True, slots=True, order=True)
class Micros:
    """A day-time interval, in microseconds.

    `is_days` says that it is written in days or weeks alone: a date plus such an interval is a date, and a date plus
    one of hours, be it 24 of them, is a timestamp.
    """

    micros: int
    is_days: bool = field(default=False, compare=False)


@dataclass(frozen=True, eq=False)
class Literal:
    """A constant. Its Python type is its SQL type: an int is an integer, a Decimal a decimal, a float a double."""

    value: Scalar | Months | Micros
    span: Span = field(default=(0, 0), repr=False)

    @cached_property
    def key(self) -> tuple[str, str]:
        # Python says 1 == True == 1.0; SQL's literals of different types are different literals.
        return type(self.value).__name__, repr(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True)
class Attribute:
    """The value of an attribute: one element of it where it has several."""

    name: str
    span: Span = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True)
class Array:
    """All the values of an attribute, as the array functions see them."""

    name: str
    span: Span = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True)
class Call:
    """A function applied to arguments."""

    function: str
    arguments: tuple[Expression, ...]
    span: Span = field(default=(0, 0), compare=False, repr=False)


Expression: TypeAlias = Literal | Attribute | Array | Call


def attributes_of(expression: Expression) -> frozenset[str]:
    """The names of all attributes an expression reads, whole arrays included."""
    return frozenset(node.name for node in walk(expression) if isinstance(node, Attribute | Array))


def walk(expression: Expression) -> Iterator[Expression]:
    """Every node of an expression, in unspecified order; with a stack, because text from outside may nest deeply."""
    stack: list[Expression] = [expression]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Call):
            stack.extend(node.arguments)


def bottom_up(expression: Expression) -> list[Call]:
    """Every call of an expression, each once, after the calls among its arguments.

    A memoising analysis that visits calls in this order never recurses deeply: text from outside may nest deeply.
    """
    found: dict[int, Call] = {}
    stack: list[tuple[Expression, bool]] = [(expression, False)]
    while stack:
        node, is_done = stack.pop()
        if not isinstance(node, Call) or id(node) in found:
            continue
        if is_done:
            found[id(node)] = node
        else:
            stack.append((node, True))
            stack.extend((argument, False) for argument in node.arguments)
    return list(found.values())

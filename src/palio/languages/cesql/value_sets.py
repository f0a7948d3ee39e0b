"""Value sets of CESQL conditions on one attribute.

The `TruthTrees` of a condition are three: where it is true, where it is false, and where it is defined, that is, one
of the two. Elsewhere it ends in an error, and a filter with an error does not match.

Almost every condition is a set of values. Two are evaluated instead. The strings of an Integer (`'+05'` is 5) form no
interval of strings, so they are read by the SQL function `cesql_int`. Where a pattern has wildcards, the texts of
numbers and times are made by `cesql_string`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from itertools import product
from typing import Final, TypeAlias

from palio.events.values import MAX_DECIMAL_DIGITS, MAX_INT64, MIN_INT64
from palio.filters.algebra import enumerable_union, strings_like
from palio.filters.comparisons import compare
from palio.filters.computed import computed_condition
from palio.filters.expressions.ast import Attribute, Call, Literal
from palio.filters.expressions.extension_functions import (
    LARGEST_CESQL_INTEGER,
    SMALLEST_CESQL_INTEGER,
    cloudevents_text,
)
from palio.filters.expressions.value_comparison import MIRRORED
from palio.filters.kinds import KINDS, Kind
from palio.filters.kinds import Value as Scalar
from palio.filters.like import LikePattern
from palio.filters.tree import EVERYTHING, NOTHING, Leaf, Node, Or
from palio.filters.value_predicates import Computed, Test
from palio.filters.value_sets import NO_VALUE, NULLS, PRESENT, STRINGS, ValueSet, span
from palio.languages.cesql.types import Type, Value, cast, instant_in, type_of

_LazyNode: TypeAlias = Node | Callable[[], Node]


class TruthTrees:
    """Trees where a condition is true, false, and defined; each is made when it is needed, because most never are.

    `conditions` counts the conditions of the text, `size` those of the expanded tree. Conditions of the same `domain`
    are defined for the same events.
    """

    __slots__ = ("_defined", "_false", "_true", "conditions", "domain", "size")

    def __init__(
        self,
        true: _LazyNode,
        false: _LazyNode,
        defined: _LazyNode,
        *,
        domain: tuple[str, str] | None = None,
        conditions: int = 1,
        size: int = 1,
    ) -> None:
        self._true = true
        self._false = false
        self._defined = defined
        self.domain = domain
        self.conditions = conditions
        self.size = size

    @property
    def true(self) -> Node:
        if callable(self._true):
            self._true = self._true()
        return self._true

    @property
    def false(self) -> Node:
        if callable(self._false):
            self._false = self._false()
        return self._false

    @property
    def defined(self) -> Node:
        if callable(self._defined):
            self._defined = self._defined()
        return self._defined

    def negated(self) -> TruthTrees:
        return TruthTrees(
            self._false if not callable(self._false) else lambda: self.false,
            self._true if not callable(self._true) else lambda: self.true,
            self._defined if not callable(self._defined) else lambda: self.defined,
            domain=self.domain,
            conditions=self.conditions,
            size=self.size,
        )


ALWAYS: Final = TruthTrees(EVERYTHING, NOTHING, EVERYTHING)
NEVER: Final = TruthTrees(NOTHING, EVERYTHING, EVERYTHING)
UNDEFINED: Final = TruthTrees(NOTHING, NOTHING, NOTHING)

# The types by which an expression sees the values of an event; bytes have none.
BOOLEANS: Final = ValueSet.kinds(Kind.BOOLEAN)
INTEGERS: Final = ValueSet.of({Kind.INTEGER: span(Kind.INTEGER, SMALLEST_CESQL_INTEGER, LARGEST_CESQL_INTEGER + 1)})
TYPED: Final = ValueSet.kinds(*(kind for kind in KINDS if kind > Kind.NULL and kind is not Kind.BYTES))


def _without(values: ValueSet, left_out: ValueSet) -> ValueSet:
    return values.intersect(left_out.complement())


NUMERIC: Final = enumerable_union(BOOLEANS, INTEGERS)
TEXTS: Final = _without(TYPED, NUMERIC)


def _spellings(word: str) -> ValueSet:
    """The strings that are a word in any case of letters."""
    return ValueSet.points(map("".join, product(*zip(word, word.upper(), strict=True))))


_ZERO: Final = ValueSet.points([0])
_TRUTHS: Final = {
    True: enumerable_union(ValueSet.points([True]), _without(INTEGERS, _ZERO), _spellings("true")),
    False: enumerable_union(ValueSet.points([False]), _ZERO, _spellings("false")),
}


def _within(name: str, domain: str, defined: ValueSet, true: ValueSet) -> TruthTrees:
    """A condition that is true for some of the values for which it is defined."""
    return TruthTrees(
        Leaf(name, true),
        lambda: Leaf(name, _without(defined, true)),
        Leaf(name, defined),
        domain=(name, domain),
    )


def exists(name: str) -> TruthTrees:
    """EXISTS name."""
    return TruthTrees(Leaf(name, PRESENT), Leaf(name, NULLS), EVERYTHING)


def where_boolean_true(name: str) -> Node:
    """An attribute that stands for the whole expression is the Boolean true; nothing is cast there."""
    return Leaf(name, ValueSet.points([True]))


def truth(name: str) -> TruthTrees:
    """An attribute as an operand of AND, OR and XOR."""
    return _within(name, "truth", enumerable_union(*_TRUTHS.values()), _TRUTHS[True])


def truth_for_not(name: str) -> TruthTrees:
    """An attribute as the operand of NOT, which takes no Integer."""
    true, false = (_without(_TRUTHS[value], INTEGERS) for value in (True, False))
    return _within(name, "not", enumerable_union(true, false), true)


# --- comparisons ------------------------------------------------------------------------------------------------

_TYPES: Final = ((Type.BOOLEAN, BOOLEANS), (Type.INTEGER, INTEGERS), (Type.STRING, TEXTS))


def compare_constant(name: str, operator: str, constant: Value) -> TruthTrees:
    """`name operator constant`: the attribute is cast to the type of the constant."""
    if operator == "<>":
        return compare_constant(name, "=", constant).negated()
    if operator != "=":
        number = cast(constant, Type.INTEGER)
        return UNDEFINED if number is None else _compare_integers(name, operator, int(number))
    match type_of(constant):
        case Type.STRING:
            return _within(name, "text", TYPED, values_equal(str(constant)))
        case Type.INTEGER:
            return _compare_integers(name, "=", int(constant))
    meant = truth(name)
    return meant if constant else meant.negated()


def compare_reversed(name: str, operator: str, constant: Value) -> TruthTrees:
    """`constant operator name`: the constant is cast to the type of the attribute."""
    if operator == "<>":
        return compare_reversed(name, "=", constant).negated()
    if operator != "=":
        return compare_constant(name, MIRRORED[operator], constant)
    true, defined = [], []
    # No `domain` below: the types to which the constant can be cast decide where the condition is defined.
    for type_, within in _TYPES:
        value = cast(constant, type_)
        if value is not None:
            true.append(_values_equal_to_any([value]).intersect(within))
            defined.append(within)
    everywhere = enumerable_union(*defined)
    return TruthTrees(
        Leaf(name, enumerable_union(*true)),
        lambda: Leaf(name, _without(everywhere, enumerable_union(*true))),
        Leaf(name, everywhere),
    )


def in_list(name: str, constants: Sequence[Value | None]) -> TruthTrees:
    """`name IN (constants)`, each cast to the type of the attribute, from left to right; None is one that fails."""
    true, false = [], []
    for type_, within in _TYPES:
        values = [None if each is None else cast(each, type_) for each in constants]
        # IN stops at the first item that fails: what equals one before it is true, all else is undefined.
        fails = None in values
        equal = _values_equal_to_any(values[: values.index(None)] if fails else values).intersect(within)
        true.append(equal)
        if not fails:
            false.append(_without(within, equal))
    return TruthTrees(
        Leaf(name, enumerable_union(*true)),
        Leaf(name, enumerable_union(*false)),
        Leaf(name, enumerable_union(*true, *false)),
    )


def _values_equal_to_any(values: Iterable[Value | None]) -> ValueSet:
    """The values that equal one of some values of one type."""
    points: list[Scalar] = []
    for value in values:
        if isinstance(value, str):
            points += _equal_values(value)
        elif value is not None:
            points.append(value)
    return ValueSet.points(points)


def _compare_integers(name: str, operator: str, number: int) -> TruthTrees:
    """A comparison of Integers: the attribute's own, those that Booleans are cast to, and those that texts are."""
    true = compare(operator, number).true
    inside = enumerable_union(
        INTEGERS.intersect(true), ValueSet.points(value for value in (False, True) if true.contains(int(value)))
    )
    number_of_text = Call("cesql_int", (Attribute(name),))
    condition = Call(operator, (number_of_text, Literal(number)))
    return TruthTrees(
        lambda: Or((Leaf(name, inside), _strings(name, condition, True))),
        lambda: Or((Leaf(name, _without(NUMERIC, inside)), _strings(name, condition, False))),
        lambda: Or((Leaf(name, NUMERIC), _strings(name, Call("isnull", (number_of_text,)), False))),
        domain=(name, "integer"),
        size=2,
    )


def _strings(name: str, condition: Call, wants: bool) -> Leaf:
    """The strings for which a condition that only they can satisfy is as wanted."""
    return Leaf(name, ValueSet(STRINGS.parts, frozenset([Test(Computed(condition, wants))])))


# --- texts ------------------------------------------------------------------------------------------------------

_DIGITS: Final = re.compile(r"-?[0-9]+", re.ASCII)
_FRACTION: Final = re.compile(r"-?[0-9]+\.[0-9]+", re.ASCII)
_NON_FINITE: Final = tuple(float(word) for word in ("nan", "inf", "-inf"))


@lru_cache(maxsize=16_384)
def values_equal(text: str) -> ValueSet:
    """All values, of whatever kind, that equal a text."""
    return ValueSet.points(_equal_values(text))


def _equal_values(text: str) -> list[Scalar]:
    """The values that equal a text: those that have it, and the timestamp of which it is another spelling."""
    return [each for each in _candidates(text) if isinstance(each, datetime) or cloudevents_text(each) == text]


def _values_with_text(text: str) -> ValueSet:
    """All values, of whatever kind, that have a text: one of each kind at most."""
    return ValueSet.points(each for each in _candidates(text) if cloudevents_text(each) == text)


# What the texts of other kinds begin with: a sign or digit, NaN, Infinity, true, false. Most constants begin otherwise.
_STARTS_OF_OTHER_KINDS: Final = frozenset("-0123456789NItf")


def _candidates(text: str) -> Iterable[Scalar]:
    """A text, and the values of other kinds that may have this text; the caller compares their texts with it."""
    yield text
    if text[:1] not in _STARTS_OF_OTHER_KINDS:
        return
    if text in ("true", "false"):
        yield text == "true"
    # The lengths bound the conversions: 64 bits have 19 digits and a sign, and no float has a text of 400 characters.
    if len(text) <= 20 and _DIGITS.fullmatch(text) and MIN_INT64 <= int(text) <= MAX_INT64:
        yield int(text)
    if len(text) <= 400 and _FRACTION.fullmatch(text):
        yield float(text)
        if len(text) <= 2 * MAX_DECIMAL_DIGITS and sum(map(str.isdigit, text.lstrip("-0."))) <= MAX_DECIMAL_DIGITS:
            yield Decimal(text)
    yield from (each for each in _NON_FINITE if cloudevents_text(each) == text)
    if text[:4].isdigit() and (day := _date_in(text)) is not None:
        yield day
    if text[:4].isdigit() and (instant := instant_in(text)) is not None:
        yield instant


def _date_in(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def like(name: str, pattern: LikePattern) -> TruthTrees:
    """name LIKE pattern."""
    # Of the other kinds, some values are known by their text; the rest is evaluated, if the pattern can match at all.
    plain, evaluated = _values_like(pattern), _values_to_evaluate(pattern)
    strings = strings_like(pattern)
    tested = () if evaluated.is_empty else (evaluated,)
    return TruthTrees(
        Or((Leaf(name, plain), Leaf(name, strings), *(_text_like(name, pattern, each, True) for each in tested))),
        lambda: Or(
            (
                Leaf(name, _without(TYPED, enumerable_union(STRINGS, plain, evaluated))),
                Leaf(name, strings_like(pattern, wanted=False)),
                *(_text_like(name, pattern, each, False) for each in tested),
            )
        ),
        Leaf(name, TYPED),
        domain=(name, "text"),
        size=1 + bool(strings.tests) + len(tested),
    )


def _values_like(pattern: LikePattern) -> ValueSet:
    """The values other than strings whose texts are known to have the form of a pattern, one by one or all."""
    if pattern.shape == "exact":
        return _without(_values_with_text(pattern.text), STRINGS)
    if not pattern.literals and pattern.shape == "prefix":  # %
        return _without(TYPED, STRINGS)
    return ValueSet.points(
        each for each in (False, True, *_NON_FINITE) if pattern.matches(cloudevents_text(each) or "")
    )


# The characters of the texts of each kind; a pattern with any other character matches none of them.
_CHARACTERS: Final = {
    Kind.INTEGER: frozenset("-0123456789"),
    Kind.DECIMAL: frozenset("-.0123456789"),
    Kind.FLOAT: frozenset("-.0123456789"),  # NaN and the infinities are tested one by one
    Kind.DATE: frozenset("-0123456789"),
    Kind.TIMESTAMP: frozenset("-.0123456789:TZ"),
}


def _values_to_evaluate(pattern: LikePattern) -> ValueSet:
    """The values whose texts may have the form of a pattern and must be evaluated."""
    if pattern.shape == "exact" or (not pattern.literals and pattern.shape == "prefix"):
        return NO_VALUE
    used = frozenset().union(*pattern.literals)
    asked = ValueSet.kinds(*(kind for kind, known in _CHARACTERS.items() if used <= known))
    return _without(asked, ValueSet.points(_NON_FINITE))


def _text_like(name: str, pattern: LikePattern, asked: ValueSet, wants: bool) -> Node:
    text = Call("cesql_string", (Attribute(name),))
    computed = computed_condition(Call("like", (text, Literal(pattern.sql))), wants)
    assert isinstance(computed, Leaf)  # it reads one attribute
    return Leaf(name, computed.values.intersect(asked))

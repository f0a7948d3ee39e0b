"""For which values of an attribute is a condition true, and for which false, without any error?

A condition on one attribute is given as a `Meaning`: where it is true, where it is false, and where it is defined,
that is, one of the two. Elsewhere it ends in an error, and a filter that has errors matches nothing.

Sets of values say almost all of it. What a text says as an Integer (`'+05'` is 5) no interval of texts can hold, so
that there the text is asked, by the SQL function `cesql_int`; and so are, by `cesql_string`, the texts of numbers and
times where a pattern has wildcards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from itertools import product
from typing import Final, TypeAlias

from palio.events.values import DIGITS
from palio.filters.comparisons import MIRRORED, compare
from palio.filters.computed import computed
from palio.filters.expressions.cloudevents_text import LARGEST, SMALLEST, text_of
from palio.filters.expressions.tree import Attribute, Call, Literal
from palio.filters.intervals import span
from palio.filters.kinds import KINDS, Kind
from palio.filters.kinds import Value as Scalar
from palio.filters.like import LikePattern
from palio.filters.patterns import Computed, Like, Test
from palio.filters.printing import domain_of
from palio.filters.tree import EVERYTHING, NOTHING, Leaf, Node, Or
from palio.filters.values import NO_VALUE, NULLS, PRESENT, STRINGS, ValueSet, union_of
from palio.languages.cesql.types import Type, Value, cast, instant_in, type_of

_Made: TypeAlias = Node | Callable[[], Node]


class Meaning:
    """Where a condition is true, false, and either; each is worked out when asked for, because most never are.

    `conditions` counts the conditions it is made of, `size` those of the tree that it would be written as. Conditions
    of the same `domain` are defined in the same places.
    """

    __slots__ = ("_defined", "_false", "_true", "conditions", "domain", "size")

    def __init__(
        self,
        true: _Made,
        false: _Made,
        defined: _Made,
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

    def negated(self) -> Meaning:
        return Meaning(
            self._false if not callable(self._false) else lambda: self.false,
            self._true if not callable(self._true) else lambda: self.true,
            self._defined if not callable(self._defined) else lambda: self.defined,
            domain=self.domain,
            conditions=self.conditions,
            size=self.size,
        )


ALWAYS: Final = Meaning(EVERYTHING, NOTHING, EVERYTHING)
NEVER: Final = Meaning(NOTHING, EVERYTHING, EVERYTHING)
UNDEFINED: Final = Meaning(NOTHING, NOTHING, NOTHING)

# The types by which an expression sees the values of an event; bytes have none.
BOOLEANS: Final = ValueSet.kinds(Kind.BOOLEAN)
INTEGERS: Final = ValueSet.of({Kind.INTEGER: span(Kind.INTEGER, SMALLEST, LARGEST + 1)})
TYPED: Final = ValueSet.kinds(*(kind for kind in KINDS if kind > Kind.NULL and kind is not Kind.BYTES))


def _all(*sets: ValueSet) -> ValueSet:
    found = union_of(sets)
    assert found is not None  # sets without tests always have a union
    return found


def _without(values: ValueSet, left_out: ValueSet) -> ValueSet:
    return values.intersect(left_out.complement())


NUMERIC: Final = _all(BOOLEANS, INTEGERS)
TEXTS: Final = _without(TYPED, NUMERIC)


def _spellings(word: str) -> ValueSet:
    """The strings that are a word in any case of letters."""
    return ValueSet.points(map("".join, product(*zip(word, word.upper(), strict=True))))


_ZERO: Final = ValueSet.points([0])
_TRUTHS: Final = {
    True: _all(ValueSet.points([True]), _without(INTEGERS, _ZERO), _spellings("true")),
    False: _all(ValueSet.points([False]), _ZERO, _spellings("false")),
}


def _within(name: str, domain: str, defined: ValueSet, true: ValueSet) -> Meaning:
    """A condition that is true for some of the values for which it is defined."""
    return Meaning(
        Leaf(name, true),
        lambda: Leaf(name, _without(defined, true)),
        Leaf(name, defined),
        domain=(name, domain),
    )


def exists(name: str) -> Meaning:
    """EXISTS name."""
    return Meaning(Leaf(name, PRESENT), Leaf(name, NULLS), EVERYTHING)


def truly(name: str) -> Node:
    """Where an attribute, standing for the whole expression, is the Boolean true; nothing is cast there."""
    return Leaf(name, ValueSet.points([True]))


def truth(name: str) -> Meaning:
    """An attribute as an operand of AND, OR and XOR."""
    return _within(name, "truth", _all(*_TRUTHS.values()), _TRUTHS[True])


def truth_for_not(name: str) -> Meaning:
    """An attribute as the operand of NOT, which takes no Integer."""
    true, false = (_without(_TRUTHS[value], INTEGERS) for value in (True, False))
    return _within(name, "not", _all(true, false), true)


# --- comparisons ------------------------------------------------------------------------------------------------

_TYPES: Final = ((Type.BOOLEAN, BOOLEANS), (Type.INTEGER, INTEGERS), (Type.STRING, TEXTS))


def compared(name: str, operator: str, constant: Value) -> Meaning:
    """`name operator constant`: the attribute is cast to the type of the constant."""
    if operator == "<>":
        return compared(name, "=", constant).negated()
    if operator != "=":
        number = cast(constant, Type.INTEGER)
        return UNDEFINED if number is None else _as_integers(name, operator, int(number))
    match type_of(constant):
        case Type.STRING:
            return _within(name, "text", TYPED, values_equal(str(constant)))
        case Type.INTEGER:
            return _as_integers(name, "=", int(constant))
    meant = truth(name)
    return meant if constant else meant.negated()


def compared_after(name: str, operator: str, constant: Value) -> Meaning:
    """`constant operator name`: the constant is cast to the type of the attribute."""
    if operator == "<>":
        return compared_after(name, "=", constant).negated()
    if operator != "=":
        return compared(name, MIRRORED[operator], constant)
    true, defined = [], []
    for type_, within in _TYPES:
        value = cast(constant, type_)
        if value is not None:
            true.append(_equal_to([value]).intersect(within))
            defined.append(within)
    everywhere = _all(*defined)
    return Meaning(
        Leaf(name, _all(*true)), lambda: Leaf(name, _without(everywhere, _all(*true))), Leaf(name, everywhere)
    )


def one_of(name: str, constants: Sequence[Value | None]) -> Meaning:
    """`name IN (constants)`, each cast to the type of the attribute, from left to right; None is one that fails."""
    true, false = [], []
    for type_, within in _TYPES:
        values = [None if each is None else cast(each, type_) for each in constants]
        fails = None in values
        equal = _equal_to(values[: values.index(None)] if fails else values).intersect(within)
        true.append(equal)
        if not fails:
            false.append(_without(within, equal))
    return Meaning(Leaf(name, _all(*true)), Leaf(name, _all(*false)), Leaf(name, _all(*true, *false)))


def _equal_to(values: Iterable[Value | None]) -> ValueSet:
    """What equals one of some values of one type."""
    points: list[Scalar] = []
    for value in values:
        if isinstance(value, str):
            points += equals_of(value)
        elif value is not None:
            points.append(value)
    return ValueSet.points(points)


def _as_integers(name: str, operator: str, number: int) -> Meaning:
    """A comparison of Integers: the attribute's own, those that Booleans count as, and those that texts say."""
    true = compare(operator, number).true
    inside = _all(
        INTEGERS.intersect(true), ValueSet.points(value for value in (False, True) if true.contains(int(value)))
    )
    said = Call("cesql_int", (Attribute(name),))
    condition = Call(operator, (said, Literal(number)))
    return Meaning(
        lambda: Or((Leaf(name, inside), _strings(name, condition, True))),
        lambda: Or((Leaf(name, _without(NUMERIC, inside)), _strings(name, condition, False))),
        lambda: Or((Leaf(name, NUMERIC), _strings(name, Call("isnull", (said,)), False))),
        domain=(name, "integer"),
        size=2,
    )


def _strings(name: str, condition: Call, wants: bool) -> Leaf:
    """The strings for which a condition that only they can satisfy is as wanted."""
    return Leaf(name, ValueSet(STRINGS.parts, frozenset([Test(Computed(condition, wants))])))


# --- texts ------------------------------------------------------------------------------------------------------

_DIGITS: Final = re.compile(r"-?[0-9]+", re.ASCII)
_FRACTION: Final = re.compile(r"-?[0-9]+\.[0-9]+", re.ASCII)
_UNUSUAL: Final = tuple(float(word) for word in ("nan", "inf", "-inf"))


@lru_cache(maxsize=16_384)
def values_equal(text: str) -> ValueSet:
    """All values, of whatever kind, that equal a text."""
    return ValueSet.points(equals_of(text))


def equals_of(text: str) -> list[Scalar]:
    """The values that equal a text: those that have it, and the timestamp that it says in another spelling."""
    return [each for each in _candidates(text) if isinstance(each, datetime) or text_of(each) == text]


def values_written(text: str) -> ValueSet:
    """All values, of whatever kind, that have a text: one of each kind at most."""
    return ValueSet.points(each for each in _candidates(text) if text_of(each) == text)


_OTHER_STARTS: Final = frozenset("-0123456789NItf")


def _candidates(text: str) -> Iterable[Scalar]:
    """The text, and the values of other kinds that may have it too, to be asked for theirs."""
    yield text
    if text[:1] not in _OTHER_STARTS:
        return
    if text in ("true", "false"):
        yield text == "true"
    if len(text) <= 20 and _DIGITS.fullmatch(text) and -(2**63) <= int(text) < 2**63:
        yield int(text)
    if len(text) <= 400 and _FRACTION.fullmatch(text):
        yield float(text)
        if len(text) <= 2 * DIGITS and sum(map(str.isdigit, text.lstrip("-0."))) <= DIGITS:
            yield Decimal(text)
    yield from (each for each in _UNUSUAL if text_of(each) == text)
    if text[:4].isdigit() and (day := _day(text)) is not None:
        yield day
    if text[:4].isdigit() and (instant := instant_in(text)) is not None:
        yield instant


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def like(name: str, pattern: LikePattern) -> Meaning:
    """name LIKE pattern."""
    plain, asked = _plainly_like(pattern), _ask(pattern)
    strings, other_strings = _strings_like(pattern)
    tested = () if asked.is_empty else (asked,)
    return Meaning(
        Or((Leaf(name, plain), Leaf(name, strings), *(_text_like(name, pattern, each, True) for each in tested))),
        lambda: Or(
            (
                Leaf(name, _without(TYPED, _all(STRINGS, plain, asked))),
                Leaf(name, other_strings),
                *(_text_like(name, pattern, each, False) for each in tested),
            )
        ),
        Leaf(name, TYPED),
        domain=(name, "text"),
        size=1 + bool(strings.tests) + len(tested),
    )


def _strings_like(pattern: LikePattern) -> tuple[ValueSet, ValueSet]:
    """The strings that have the form of a pattern, and those that have not."""
    if pattern.shape in ("exact", "prefix"):
        inside = ValueSet.points([pattern.text]) if pattern.shape == "exact" else ValueSet.prefix(pattern.text)
        return inside, _without(STRINGS, inside)
    wanted, unwanted = Test(Like(pattern)), Test(Like(pattern), False)
    return domain_of(wanted).where([wanted]), domain_of(unwanted).where([unwanted])


def _plainly_like(pattern: LikePattern) -> ValueSet:
    """The values other than strings whose texts are known to have the form of a pattern, one by one or all."""
    if pattern.shape == "exact":
        return _without(values_written(pattern.text), STRINGS)
    if not pattern.literals and pattern.shape == "prefix":  # %
        return _without(TYPED, STRINGS)
    return ValueSet.points(each for each in (False, True, *_UNUSUAL) if pattern.matches(text_of(each) or ""))


# The characters of which the texts of a kind are made; what has others can be like none of them.
_CHARACTERS: Final = {
    Kind.INTEGER: frozenset("-0123456789"),
    Kind.DECIMAL: frozenset("-.0123456789"),
    Kind.FLOAT: frozenset("-.0123456789"),  # NaN and the infinities are asked one by one
    Kind.DATE: frozenset("-0123456789"),
    Kind.TIMESTAMP: frozenset("-.0123456789:TZ"),
}


def _ask(pattern: LikePattern) -> ValueSet:
    """The values whose texts may have the form of a pattern and must be asked."""
    if pattern.shape == "exact" or (not pattern.literals and pattern.shape == "prefix"):
        return NO_VALUE
    used = frozenset().union(*pattern.literals)
    asked = ValueSet.kinds(*(kind for kind, known in _CHARACTERS.items() if used <= known))
    return _without(asked, ValueSet.points(_UNUSUAL))


def _text_like(name: str, pattern: LikePattern, asked: ValueSet, wants: bool) -> Node:
    found = computed(Call("like", (Call("cesql_string", (Attribute(name),)), Literal(pattern.sql))), wants)
    assert isinstance(found, Leaf)  # it is about one attribute
    return Leaf(name, found.values.intersect(asked))

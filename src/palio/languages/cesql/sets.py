"""For which values of an attribute is a condition true, and for which false, without any error?

A condition on one attribute is given as a `Meaning`: where it is true, where it is false, and where it is defined,
that is, one of the two. Elsewhere it ends in an error, and a filter that has errors matches nothing.

Sets of values say almost all of it. What a text says as an Integer (`'+05'` is 5) no interval of texts can hold, so
that there the text is asked, by the SQL function `cesql_int`; and so are, by `cesql_string`, the texts of numbers and
times where a pattern has wildcards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import product
from typing import Final, NamedTuple

from palio.events.values import DIGITS
from palio.filters.comparisons import MIRRORED, compare
from palio.filters.computed import computed
from palio.filters.expressions.cloudevents_text import LARGEST, SMALLEST, text_of
from palio.filters.expressions.tree import Attribute, Call, Literal
from palio.filters.intervals import span
from palio.filters.kinds import KINDS, Kind
from palio.filters.kinds import Value as Scalar
from palio.filters.like import LikePattern
from palio.filters.patterns import Like, Test
from palio.filters.printing import domain_of
from palio.filters.tree import EVERYTHING, NOTHING, Leaf, Node, Or
from palio.filters.values import NO_VALUE, NULLS, PRESENT, STRINGS, ValueSet, union_of
from palio.languages.cesql.types import Type, Value, cast, instant_in, type_of


class Meaning(NamedTuple):
    """Where a condition is true, false, and either; and how many conditions of how large a tree it is made of."""

    true: Node
    false: Node
    defined: Node
    conditions: int = 1
    size: int = 1

    def negated(self) -> Meaning:
        return self._replace(true=self.false, false=self.true)


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


_SAYING: Final = {True: _spellings("true"), False: _spellings("false")}
_ZERO: Final = ValueSet.points([0])


def _meaning(name: str, true: ValueSet, false: ValueSet) -> Meaning:
    return Meaning(Leaf(name, true), Leaf(name, false), Leaf(name, _all(true, false)))


def exists(name: str) -> Meaning:
    """EXISTS name."""
    return Meaning(Leaf(name, PRESENT), Leaf(name, NULLS), EVERYTHING)


def is_true(name: str) -> Node:
    """Where an attribute, standing for the whole expression, is the Boolean true; nothing is cast there."""
    return Leaf(name, ValueSet.points([True]))


def truth(name: str) -> Meaning:
    """An attribute as an operand of AND, OR and XOR."""
    true = _all(ValueSet.points([True]), _without(INTEGERS, _ZERO), _SAYING[True])
    return _meaning(name, true, _all(ValueSet.points([False]), _ZERO, _SAYING[False]))


def truth_for_not(name: str) -> Meaning:
    """An attribute as the operand of NOT, which takes no Integer."""
    true, false = (_all(ValueSet.points([value]), _SAYING[value]) for value in (True, False))
    return _meaning(name, true, false)


# --- comparisons ------------------------------------------------------------------------------------------------


def compared(name: str, operator: str, constant: Value) -> Meaning:
    """`name operator constant`: the attribute is cast to the type of the constant."""
    if operator == "<>":
        return compared(name, "=", constant).negated()
    if operator != "=":
        number = cast(constant, Type.INTEGER)
        return UNDEFINED if number is None else _as_integers(name, operator, int(number))
    match type_of(constant):
        case Type.STRING:
            equal = values_equal(str(constant))
            return _meaning(name, equal, _without(TYPED, equal))
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
    for type_, within in ((Type.BOOLEAN, BOOLEANS), (Type.INTEGER, INTEGERS), (Type.STRING, TEXTS)):
        value = cast(constant, type_)
        if value is not None:
            true.append(_equal_within(value, within))
            defined.append(within)
    return _meaning(name, _all(*true), _without(_all(*defined), _all(*true)))


def one_of(name: str, constants: Sequence[Value | None]) -> Meaning:
    """`name IN (constants)`, each cast to the type of the attribute, from left to right; None is one that fails."""
    true, false = [], []
    for type_, within in ((Type.BOOLEAN, BOOLEANS), (Type.INTEGER, INTEGERS), (Type.STRING, TEXTS)):
        values = [None if each is None else cast(each, type_) for each in constants]
        reached = values[: values.index(None)] if None in values else values
        equal = _all(NO_VALUE, *(_equal_within(each, within) for each in reached if each is not None))
        true.append(equal)
        if None not in values:
            false.append(_without(within, equal))
    return _meaning(name, _all(*true), _all(NO_VALUE, *false))


def _equal_within(value: Value, within: ValueSet) -> ValueSet:
    """The values of a type that equal one of this type."""
    return (values_equal(value) if isinstance(value, str) else ValueSet.points([value])).intersect(within)


def _as_integers(name: str, operator: str, number: int) -> Meaning:
    """A comparison of Integers: the attribute's own, those that Booleans count as, and those that texts say."""
    true = compare(operator, number).true
    numbers = INTEGERS.intersect(true)
    truths = ValueSet.points(value for value in (False, True) if true.contains(int(value)))
    inside = _all(numbers, truths)
    said = Call("cesql_int", (Attribute(name),))
    condition = Call(operator, (said, Literal(number)))
    return Meaning(
        Or((Leaf(name, inside), computed(condition, True))),
        Or((Leaf(name, _without(NUMERIC, inside)), computed(condition, False))),
        Or((Leaf(name, NUMERIC), computed(Call("isnull", (said,)), False))),
        size=2,
    )


# --- texts ------------------------------------------------------------------------------------------------------

_FRACTION: Final = re.compile(r"-?[0-9]+\.[0-9]+", re.ASCII)
_UNUSUAL: Final = tuple(float(word) for word in ("nan", "inf", "-inf"))


def values_written(text: str) -> ValueSet:
    """All values, of whatever kind, that have a text: one of each kind at most."""
    return ValueSet.points(each for each in (text, *_candidates(text)) if text_of(each) == text)


def values_equal(text: str) -> ValueSet:
    """All values that equal a text: those that have it, and the timestamp that it says in another spelling."""
    instant = instant_in(text)
    written = values_written(text)
    return written if instant is None else _all(written, ValueSet.points([instant]))


def _candidates(text: str) -> Iterable[Scalar]:
    """The values that may have a text, to be asked for theirs."""
    if text in ("true", "false"):
        yield text == "true"
    if len(text) <= 20 and re.fullmatch(r"-?[0-9]+", text, re.ASCII) and -(2**63) <= int(text) < 2**63:
        yield int(text)
    if len(text) <= 400 and _FRACTION.fullmatch(text):
        yield float(text)
        if len(text) <= 2 * DIGITS and sum(map(str.isdigit, text.lstrip("-0."))) <= DIGITS:
            yield Decimal(text)
    yield from _UNUSUAL
    if (day := _day(text)) is not None:
        yield day
    if (instant := instant_in(text)) is not None:
        yield instant


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def like(name: str, pattern: LikePattern) -> Meaning:
    """name LIKE pattern."""
    plain, asked = _plainly_like(pattern), _ask(pattern)
    rest = _without(TYPED, _all(STRINGS, plain, asked))
    strings, other_strings = _strings_like(pattern)
    texts = [] if asked.is_empty else [_text_like(name, pattern, asked, wants) for wants in (True, False)]
    return Meaning(
        Or((Leaf(name, plain), Leaf(name, strings), *texts[:1])),
        Or((Leaf(name, rest), Leaf(name, other_strings), *texts[1:])),
        Leaf(name, TYPED),
        size=1 + bool(strings.tests) + len(texts[:1]),
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

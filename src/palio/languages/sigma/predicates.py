"""Predicates of Sigma rules: what each kind of value in a rule asks of an attribute or of the event.

The rules that decide are in docs/languages/sigma.md; in short: texts are compared without regard to case, a number and
its text are equal, and null is what is null or missing.

Sigma is two-valued: a predicate that does not hold fails, and a missing attribute fails every predicate but those for
absence. So each predicate has two trees, complements of each other over all kinds of value, missing and null included.

A `ValuePredicate` is a union of an enumerable set, of tests of strings, and of tests of values that are no strings but
have a text (numbers, dates, timestamps). A union of tests is no ValueSet, so it becomes an OR of leaves; its complement
has one leaf per kind of test, however many tests there are.

Whether an event says 4688 or "4688", true or "True", is the shipper's habit and not what the rule is about. So a
pattern is also matched with what `CAST(x AS STRING)` makes of a number, a date or a timestamp. Most patterns hold a
letter or a backslash that no such text has, and then nothing is added.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from palio.events.values import MAX_DECIMAL_DIGITS
from palio.filters.algebra import enumerable_union, opposite, strings_like
from palio.filters.comparisons import OPERATORS, compare
from palio.filters.computed import computed_condition
from palio.filters.expressions.ast import Attribute, Call, Expression, Literal
from palio.filters.expressions.text_cast import WORD_VALUES, may_occur_in_number
from palio.filters.kinds import Kind
from palio.filters.like import ANY_CHARACTER, ANY_TEXT, Gap, LikePattern
from palio.filters.regex import Regex
from palio.filters.tree import And, Leaf, Node, Or, domain_of
from palio.filters.value_predicates import Computed, Rlike, Test
from palio.filters.value_sets import NO_VALUE, NULLS, PRESENT, STRINGS, ValueSet
from palio.languages.sigma.pcre import to_java

if TYPE_CHECKING:
    from sigma.types import (
        SigmaCompareExpression,
        SigmaFieldReference,
        SigmaRegularExpression,
        SigmaString,
        SigmaTimestampPart,
        SigmaType,
    )


# The kinds other than strings whose values have a text. Truth values are not among them: they are two, and listed.
_NON_STRINGS_WITH_TEXT = ValueSet.kinds(Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP)
_WITHOUT_TEXT = ValueSet.kinds(Kind.MISSING, Kind.NULL, Kind.BOOLEAN, Kind.BYTES)


class Predicate(Protocol):
    """The trees where a predicate holds and where it fails."""

    @property
    def holds(self) -> Node: ...

    @property
    def fails(self) -> Node: ...


@dataclass(frozen=True)
class ValuePredicate:
    """One attribute has one of some values."""

    attribute: str
    plain: ValueSet = NO_VALUE
    strings: tuple[Test, ...] = ()
    text_tests: tuple[Test, ...] = ()

    @classmethod
    def any_of(cls, predicates: Sequence[ValuePredicate]) -> ValuePredicate:
        """Any of some predicates of one attribute; united at once, because a list may have a thousand values."""
        if len(predicates) == 1:
            return predicates[0]
        plain = [each.plain for each in predicates if each.plain is not NO_VALUE]
        return cls(
            predicates[0].attribute,
            enumerable_union(*plain) if plain else NO_VALUE,
            tuple(test for each in predicates for test in each.strings),
            tuple(test for each in predicates for test in each.text_tests),
        )

    @property
    def holds(self) -> Node:
        sets = [] if self.plain is NO_VALUE else [self.plain]
        sets += [(STRINGS if _is_comparison(test) else domain_of(test)).where([test]) for test in self.strings]
        sets += [_NON_STRINGS_WITH_TEXT.where([test]) for test in self.text_tests]
        return Or(tuple(Leaf(self.attribute, each) for each in sets))

    @property
    def fails(self) -> Node:
        # Outside the enumerable set, a value fails if it fails all tests of its kind: one set for strings, one for
        # other values with a text, one for values that are not tested.
        outside = self.plain.complement()
        sets = [
            outside.intersect(kinds).where(map(_negate, tests))
            for kinds, tests in (
                (STRINGS, self.strings),
                (_NON_STRINGS_WITH_TEXT, self.text_tests),
                (_WITHOUT_TEXT, ()),
            )
        ]
        return Or(tuple(Leaf(self.attribute, each) for each in sets))


def _negate(test: Test) -> Test:
    """The test that passes where this one does not, among strings or other values that have a text.

    A comparison may also be NULL, where a text is no number; a pattern is TRUE or FALSE.
    """
    if isinstance(test.pattern, Computed) and _is_comparison(test):
        return Test(replace(test.pattern, expression=Call("istrue", (test.pattern.expression,)), wants=False))
    return opposite(test)


def _is_comparison(test: Test) -> bool:
    """Whether a test reads a string as a number and compares it; numbers themselves are in the enumerable set."""
    match test.pattern:
        case Computed(Call(function)):
            return function in OPERATORS
    return False


@dataclass(frozen=True)
class AllPredicates:
    """All of some predicates hold."""

    predicates: tuple[Predicate, ...]

    @property
    def holds(self) -> Node:
        return And(tuple(each.holds for each in self.predicates))

    @property
    def fails(self) -> Node:
        return Or(tuple(each.fails for each in self.predicates))


@dataclass(frozen=True)
class ComputedPredicate:
    """An expression over some attributes, or over all of the event, is TRUE."""

    expression: Call
    timezone: str = "UTC"

    @property
    def holds(self) -> Node:
        return computed_condition(self.expression, timezone=self.timezone)

    @property
    def fails(self) -> Node:
        # NULL, as for a missing attribute, fails too: IS TRUE makes it FALSE.
        return computed_condition(Call("istrue", (self.expression,)), wants=False, timezone=self.timezone)


@dataclass(frozen=True)
class EventSearchPredicate:
    """Some value of the event, whatever its attribute, is accepted: TRUE or FALSE, never NULL."""

    expression: Call

    @property
    def holds(self) -> Node:
        return computed_condition(self.expression)

    @property
    def fails(self) -> Node:
        return computed_condition(self.expression, wants=False)


def words_accepted(accepts: Callable[[str], bool]) -> ValueSet:
    """The values whose text is an accepted word: truth values, NaN and the infinities."""
    return ValueSet.points(value for word, value in WORD_VALUES.items() if accepts(word))


def text_test(attribute: str, function: str, pattern: str) -> Test:
    """The test of a value's text with LIKE, ILIKE or RLIKE."""
    return Test(Computed(Call(function, (_text_of(attribute), Literal(pattern)))))


_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_MISSING: Final = ValueSet.kinds(Kind.MISSING)
_EXISTING: Final = _MISSING.complement()
_OPERATORS: Final = {"LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=", "NEQ": "<>"}
_TIMESTAMP_PARTS: Final = {
    "MINUTE": "minute",
    "HOUR": "hour",
    "DAY": "dayofmonth",
    "WEEK": "weekofyear",
    "MONTH": "month",
    "YEAR": "year",
}


def predicate_of(attribute: str, value: SigmaType, timezone: str) -> Predicate:
    """The predicate of a value that is no text; ValueError with the reason where it is not supported."""
    from sigma import types

    match value:
        case types.SigmaNull():
            return ValuePredicate(attribute, NULLS)
        case types.SigmaExists():
            return ValuePredicate(attribute, _EXISTING if value.exists else _MISSING)
        case types.SigmaBool():
            return text_predicate(attribute, LikePattern.parse(str(value.boolean), ignore_case=True))
        case types.SigmaTimestampPart():
            return _timestamp_part_predicate(attribute, "=", value, timezone)
        case types.SigmaNumber():
            return _number_predicate(attribute, value.number)
        case types.SigmaRegularExpression():
            return _regex_predicate(attribute, regex_of(value))
        case types.SigmaCIDRExpression():
            return _network_predicate(attribute, str(value.network))
        case types.SigmaCompareExpression():
            return _comparison_predicate(attribute, value, timezone)
        case types.SigmaFieldReference():
            raise TypeError("a field reference names a second field, which is looked up first")
    raise ValueError(f"values of the kind {type(value).__name__} are not supported")


def event_search(value: SigmaType) -> Predicate:
    """The predicate of a value on the whole event; ValueError with the reason where it is not supported."""
    from sigma import types

    match value:
        case types.SigmaString():
            pattern = pattern_of(value, anywhere=True)
            function = "any_value_ilike" if pattern.ignore_case else "any_value_like"
            return EventSearchPredicate(Call(function, (Literal(pattern.sql),)))
        case types.SigmaNumber() | types.SigmaBool():
            pattern = LikePattern.parse(f"%{value}%", ignore_case=True)
            return EventSearchPredicate(Call("any_value_ilike", (Literal(pattern.sql),)))
        case types.SigmaRegularExpression():
            return EventSearchPredicate(Call("any_value_rlike", (Literal(regex_of(value).text),)))
    raise ValueError("the whole event is searched for texts and regular expressions; this needs the name of a field")


def field_reference(attribute: str, reference: SigmaFieldReference, other: str, cased: bool) -> Predicate:
    """One field's text is, begins with, ends with or contains another's, with or without regard to case."""
    mine, theirs = (_text_of(each) if cased else Call("lower", (_text_of(each),)) for each in (attribute, other))
    function = {
        (True, True): "contains",
        (True, False): "startswith",
        (False, True): "endswith",
        (False, False): "=",
    }[reference.starts_with, reference.ends_with]
    return ComputedPredicate(Call(function, (mine, theirs)))


def _text_of(attribute: str) -> Expression:
    return Call("cast", (Attribute(attribute), Literal("string")))


def pattern_of(value: SigmaString, anywhere: bool = False) -> LikePattern:
    """A text with wildcards as a LIKE pattern; without regard to case unless it says otherwise."""
    tokens: list[str | Gap] = [ANY_TEXT] if anywhere else []
    for part in value.s:
        if isinstance(part, str):
            tokens.append(part)
        elif type(part).__name__ == "Placeholder":
            raise ValueError(
                f"the placeholder %{part.name}% stands for values that the rule does not give; write them in its place"
            )
        else:
            tokens.append(ANY_TEXT if part.name == "WILDCARD_MULTI" else ANY_CHARACTER)
    if anywhere:
        tokens.append(ANY_TEXT)
    return _pattern(tuple(tokens), type(value).__name__ != "SigmaCasedString")


@lru_cache(maxsize=16_384)  # rules of one collection have half of their texts in common
def _pattern(tokens: tuple[str | Gap, ...], ignore_case: bool) -> LikePattern:
    return LikePattern.of(tokens, ignore_case)


def regex_of(value: SigmaRegularExpression) -> Regex:
    """A regular expression with its flags; ValueError says what in it is not supported."""
    if value.contains_placeholder():
        raise ValueError("the expression has a placeholder that stands for values which the rule does not give")
    flags = frozenset(value.sigma_to_re_flag[flag] for flag in value.flags)
    return Regex.compile(to_java(str(value.regexp), flags))


def text_predicate(attribute: str, pattern: LikePattern) -> ValuePredicate:
    """The strings that match a pattern, and the values of other kinds whose text matches it."""
    plain, strings, reads_text = _values_like(pattern)
    text_tests = (text_test(attribute, "ilike" if pattern.ignore_case else "like", pattern.sql),) if reads_text else ()
    return ValuePredicate(attribute, plain, strings, text_tests)


@lru_cache(maxsize=16_384)
def _values_like(pattern: LikePattern) -> tuple[ValueSet, tuple[Test, ...], bool]:
    """The enumerable values that match a pattern, the tests of strings, and whether texts of numbers are tested too."""
    if pattern.matches_every_string:  # *: anything, bytes included, which have no text
        return PRESENT, (), False
    like = strings_like(pattern)
    sets = [like] if like.is_enumerable else []
    is_number = pattern.shape == "exact" and _is_number(pattern.text)
    if is_number:
        sets.append(_equal_numbers(pattern.text))
    if _may_match_a_word(pattern):
        sets.append(words_accepted(pattern.matches))
    # A pattern with a letter or backslash, as most have, matches no number and no time, and needs no such test.
    reads_text = not is_number and bool(pattern.tokens) and all(map(may_occur_in_number, pattern.literals))
    plain = NO_VALUE if not sets else sets[0] if len(sets) == 1 else enumerable_union(*sets)
    return plain, () if like.is_enumerable else tuple(like.tests), reads_text


_WORDS: Final = "\n".join(WORD_VALUES)
_LOWERED_WORDS: Final = _WORDS.lower()


def _may_match_a_word(pattern: LikePattern) -> bool:
    words = _LOWERED_WORDS if pattern.ignore_case else _WORDS
    return all(run in words for run in pattern.literals)


def _is_number(text: str) -> bool:
    return len(text) <= MAX_DECIMAL_DIGITS and _NUMBER.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def _equal_numbers(text: str) -> ValueSet:
    return compare("=", Decimal(text)).true


def _number_predicate(attribute: str, number: int | float) -> ValuePredicate:
    """Every number equal to a number, and the strings that are its text."""
    written = text_predicate(attribute, LikePattern.parse(str(number), ignore_case=True))
    return ValuePredicate.any_of([written, ValuePredicate(attribute, _equal_to_number(number))])


@lru_cache(maxsize=4096)
def _equal_to_number(number: int | float) -> ValueSet:
    return compare("=", _number_literal(number)).true


def _number_literal(number: int | float) -> Decimal | float:
    """A number of a rule, exact where a decimal can hold it."""
    return Decimal(str(number)) if len(str(number)) <= MAX_DECIMAL_DIGITS else float(number)


def _regex_predicate(attribute: str, regex: Regex) -> ValuePredicate:
    text_tests: tuple[Test, ...] = ()
    if may_occur_in_number(regex.required):
        text_tests = (text_test(attribute, "rlike", regex.text),)
    return ValuePredicate(attribute, words_accepted(regex.search), (Test(Rlike(regex)),), text_tests)


def _network_predicate(attribute: str, network: str) -> ValuePredicate:
    inside = Call("ip_in_network", (Attribute(attribute), Literal(network)))
    return ValuePredicate(attribute, strings=(Test(Computed(inside)),))


def _comparison_predicate(attribute: str, comparison: SigmaCompareExpression, timezone: str) -> Predicate:
    """An attribute compared with a number; a string is read as a number where it is one."""
    from sigma.types import SigmaTimestampPart

    operator = _OPERATORS[comparison.op.name]
    number = comparison.number
    if isinstance(number, SigmaTimestampPart):
        return _timestamp_part_predicate(attribute, operator, number, timezone)
    read = Call("cast", (Attribute(attribute), Literal("double")))
    test = Test(Computed(Call(operator, (read, Literal(float(number.number))))))
    return ValuePredicate(attribute, compare(operator, _number_literal(number.number)).true, strings=(test,))


def _timestamp_part_predicate(attribute: str, operator: str, part: SigmaTimestampPart, timezone: str) -> Predicate:
    """A part of a timestamp, such as its hour, compared; a string is read as a timestamp where it is one."""
    moment = Call("cast", (Attribute(attribute), Literal("timestamp")))
    value = Call(_TIMESTAMP_PARTS[part.timestamp_part.name], (moment,))
    return ComputedPredicate(Call(operator, (value, Literal(part.number))), timezone)

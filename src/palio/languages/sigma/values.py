"""What each kind of value in a rule means of an attribute: texts with wildcards, numbers, networks, other fields.

The rules that decide are in docs/languages/sigma.md; in short: texts are compared without regard to case, a number and
its text are the same thing, and null is what is null or missing.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from palio.filters.comparisons import compare
from palio.filters.expressions.tree import Attribute, Call, Expression, Literal
from palio.filters.kinds import Kind
from palio.filters.like import Gap, LikePattern
from palio.filters.patterns import Computed, Like, Matching, Test
from palio.filters.regex import Regex
from palio.filters.texts import may_be_numeric
from palio.filters.values import NO_VALUE, NULLS, PRESENT, ValueSet, union_of
from palio.languages.sigma.meanings import Computation, Meaning, Search, Values
from palio.languages.sigma.pcre import to_java
from palio.languages.sigma.texts import text_test, words_accepted

if TYPE_CHECKING:
    from sigma.types import (
        SigmaCompareExpression,
        SigmaFieldReference,
        SigmaRegularExpression,
        SigmaString,
        SigmaTimestampPart,
        SigmaType,
    )

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_MOST_DIGITS: Final = 38  # of a decimal
_MISSING: Final = ValueSet.kinds(Kind.MISSING)
_THERE: Final = _MISSING.complement()
_OPERATORS: Final = {"LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=", "NEQ": "<>"}
_PARTS: Final = {
    "MINUTE": "minute",
    "HOUR": "hour",
    "DAY": "dayofmonth",
    "WEEK": "weekofyear",
    "MONTH": "month",
    "YEAR": "year",
}


def meaning_of(attribute: str, value: SigmaType, timezone: str) -> Meaning:
    """What a value of a rule asks of an attribute; ValueError says why it cannot be asked."""
    from sigma import types

    match value:
        case types.SigmaNull():
            return Values(attribute, NULLS)
        case types.SigmaExists():
            return Values(attribute, _THERE if value.exists else _MISSING)
        case types.SigmaBool():
            return _of_text(attribute, LikePattern.parse(str(value.boolean), ignore_case=True))
        case types.SigmaTimestampPart():
            return _of_moment(attribute, "=", value, timezone)
        case types.SigmaNumber():
            return _of_number(attribute, value.number)
        case types.SigmaString():
            return _of_text(attribute, pattern_of(value))
        case types.SigmaRegularExpression():
            return _of_expression(attribute, expression_of(value))
        case types.SigmaCIDRExpression():
            return _within(attribute, str(value.network))
        case types.SigmaCompareExpression():
            return _compared(attribute, value, timezone)
        case types.SigmaFieldReference():
            raise TypeError("a field reference names a second field, which is looked up first")
    raise ValueError(f"values of the kind {type(value).__name__} are not supported")


def search_for(value: SigmaType) -> Meaning:
    """What a value asks of the whole event; ValueError says why it cannot be asked."""
    from sigma import types

    match value:
        case types.SigmaString():
            pattern = pattern_of(value, anywhere=True)
            function = "any_value_ilike" if pattern.ignore_case else "any_value_like"
            return Search(Call(function, (Literal(pattern.sql),)))
        case types.SigmaNumber() | types.SigmaBool():
            pattern = LikePattern.parse(f"%{value}%", ignore_case=True)
            return Search(Call("any_value_ilike", (Literal(pattern.sql),)))
        case types.SigmaRegularExpression():
            return Search(Call("any_value_rlike", (Literal(expression_of(value).text),)))
    raise ValueError("the whole event is searched for texts and regular expressions; this needs the name of a field")


def refers_to(attribute: str, reference: SigmaFieldReference, other: str, cased: bool) -> Meaning:
    """One field's text is, begins with, ends with or contains another's, with or without regard to case."""
    mine, theirs = (_text_of(each) if cased else Call("lower", (_text_of(each),)) for each in (attribute, other))
    function = {
        (True, True): "contains",
        (True, False): "startswith",
        (False, True): "endswith",
        (False, False): "=",
    }[reference.starts_with, reference.ends_with]
    return Computation(Call(function, (mine, theirs)))


def _text_of(attribute: str) -> Expression:
    return Call("cast", (Attribute(attribute), Literal("string")))


def pattern_of(value: SigmaString, anywhere: bool = False) -> LikePattern:
    """A text with wildcards as a LIKE pattern; without regard to case unless it says otherwise."""
    from sigma.types import Placeholder, SigmaCasedString, SpecialChars

    written: list[str] = []
    for part in value.s:
        if isinstance(part, Placeholder):
            raise ValueError(
                f"the placeholder %{part.name}% stands for values that the rule does not give; write them in its place"
            )
        if isinstance(part, SpecialChars):
            written.append("%" if part is SpecialChars.WILDCARD_MULTI else "_")
        else:
            written.append(_literal(part))
    text = "".join(written)
    return LikePattern.parse(f"%{text}%" if anywhere else text, ignore_case=not isinstance(value, SigmaCasedString))


def _literal(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def expression_of(value: SigmaRegularExpression) -> Regex:
    """A regular expression with its flags; ValueError says what in it is not supported."""
    if value.contains_placeholder():
        raise ValueError("the expression has a placeholder that stands for values which the rule does not give")
    flags = frozenset(value.sigma_to_re_flag[flag] for flag in value.flags)
    return Regex.compile(to_java(str(value.regexp), flags))


def _of_text(attribute: str, pattern: LikePattern) -> Values:
    """Strings of a form, and values that are no strings whose text has it."""
    if pattern.tokens == (Gap(0, True),):
        return Values(attribute, PRESENT)
    plain, tests = _strings_like(pattern)
    is_number = pattern.shape == "exact" and _is_number(pattern.text)
    others = _equal_numbers(pattern.text) if is_number else NO_VALUE
    texted: tuple[Test, ...] = ()
    if not is_number and pattern.tokens and all(map(may_be_numeric, pattern.literals)):
        texted = (text_test(attribute, "ilike" if pattern.ignore_case else "like", pattern.sql),)
    return Values(attribute, _union(plain, others, words_accepted(pattern.matches)), tests, texted)


@lru_cache(maxsize=16_384)
def _strings_like(pattern: LikePattern) -> tuple[ValueSet, tuple[Test, ...]]:
    """The strings of a form, as a set where it can be said, else as a test."""
    if pattern.shape in ("exact", "prefix") and not (pattern.ignore_case and _has_case(pattern.text)):
        made = ValueSet.points([pattern.text]) if pattern.shape == "exact" else ValueSet.prefix(pattern.text)
        return made, ()
    return NO_VALUE, (Test(Like(pattern)),)


def _has_case(lowered: str) -> bool:
    """Whether a lowered text may be the lower case of another one."""
    return not lowered.isascii() or lowered != lowered.upper()


def _is_number(text: str) -> bool:
    return len(text) <= _MOST_DIGITS and _NUMBER.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def _equal_numbers(text: str) -> ValueSet:
    return compare("=", Decimal(text)).true


def _of_number(attribute: str, number: int | float) -> Values:
    """Every number equal to it, and its text."""
    written = _of_text(attribute, LikePattern.parse(str(number), ignore_case=True))
    equal = compare("=", Decimal(str(number)) if len(str(number)) <= _MOST_DIGITS else float(number)).true
    return written.union(Values(attribute, equal))


def _of_expression(attribute: str, regex: Regex) -> Values:
    texted: tuple[Test, ...] = ()
    if may_be_numeric(regex.required):
        texted = (text_test(attribute, "rlike", regex.text),)
    return Values(attribute, words_accepted(regex.search), (Test(Matching(regex)),), texted)


def _within(attribute: str, network: str) -> Values:
    inside = Call("ip_in_network", (Attribute(attribute), Literal(network)))
    return Values(attribute, strings=(Test(Computed(inside)),))


def _compared(attribute: str, comparison: SigmaCompareExpression, timezone: str) -> Meaning:
    """A number in an order; a text is read as a number where it is one."""
    from sigma.types import SigmaTimestampPart

    operator = _OPERATORS[comparison.op.name]
    number = comparison.number
    if isinstance(number, SigmaTimestampPart):
        return _of_moment(attribute, operator, number, timezone)
    literal = Decimal(str(number.number)) if len(str(number.number)) <= _MOST_DIGITS else float(number.number)
    read = Call("cast", (Attribute(attribute), Literal("double")))
    test = Test(Computed(Call(operator, (read, Literal(float(number.number))))))
    return Values(attribute, compare(operator, literal).true, strings=(test,))


def _of_moment(attribute: str, operator: str, part: SigmaTimestampPart, timezone: str) -> Meaning:
    """A part of a moment, such as its hour; a text is read as a moment where it is one."""
    moment = Call("cast", (Attribute(attribute), Literal("timestamp")))
    found = Call(_PARTS[part.timestamp_part.name], (moment,))
    return Computation(Call(operator, (found, Literal(part.number))), timezone)


def _union(*sets: ValueSet) -> ValueSet:
    made = union_of(sets)
    assert made is not None  # none of them has tests
    return made

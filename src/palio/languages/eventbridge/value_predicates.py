"""Tests of single values: the sets of values for which a test holds, and for which it fails.

Patterns are two-valued, so the two sets together hold all values, null among them; a missing attribute has no value and
is tested by `exists`. Most tests are enumerable sets. Those that must be evaluated (suffixes, wildcards, strings
without regard to case) fail for every value that is not a string.

Case is ignored as `ILIKE` ignores it where the text of the pattern is ASCII. Other letters have upper and lower
forms that depend on their place (σ and ς) or have another length (ß and SS); EventBridge takes each letter of the
pattern for itself, in its lower and in its upper form, and that is written as a regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from palio.filters.algebra import strings_like
from palio.filters.computed import computed_condition
from palio.filters.expressions.ast import Attribute, Call, Literal
from palio.filters.kinds import Kind
from palio.filters.like import LikePattern
from palio.filters.regex import Regex
from palio.filters.tree import Leaf
from palio.filters.value_predicates import Rlike, Test
from palio.filters.value_sets import NO_VALUE, STRINGS, ValueSet, intersection_of, union_of

ABSENT: Final = ValueSet.kinds(Kind.MISSING)
EXISTING: Final = ABSENT.complement()
_NON_STRINGS: Final = EXISTING.intersect(STRINGS.complement())


@dataclass(frozen=True, slots=True)
class ValueTest:
    """The sets in whose union a test of a value holds, and those in whose union it fails."""

    inside: tuple[ValueSet, ...]
    outside: tuple[ValueSet, ...]

    @property
    def negation(self) -> ValueTest:
        return ValueTest(self.outside, self.inside)


def within(values: ValueSet) -> ValueTest:
    """A value is in an enumerable set."""
    return ValueTest((values,), (EXISTING.intersect(values.complement()),))


ANYTHING: Final = within(EXISTING)


def exactly(values: Iterable[str | bool | None]) -> ValueTest:
    """A value is one of these, and of the same kind."""
    return within(ValueSet.points(values))


def like(pattern: LikePattern) -> ValueTest:
    """A string matches a LIKE pattern."""
    strings = strings_like(pattern)
    if strings.is_enumerable:
        return within(strings)
    return ValueTest((strings,), (_NON_STRINGS, strings_like(pattern, wanted=False)))


def matching(expression: str) -> ValueTest:
    """A part of a string matches a regular expression."""
    regex = Rlike(Regex.compile(expression))
    return ValueTest((STRINGS.where([Test(regex)]),), (_NON_STRINGS, STRINGS.where([Test(regex, False)])))


def in_network(name: str, network: str) -> ValueTest:
    """The string at a name is an address within a network; the test is bound to the name, as all computed ones are."""
    call = Call("ip_in_network", (Attribute(name), Literal(network)))
    passed, failed = computed_condition(call), computed_condition(call, wants=False)
    assert isinstance(passed, Leaf)  # it reads one attribute
    assert isinstance(failed, Leaf)
    return ValueTest((passed.values,), (_NON_STRINGS, failed.values))


def none_of(excluded: list[ValueTest]) -> ValueTest:
    """A value exists, and none of these tests holds for it; each of them holds in one set, or in enumerable ones."""
    inside = [values for each in excluded for values in each.inside]
    plain = union_of(values for values in inside if values.is_enumerable) or NO_VALUE
    tested = [values for values in inside if not values.is_enumerable]
    if not tested:
        return within(plain).negation
    # Such a test comes from `like` or `matching`: outside[0] are the values of other kinds, outside[1] the strings.
    failed = [each.outside[1] for each in excluded if not each.inside[0].is_enumerable]
    strings = intersection_of([STRINGS.intersect(plain.complement()), *failed])
    others = _NON_STRINGS.intersect(plain.complement())
    return ValueTest((others, strings), (plain, *tested))


_WILDCARD: Final = re.compile(r"\\(.?)|\*|[^\\*]+", re.DOTALL)


def prefix(text: str) -> ValueTest:
    return like(LikePattern.starting(text))


def suffix(text: str) -> ValueTest:
    return like(LikePattern.ending(text))


def wildcard(text: str) -> ValueTest:
    """`*` stands for any characters; ValueError says what is wrong with the text."""
    written: list[str] = []
    for found in _WILDCARD.finditer(text):
        piece = found.group()
        if piece == "*":
            if written and written[-1] == "%":
                raise ValueError("two wildcards * side by side")
            written.append("%")
        elif piece[0] == "\\":
            if found.group(1) not in ("*", "\\"):
                raise ValueError("a backslash that is not followed by * or by another backslash")
            written.append(_literal(found.group(1)))
        else:
            written.append(_literal(piece))
    return like(LikePattern.parse("".join(written)))


def equals_ignoring_case(text: str) -> ValueTest:
    return _ignoring_case(text, "", "")


def prefix_ignoring_case(text: str) -> ValueTest:
    return _ignoring_case(text, "", "%")


def suffix_ignoring_case(text: str) -> ValueTest:
    return _ignoring_case(text, "%", "")


def _ignoring_case(text: str, before: str, after: str) -> ValueTest:
    # A text without letters of two cases may be an enumerable set.
    if not any(letter.lower() != letter.upper() for letter in text):
        return like(LikePattern.parse(f"{before}{_literal(text)}{after}"))
    if text.isascii():
        return like(LikePattern.parse(f"{before}{_literal(text)}{after}", ignore_case=True))
    start, end = "" if before else r"\A", "" if after else r"\z"
    return matching(f"{start}{''.join(map(_either_case, text))}{end}")


def _either_case(letter: str) -> str:
    forms = dict.fromkeys((letter.lower(), letter.upper()))
    # Beyond the basic plane EventBridge sees surrogates, one at a time, which have no case.
    if len(forms) == 1 or ord(letter) > 0xFFFF:
        return _quoted(letter)
    return f"(?:{'|'.join(map(_quoted, forms))})"


def _quoted(text: str) -> str:
    return "".join(f"\\{each}" if each.isascii() and not each.isalnum() else each for each in text)


def _literal(text: str) -> str:
    return re.sub(r"[\\%_]", r"\\\g<0>", text)

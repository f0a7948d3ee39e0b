"""Costs of patterns: how many times the cost of an equality a LIKE or RLIKE costs an event.

A pattern is filed under a text that every match has (`pattern_table`). The values of a batch are searched for all texts
at once, and a pattern that is more than its text is tried on the values that have it. So it costs its share of the
search, and one trial for each value that has the text; how many values do depends on its length, and on whether they
must begin with it. The figures were measured with ten thousand patterns on names of twelve letters of which there are
ten; they say of which order a cost is.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from palio.filters.like import LikePattern
from palio.filters.position_automaton import MAX_POSITIONS
from palio.filters.regex_outline import outline
from palio.filters.regex_skeleton import RegexSkeleton
from palio.filters.value_predicates import Like, Pattern, Rlike

MAX_FAST_COST: Final = 10
"""In equalities; a condition that costs more is slow."""
_EQUALITY_NANOSECONDS: Final = 0.02
_SEARCH_COST: Final = 3  # the share of the search for texts, in equalities
_LIKE_NANOSECONDS: Final = 10  # of a trial
_PROGRAM_NANOSECONDS: Final = 100
_ENGINE_NANOSECONDS: Final = 3_000
_LETTERS: Final = 10.0
_PLACES: Final = 10  # of a text in a value, where it may stand anywhere
_MAX_SKELETONS: Final = 4_096


class PatternCost(NamedTuple):
    """What a pattern costs, and why; no reason where it is fast."""

    times: int
    reason: str = ""
    remedy: str = ""

    @property
    def is_slow(self) -> bool:
        return self.times > MAX_FAST_COST


_WITHOUT_TEXT: Final = "has no fixed text to look for: tried on each {values}", "write a text that every match has"
_SHORT_TEXT: Final = "has no fixed text longer than a character: tried on nearly each {values}", "write a longer text"


def pattern_cost(pattern: Pattern) -> PatternCost:
    """The cost of a pattern; its reason has `{values}` where the values that it is tried on are named."""
    match pattern:
        case Like(like):
            return _cost_of_like(like)
        case Rlike(regex):
            return _cost_of_regex(regex.split[0])
    return PatternCost(_SEARCH_COST)


def _cost_of_like(pattern: LikePattern) -> PatternCost:
    literals = pattern.literals
    if not literals:
        return _tried(1.0, _LIKE_NANOSECONDS, *_WITHOUT_TEXT)
    if pattern.shape != "general":
        return PatternCost(_SEARCH_COST)  # it is nothing but its text
    ends = pattern.tokens[0], pattern.tokens[-1]
    share = min(_share([(text, text in ends)]) for text in literals)
    return _tried(share, _LIKE_NANOSECONDS, *_reason(max(literals, key=len)))


@lru_cache(_MAX_SKELETONS)
def _cost_of_regex(skeleton: RegexSkeleton) -> PatternCost:
    """The cost of all expressions that differ in their literal characters alone."""
    clauses, automaton = outline(skeleton.text)
    if not clauses:
        return _tried(1.0, _PROGRAM_NANOSECONDS if automaton else _ENGINE_NANOSECONDS, *_WITHOUT_TEXT)
    share = min(map(_share, clauses))
    if automaton is None:
        reason = (
            f"has more than {MAX_POSITIONS} characters with its repetitions written out, or a \\B: tried one by one on "
            "each {values} with its fixed text"
        )
        return _tried(share, _ENGINE_NANOSECONDS, reason, "write fewer repetitions")
    if not any(each not in "^$" for each in skeleton.kept):
        return PatternCost(_SEARCH_COST)
    longest = max((text for clause in clauses for text, _ in clause), key=len)
    return _tried(share, _PROGRAM_NANOSECONDS, *_reason(longest))


def _reason(longest: str) -> tuple[str, str]:
    if len(longest) == 1:
        return _SHORT_TEXT
    reason = f"is tried on each {{values}} with its fixed text, which has {len(longest)} characters"
    return reason, "write a longer text that every match has, or say with ^ that a value begins with it"


def _share(literals: Iterable[tuple[str, bool]]) -> float:
    """The share of values that have one of some texts, each at an end or anywhere."""
    return min(1.0, sum((1 if is_at_end else _PLACES) / _LETTERS ** len(text) for text, is_at_end in literals))


def _tried(share: float, nanoseconds: float, reason: str, remedy: str) -> PatternCost:
    times = round(_SEARCH_COST + share * nanoseconds / _EQUALITY_NANOSECONDS)
    return PatternCost(times, reason, remedy) if times > MAX_FAST_COST else PatternCost(times)

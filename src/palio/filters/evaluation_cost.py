"""Cost of evaluating a condition, at worst, in steps for each character of a text.

A broker evaluates the conditions of strangers on the events of strangers, up to a megabyte long. What a condition costs
there must be known when it is subscribed to, not when the broker stands still. Each pattern and each function of a
condition reads a text once, so that costs add up: a step is about three nanoseconds for a character, and an evaluation
on the largest event takes as many times three milliseconds. Comparisons, numbers and times cost nothing that counts.

The weights are measured (`benchmarks/condition_costs.py`). A regular expression that has a small automaton reads a text
in one step for a character; any other takes as many as it has characters with its repetitions written out. What takes
more than MAX_CALL_STEPS is limited when it is evaluated (`work_limit`), and counts as that many.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from palio.filters.expressions.ast import Call, Expression, Literal, walk
from palio.filters.filter import Filter
from palio.filters.like import LikePattern
from palio.filters.regex import Regex
from palio.filters.tree import Leaf, leaves
from palio.filters.value_predicates import Computed, Like, Rlike, XPath
from palio.filters.work_limit import STEPS_PER_CHARACTER
from palio.filters.xml_text import PARSER_STEPS, PATTERN_STEPS
from palio.xml.pattern import Pattern as TreePattern

MAX_CALL_STEPS: Final = 16
"""Steps for each character of the largest text that one search or call may take: about fifty milliseconds."""
_LIKE_STEPS: Final = 0.05
_ILIKE_STEPS: Final = 0.1  # with the lower case of the text
_CALL_STEPS: Final = 1.0  # of a function of texts without a weight of its own
_MATCH_STEPS: Final = 2.0  # of RE2 with groups
_ALL_MATCHES_FUNCTIONS: Final = frozenset("regexp_count regexp_replace split_contains split_element split_size".split())
_MATCH_FUNCTIONS: Final = _ALL_MATCHES_FUNCTIONS | frozenset("regexp_extract regexp_instr regexp_substr".split())
_TEXT_FUNCTIONS: Final = frozenset(
    (
        "bit_length btrim cast concat concat_ws contains decode encode hex lpad ltrim locate lower md5 octet_length "
        "overlay repeat replace reverse rpad rtrim sha1 sha2 split_part substring trim unhex upper"
    ).split()
)


_NOTED_FUNCTIONS: Final = frozenset(("exists()", "forall()"))  # of arrays, not of texts; limited all the same


class PartCost(NamedTuple):
    """A pattern or function of a condition, and the steps that it counts."""

    name: str
    noted: str
    """By which a `WorkLimit` notes it."""
    steps: float
    size: int = 0
    """Of a pattern that takes as many steps for a character as it is large."""


_NOTHING: Final = PartCost("", "", 0.0)


class EvaluationCost(NamedTuple):
    """The patterns and functions of a condition that cost anything."""

    parts: tuple[PartCost, ...]

    @property
    def steps(self) -> float:
        """Steps for each character of a text."""
        return sum(part.steps for part in self.parts)

    @property
    def costliest(self) -> PartCost:
        """What takes most of the steps."""
        return max(self.parts, key=lambda part: part.steps, default=_NOTHING)

    @property
    def largest(self) -> PartCost:
        """The largest of the patterns that take as many steps for a character as they are large."""
        return max(self.parts, key=lambda part: part.size, default=_NOTHING)


_FREE: Final = EvaluationCost(())
_COSTLY_TEXT: Final = re.compile(r"LIKE|\w\(|\|\|")
"""What the canonical text of every condition with a pattern or a call has; others may have it in a literal."""


def is_free(wanted: Filter) -> bool:
    """Whether a filter certainly has no pattern and no call, by its text: the tree of a filter from a store would have
    to be parsed first (`stored_filter`)."""
    return _COSTLY_TEXT.search(str(wanted)) is None


def evaluation_cost(wanted: Filter) -> EvaluationCost:
    """The cost of a filter; costs time in its size, and some milliseconds for a new regular expression."""
    if is_free(wanted):
        return _FREE
    return EvaluationCost(tuple(part for part in _parts(wanted) if part.steps or part.noted in _NOTED_FUNCTIONS))


def _parts(wanted: Filter) -> Iterator[PartCost]:
    for condition in leaves(wanted.tree):
        if not isinstance(condition, Leaf):
            yield from _of_expression(condition.expression)
            continue
        for test in condition.values.tests:
            match test.pattern:
                case Like(pattern):
                    yield _of_like(pattern)
                case Rlike(regex):
                    yield _of_regex(f"RLIKE '{regex.text}'", regex)
                case XPath(tree_pattern):
                    yield _of_xpath(tree_pattern)
                case Computed(expression):
                    yield from _of_expression(expression)


def _of_like(pattern: LikePattern) -> PartCost:
    name = f"{'ILIKE' if pattern.ignore_case else 'LIKE'} '{pattern.sql}'"
    if pattern.steps == 1:
        return PartCost(name, pattern.sql, _ILIKE_STEPS if pattern.ignore_case else _LIKE_STEPS)
    return PartCost(name, pattern.sql, min(float(pattern.steps), MAX_CALL_STEPS), pattern.steps)


def _of_regex(name: str, regex: Regex, factor: float = 1.0) -> PartCost:
    steps = regex.steps
    return PartCost(name, regex.text, min(factor * steps, MAX_CALL_STEPS), steps if steps > 1 else 0)


def _of_xpath(pattern: TreePattern) -> PartCost:
    steps = MAX_CALL_STEPS if pattern.has_residuals else PARSER_STEPS + PATTERN_STEPS * pattern.size
    return PartCost(f"the XPath {pattern}", pattern.text, min(steps, MAX_CALL_STEPS), pattern.size)


def _of_expression(expression: Expression) -> Iterator[PartCost]:
    for node in walk(expression):
        if isinstance(node, Call):
            yield _of_call(node)


def _of_call(call: Call) -> PartCost:
    name = call.function
    texts = [each.value for each in call.arguments if isinstance(each, Literal) and isinstance(each.value, str)]
    try:
        if name in ("like", "ilike") and texts:
            return _of_like(LikePattern.parse(texts[0], texts[1] if len(texts) > 1 else "\\", name == "ilike"))
        if name in ("any_value_like", "any_value_ilike") and texts:
            return _of_like(LikePattern.parse(texts[0], ignore_case=name == "any_value_ilike"))
        if name in ("rlike", "any_value_rlike") and texts:
            return _of_regex(f"RLIKE '{texts[0]}'", Regex.compile(texts[0]))
        if name in _MATCH_FUNCTIONS and texts:
            factor = MAX_CALL_STEPS if name in _ALL_MATCHES_FUNCTIONS else _MATCH_STEPS
            return _of_regex(f"{name} of '{texts[0]}'", Regex.compile(texts[0]), factor)
    except ValueError:
        return _NOTHING  # a pattern that is NULL for every event
    steps = STEPS_PER_CHARACTER.get(name, _CALL_STEPS if name in _TEXT_FUNCTIONS else 0.0)
    return PartCost(f"{name}()", f"{name}()", min(steps, MAX_CALL_STEPS))

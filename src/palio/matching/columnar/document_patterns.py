"""XPath patterns of one attribute, evaluated together on the document that a value is.

A value is parsed once. A few patterns are asked one by one, more by one pass of the document through an index of all of
them (`palio.xml.pattern_index`). A negated pattern holds where the document is well-formed and the pattern does not
match; of a text that is no document, nothing holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from palio.errors import LimitReached
from palio.filters.value_predicates import Test, XPath
from palio.filters.work_limit import MIN_LONG_CHARACTERS, allowed_steps, exceeds_limit, note_limit
from palio.filters.xml_text import PARSER_STEPS, matcher_of, text_matches
from palio.xml.pattern import Pattern
from palio.xml.pattern_index import PatternIndex

_MAX_WITHOUT_INDEX: Final = 4  # patterns that are faster asked one by one


class DocumentPatterns:
    """The XPath tests of one attribute, by their codes."""

    def __init__(self, tests: Sequence[tuple[int, Test]]) -> None:
        self._wanted: dict[Pattern, list[int]] = {}
        self._unwanted: dict[Pattern, list[int]] = {}
        for code, test in tests:
            assert isinstance(test.pattern, XPath)
            codes = self._wanted if test.wanted else self._unwanted
            codes.setdefault(test.pattern.pattern, []).append(code)
        self._patterns = tuple(dict.fromkeys((*self._wanted, *self._unwanted)))

    def codes(self, text: str) -> list[int]:
        """The codes of all tests that hold for a text."""
        if len(self._patterns) > _MAX_WITHOUT_INDEX:
            try:
                return self._indexed_codes(text)
            except LimitReached:
                pass  # a document with too many different paths for the index, not for single patterns
        found: list[int] = []
        for pattern in self._patterns:
            answer = text_matches(text, pattern)
            if answer is not None:
                found += (self._wanted if answer else self._unwanted).get(pattern, ())
        return found

    def _indexed_codes(self, text: str) -> list[int]:
        if len(text) > MIN_LONG_CHARACTERS and exceeds_limit(PARSER_STEPS * len(text), "xpath_boolean()"):
            return []
        matcher = matcher_of(text)
        if matcher is None:
            return []
        # The numbers of the index are the places of the patterns.
        numbers, exceeding = self._index.match_within(matcher.document, allowed_steps())
        matched = [self._patterns[number] for number in numbers]
        undecided = [self._patterns[number] for number in exceeding]
        for pattern in undecided:
            note_limit(pattern.text)
        found = [code for pattern in matched for code in self._wanted.get(pattern, ())]
        if self._unwanted:
            for pattern in self._unwanted.keys() - set(matched) - set(undecided):
                found += self._unwanted[pattern]
        return found

    @cached_property
    def _index(self) -> PatternIndex:
        from palio.matching.xml_kernels import PATTERN_KERNELS

        index = PatternIndex(PATTERN_KERNELS)
        index.add_many(self._patterns)
        return index

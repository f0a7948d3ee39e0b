"""XPath patterns of one attribute, evaluated together on the document that a value is.

A value is parsed once. A few patterns are asked one by one, more by one pass of the document through an index of all of
them (`palio.xml.pattern_index`). A negated pattern holds where the document is well-formed and the pattern does not
match; of a text that is no document, nothing holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from palio.errors import LimitReached
from palio.filters.value_predicates import Test, XPath
from palio.filters.work_limit import MIN_LONG_CHARACTERS, allowed_steps, exceeds_limit, note_limit
from palio.filters.xml_text import PARSER_STEPS, matcher_of, text_matches
from palio.xml.pattern import Pattern
from palio.xml.pattern_index import PatternIndex

if TYPE_CHECKING:
    from palio.xml.document_scanner import DocumentScanner

_MAX_WITHOUT_INDEX: Final = 4  # patterns that are faster asked one by one


class DocumentPatterns:
    """The XPath tests of one attribute, by their codes."""

    def __init__(self, tests: Sequence[tuple[int, Test]]) -> None:
        self._tests: list[tuple[int, Pattern, bool]] = []
        for code, test in tests:
            assert isinstance(test.pattern, XPath)
            self._tests.append((code, test.pattern.pattern, test.wanted))
        self._codes = np.array([code for code, _, _ in self._tests], np.int64)
        self._are_unwanted = np.array([not wanted for _, _, wanted in self._tests], bool)
        self._has_unwanted = bool(self._are_unwanted.any())

    def codes(self, text: str) -> list[int]:
        """The codes of all tests that hold for a text."""
        if len(self._tests) > _MAX_WITHOUT_INDEX:
            try:
                return self._indexed_codes(text)
            except LimitReached:
                pass  # a document with too many different paths for the index, not for single patterns
        return [code for code, pattern, wanted in self._tests if text_matches(text, pattern) is wanted]

    def _indexed_codes(self, text: str) -> list[int]:
        if len(text) > MIN_LONG_CHARACTERS and exceeds_limit(PARSER_STEPS * len(text), "xpath_boolean()"):
            return []
        matcher = matcher_of(text, self._scanner)
        if matcher is None:
            return []
        # The numbers of the index are the places of the tests.
        found, undecided = self._index.find_within(matcher.document, allowed_steps())
        for number in undecided:
            note_limit(self._tests[number][1].text)
        if self._has_unwanted:
            hold = self._are_unwanted.copy()
            hold[found] ^= True
            hold[undecided] = False
            found = np.flatnonzero(hold).astype(np.int32)
        codes: list[int] = self._codes[found].tolist()
        return codes

    @cached_property
    def _scanner(self) -> DocumentScanner:
        from palio.matching.xml_kernels import SCANNER

        return SCANNER

    @cached_property
    def _index(self) -> PatternIndex:
        from palio.matching.xml_kernels import PATTERN_KERNELS

        index = PatternIndex(PATTERN_KERNELS)
        index.add_many(pattern for _, pattern, _ in self._tests)
        return index

"""XPath patterns of one attribute, evaluated together on the document that a value is.

A value is parsed once, and all patterns of a segment are asked about it. A negated pattern holds where the document is
well-formed and the pattern does not match; of a text that is no document, nothing holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from palio.filters.value_predicates import Test, XPath
from palio.filters.xml_text import matcher_of, text_matches
from palio.xml.pattern import Pattern


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
        if matcher_of(text) is None:
            return []
        found: list[int] = []
        for pattern in self._patterns:
            answer = text_matches(text, pattern)
            if answer is not None:
                found += (self._wanted if answer else self._unwanted).get(pattern, ())
        return found

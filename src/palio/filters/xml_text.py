"""Documents of attributes that hold XML text, parsed once for all patterns that are asked about them.

Subscriptions ask many XPath patterns about one text, one after the other. The last document of each thread is kept with
what is known about it; no more are, since a parsed document takes about ten times the memory of its text.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from palio.errors import DocumentError, ParseError
from palio.filters.text_cache import TextCache
from palio.filters.work_limit import MIN_LONG_CHARACTERS, allowed_steps, exceeds_limit, note_limit
from palio.xml.document_parser import parse_document
from palio.xml.expression_evaluator import TooManySteps
from palio.xml.failed_step import failed_step
from palio.xml.pattern import Pattern
from palio.xml.reference_matcher import ReferenceMatcher
from palio.xml.xpath_parser import parse_xpath

if TYPE_CHECKING:
    from palio.xml.document_scanner import DocumentScanner

PARSER_STEPS: Final = 8.0
"""Steps that the parser takes for a character."""
PATTERN_STEPS: Final = 0.5
"""Steps that each node of a pattern takes for a character, where many elements have its name."""


class _LastDocument(threading.local):
    text: str | None = None
    matcher: ReferenceMatcher | None = None


_last = _LastDocument()


def _parse_pattern(xpath: str) -> Pattern:
    try:
        return parse_xpath(xpath)
    except ParseError as error:
        hint = "" if error.hint is None else f"; {error.hint}"
        raise ValueError(f"{error.reason}, at column {error.column} of the XPath{hint}") from None


pattern_of = TextCache(_parse_pattern)
"""The pattern of an XPath within a condition; a ValueError says in one line what is wrong with it."""


def matcher_of(text: str, scanner: DocumentScanner | None = None) -> ReferenceMatcher | None:
    """The document of a text; None where the text is no well-formed XML document within the limits."""
    if _last.text is text or _last.text == text:
        return _last.matcher
    try:
        matcher = ReferenceMatcher(parse_document(text, scanner=scanner))
    except DocumentError:
        matcher = None
    _last.text, _last.matcher = text, matcher
    return matcher


def why_not(text: str, pattern: Pattern) -> str | None:
    """Why the document of a text does not match a pattern; None where it does."""
    try:
        return failed_step(ReferenceMatcher(parse_document(text)), pattern)
    except DocumentError as error:
        return str(error)


def text_matches(text: str, pattern: Pattern) -> bool | None:
    """Whether the document of a text matches a pattern; None where there is no document.

    >>> text_matches("<a><b/></a>", pattern_of("/a/b")), text_matches("<a>", pattern_of("/a"))
    (True, None)
    """
    steps = PARSER_STEPS + PATTERN_STEPS * pattern.size
    if len(text) > MIN_LONG_CHARACTERS and exceeds_limit(steps * len(text), pattern.text):
        return None
    matcher = matcher_of(text)
    if matcher is None or not pattern.has_residuals:
        return None if matcher is None else matcher.matches(pattern)
    try:
        return matcher.matches(pattern, allowed_steps())
    except TooManySteps:
        note_limit(pattern.text)
        return None

"""Event patterns of Amazon EventBridge; `docs/languages/eventbridge.md` is the specification."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from palio.filters.filter import Filter
from palio.filters.text_cache import TextCache
from palio.languages.eventbridge.dialect import EVENTBRIDGE
from palio.languages.eventbridge.document import Document, parse_document
from palio.languages.eventbridge.lowering import lower_rule
from palio.languages.eventbridge.parser import parse_rule

__all__ = ["parse"]


def parse(condition: Any, *, strict: bool = True, flattened: bool = False, timezone: str = "UTC") -> Filter:
    """The filter of an event pattern, given as JSON text or as the dictionary it stands for.

    What EventBridge refuses is refused; without `strict`, its quotas are lifted, and a bare value may stand for a
    list of one. With `flattened`, `{"a": {"b": [1]}}` accepts the event `{"a.b": 1}` too. `timezone` has no effect:
    patterns have no literals of time.

    >>> wanted = parse({"detail": {"state": [{"anything-but": "ok"}], "load": [{"numeric": [">", 0.9]}]}})
    >>> wanted.matches({"detail": {"state": "late", "load": 0.95}})
    True
    """
    if isinstance(condition, str):
        return _parse_text(condition, strict, flattened)
    return _parse(parse_document(condition), strict, flattened)


@TextCache
def _parse_text(text: str, strict: bool, flattened: bool) -> Filter:
    return _parse(parse_document(text), strict, flattened)


def _parse(document: Document, strict: bool, flattened: bool) -> Filter:
    dialect = EVENTBRIDGE if strict else EVENTBRIDGE.unlimited()
    if flattened:
        dialect = replace(dialect, flattened=True)
    return lower_rule(parse_rule(document, dialect), document, dialect)

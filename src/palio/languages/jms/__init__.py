"""JMS message selectors, as Jakarta Messaging 3.1 specifies them; `docs/languages/jms.md` says what they mean here."""

from __future__ import annotations

from typing import Any

from palio.errors import ParseError
from palio.filters.filter import Filter
from palio.filters.text_cache import TextCache
from palio.languages.jms.evaluation import CompiledSelector
from palio.languages.jms.lowering import lower_filter
from palio.languages.jms.parser import parse_selector

__all__ = ["condition", "parse"]


def parse(condition: Any, *, timezone: str = "UTC") -> Filter:
    """The filter of a selector. `timezone` has no effect: selectors have no literals of time."""
    if not isinstance(condition, str):
        hint = "'' is the selector that selects everything" if condition is None else None
        raise ParseError(str(condition), 0, f"a selector is text, not {type(condition).__name__}", hint)
    return _parse(condition)


def condition(text: str) -> CompiledSelector:
    """The evaluator of a residual, and of `condition_in('jms', …)`: the entry point `palio.conditions`."""
    return CompiledSelector(parse_selector(text))


@TextCache
def _parse(text: str) -> Filter:
    return lower_filter(parse_selector(text))

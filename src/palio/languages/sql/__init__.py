"""SQL conditions with the meaning of Spark 4's WHERE; `docs/language.md` is the specification."""

from __future__ import annotations

from typing import Any

from palio.errors import InvalidArgument, ParseError
from palio.filters.filter import Filter
from palio.filters.text_cache import TextCache
from palio.languages.sql.lowering import lower_filter
from palio.languages.sql.parser import parse_condition
from palio.languages.sql.template_cache import BoundTemplate

__all__ = ["parse"]


def parse(condition: Any, *, timezone: str = "UTC") -> Filter:
    """The filter of an SQL condition; literals of time without a zone are read in `timezone`."""
    if not isinstance(condition, str):
        raise ParseError(str(condition), 0, f"an SQL condition is text, not {type(condition).__name__}")
    if not isinstance(timezone, str):
        raise InvalidArgument(f"a time zone is named by text such as 'Europe/Paris', not {type(timezone).__name__}")
    return _parse(condition, timezone)


@TextCache
def _parse(text: str, timezone: str) -> Filter:
    bound = BoundTemplate.read(text, timezone)
    if bound is not None:
        return bound.filter()
    return lower_filter(parse_condition(text, timezone=timezone), text, timezone)

"""The filters of CloudEvents' Subscriptions API; `docs/languages/cloudevents.md` says what they mean here."""

from __future__ import annotations

from typing import Any

from palio.filters.filter import Filter
from palio.filters.negation import complement
from palio.languages.cloudevents.dialects import lower_all
from palio.languages.cloudevents.reading import read

__all__ = ["parse"]


def parse(condition: Any, *, timezone: str = "UTC") -> Filter:
    """The filter of one filter expression, a mapping, or of a list of them that must all hold; JSON text is either.

    There are two truth values, so that `~f` is whatever `f` does not match. There are no literals of time, so that no
    zone matters.
    """
    holds = lower_all(read(condition))
    return Filter(holds, lambda: complement(holds))

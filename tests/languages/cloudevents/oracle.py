"""The filter dialects of CloudEvents' Subscriptions API, written down a second time, without filters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tests.languages.cesql import oracle


def passes(found: Any, event: Mapping[str, Any]) -> bool:
    """Whether an event passes a filter, or all filters of a list."""
    if isinstance(found, list):
        return all(passes(each, event) for each in found)
    ((dialect, value),) = found.items()
    match dialect:
        case "all":
            return all(passes(each, event) for each in value)
        case "any":
            return any(passes(each, event) for each in value)
        case "not":
            return not passes(value, event)
        case "sql":
            result, errors = oracle.evaluate(value, event)  # here a tree, not its text
            return result is True and not errors
    return all(_compare(dialect, event.get(name), text) for name, text in value.items())


def _compare(dialect: str, value: Any, text: str) -> bool:
    if value is None or isinstance(value, bytes):
        return False
    mine = value if isinstance(value, str) else oracle.text(value)
    match dialect:
        case "prefix":
            return mine[: len(text)] == text
        case "suffix":
            return mine[max(0, len(mine) - len(text)) :] == text
    if isinstance(value, datetime):
        # Instants compare as in CESQL, whose oracle has the rule.
        return oracle._equal(oracle.Instant(mine), text)
    return mine == text

"""Texts that may be conditions, and the filter of a text without templates, which is the oracle of those with."""

from __future__ import annotations

from palio.errors import ParseError
from palio.filters.filter import Filter
from palio.languages.sql.lowering import lower_filter
from palio.languages.sql.parser import parse_condition

ZONES = ["UTC", "America/New_York", "Asia/Tokyo"]


FRAGMENTS = [
    "a", "b1", "x", "r", "DATE", "date ", "TIMESTAMP", "X", " = ", "=", " AND ", " and\n", " OR ", "NOT ", " IN (", ")",
    ", ", " BETWEEN ", " LIKE ", " ILIKE ", " IS NULL", " <=> ", " <> ", "-", "+", "1", "22", "1.5", ".5", "1.", "1e5",
    "5L", "1d", "'x'", "'it''s'", "''", "'", '"y"', "`n1`", "`a'b`", "--", "/*", "*/", "\n", " ", "\\", "\x01", "\x04",
    "é", "e5", "_", "(", ".", "INTERVAL ", " DAY", " ESCAPE ", "TRUE", "NULL", "1.2.3", "99999999999999999999",
]  # fmt: skip


def parsed(text: str, timezone: str) -> Filter | None:
    """The filter of a text by the long way; None where it is refused."""
    try:
        return lower_filter(parse_condition(text, timezone=timezone), text, timezone)
    except ParseError:
        return None

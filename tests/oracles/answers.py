"""Outcomes of a condition for a row, as an oracle reports them."""

from __future__ import annotations

from enum import Enum


class Answer(Enum):
    """TRUE, FALSE or NULL; or the oracle raises an error, and nothing is promised of such a row."""

    TRUE = "TRUE"
    FALSE = "FALSE"
    NULL = "NULL"
    RAISES = "raises"

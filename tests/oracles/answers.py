"""What a condition can be for a row, as an oracle says it."""

from __future__ import annotations

from enum import Enum


class Answer(Enum):
    """TRUE, FALSE or NULL; or the oracle raises an error, and nothing is promised of such a row."""

    TRUE = "TRUE"
    FALSE = "FALSE"
    NULL = "NULL"
    RAISES = "raises"

"""What can go wrong when an expression is evaluated, by the names that CESQL 1.0 §3.3 gives.

An error does not end an evaluation: every operator and function gives a value all the same, and the errors are
collected beside it.
"""

from __future__ import annotations

from typing import Final

PARSE: Final = "parse"
MATH: Final = "math"
CAST: Final = "cast"
MISSING_ATTRIBUTE: Final = "missingAttribute"
MISSING_FUNCTION: Final = "missingFunction"
FUNCTION_EVALUATION: Final = "functionEvaluation"
GENERIC: Final = "generic"

KINDS: Final = (PARSE, MATH, CAST, MISSING_ATTRIBUTE, MISSING_FUNCTION, FUNCTION_EVALUATION, GENERIC)


class Failure(str):
    """One error: the text of its kind, with the reason and the place in the expression beside it."""

    reason: str
    position: int

    def __new__(cls, kind: str, reason: str, position: int) -> Failure:
        made = super().__new__(cls, kind)
        made.reason = reason
        made.position = position
        return made

    @property
    def kind(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[type[Failure], tuple[str, str, int]]:
        return Failure, (str(self), self.reason, self.position)

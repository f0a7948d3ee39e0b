"""Search for LIKE patterns that another one may imply, by the literal text of all of them.

`LIKE '%ab%'` is implied by the patterns in which `ab` occurs. Among fifty patterns, as a rule has them, that is hardly
ever the case; comparing all pairs of them is most of the time that normalising a rule took. One search for a pattern's
text through the joined texts of all of them tells whether any other is worth comparing.
"""

from __future__ import annotations

from collections.abc import Iterable

from palio.filters.like import LikePattern

# Around each run of literal text that is searched; for a pattern that has one of them itself nothing is known.
_BEFORE, _AFTER = "\1", "\2"


class PatternTexts:
    """The literal texts of some patterns, in lower case."""

    def __init__(self, patterns: Iterable[LikePattern]) -> None:
        runs = [run for pattern in patterns for run in pattern.literals]
        self._joined = f"{_BEFORE}{f'{_AFTER}{_BEFORE}'.join(runs)}{_AFTER}".lower()

    def may_be_implied(self, pattern: LikePattern) -> bool:
        """Whether one of the patterns beside this one may imply it."""
        sought = _sought(pattern)
        # Once, it occurs in the pattern itself.
        return sought is None or self._joined.count(sought) > 1


def _sought(pattern: LikePattern) -> str | None:
    """A text that occurs among the runs of each pattern that implies this one; None where no such text is known."""
    runs = pattern.literals
    if not runs or not pattern.is_ascii:
        return None
    for run in runs:
        if _BEFORE in run or _AFTER in run:
            return None
    lowered = runs[0].lower()
    match pattern.shape:
        case "exact":
            return f"{_BEFORE}{lowered}{_AFTER}"
        case "prefix":
            return f"{_BEFORE}{lowered}"
        case "suffix":
            return f"{lowered}{_AFTER}"
    return lowered

"""Limit of work for the patterns and functions of conditions, while a broker matches events.

In a process of its own a condition may take as long as its author likes. A broker evaluates the conditions of strangers
in its event loop: there no search and no call may take more than some tens of milliseconds, whatever the event. The
limit holds in the thread that sets it, for as long as it is set. Work is counted in *steps* of about three nanoseconds,
those for a character times the characters. Beyond the limit a pattern does not match and a function is NULL, and the
limit notes which it was, so that the owner of the condition can be told.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

MIN_LONG_CHARACTERS: Final = 4_096  # of a text; what a shorter one costs is not counted
_MAX_USUAL_RESULT_CHARACTERS: Final = 65_536  # of a text that is much longer than what it is made of
_MAX_RESULT_GROWTH: Final = 4
_MAX_NOTED: Final = 1_000  # patterns and functions that are told apart
ELEMENT_STEPS: Final = 100  # that evaluating a condition on one element of an array takes


@dataclass(slots=True)
class WorkLimit:
    """Limit of steps for one search or one call, and how often each pattern or function reached it."""

    steps: int
    reached: Counter[str] = field(default_factory=Counter)

    def note(self, what: str) -> None:
        if what in self.reached or len(self.reached) < _MAX_NOTED:
            self.reached[what] += 1


_limit: ContextVar[WorkLimit | None] = ContextVar("work limit", default=None)


@contextmanager
def work_limit(limit: WorkLimit) -> Iterator[None]:
    """Limit the work of each search and call in this thread."""
    token = _limit.set(limit)
    try:
        yield
    finally:
        _limit.reset(token)


def exceeds_limit(steps: float, what: str) -> bool:
    """Whether some work exceeds the limit, where one is set; what exceeds it is noted."""
    limit = _limit.get()
    if limit is None or steps <= limit.steps:
        return False
    limit.note(what)
    return True


def allowed_steps() -> float:
    """Steps that one search or call may take: infinitely many where no limit is set."""
    limit = _limit.get()
    return math.inf if limit is None else limit.steps


def note_limit(what: str) -> None:
    """Note that something reached the limit while it was evaluated."""
    limit = _limit.get()
    if limit is not None:
        limit.note(what)


def grows_too_long(result: int, given: int, what: str) -> bool:
    """Whether a function makes too long a text of short ones, where a limit is set.

    A condition may be evaluated on each element of a long array, so that such a text may be made ten thousand times.
    """
    if result <= _MAX_USUAL_RESULT_CHARACTERS or result <= _MAX_RESULT_GROWTH * given:
        return False
    limit = _limit.get()
    if limit is not None:
        limit.note(what)
    return limit is not None


def limit_calls(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is NULL where its texts are so long that a call would exceed the limit."""
    steps = STEPS_PER_CHARACTER.get(name)
    if steps is None:
        return compute

    def limited(*arguments: Any) -> Any:
        characters = 0
        for each in arguments:
            if each.__class__ is str or each.__class__ is bytes:
                characters += len(each)
        if characters > MIN_LONG_CHARACTERS and exceeds_limit(steps * characters, f"{name}()"):
            return None
        return compute(*arguments)

    return limited


STEPS_PER_CHARACTER: Final = {
    "conv": 20,
    "format_string": 10,
    "get_json_object": 90,
    "initcap": 20,
    "instr": 60,
    "levenshtein": 300,
    "luhn_check": 40,
    "mask": 400,
    "parse_url": 50,
    "substring_index": 50,
    "to_binary": 30,
    "translate": 12,
    "xpath_boolean": 16,
}
"""Of the functions that take more than some steps for a character, measured by `benchmarks/condition_costs.py`."""

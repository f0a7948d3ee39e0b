"""Shrinking of a failing schedule of faults to a small one that still fails.

Delta debugging (Zeller and Hildebrandt, 2002) over the faults, each of which is one unit; then each share of links and
clocks is tried without, and each crash without its effects before it. The result is minimal in that no single fault can
be left out, unless the bound on runs ended the search first: one run may take seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from palio.errors import InvalidArgument
from palio.simulation.faults import Crash, Fault, FaultSchedule

DEFAULT_MAX_RUNS: Final = 300


def shrink(
    schedule: FaultSchedule, fails: Callable[[FaultSchedule], bool], max_runs: int = DEFAULT_MAX_RUNS
) -> FaultSchedule:
    """A smaller schedule for which `fails` is true, after at most `max_runs` calls of it."""
    if type(max_runs) is not int or max_runs < 1:
        raise InvalidArgument(f"max_runs is a whole number from 1 on, not {max_runs!r:.80}")
    search = _Search(fails, max_runs)
    if not search.is_failing(schedule):
        raise InvalidArgument("the schedule to shrink does not fail")
    smaller = search.without_faults(schedule)
    return search.simplified(smaller)


class _Search:
    """Calls of one predicate, within their bound."""

    def __init__(self, fails: Callable[[FaultSchedule], bool], max_runs: int) -> None:
        self._fails = fails
        self._left = max_runs

    def is_failing(self, schedule: FaultSchedule) -> bool:
        if not self._left:
            return False
        self._left -= 1
        return self._fails(schedule)

    def without_faults(self, schedule: FaultSchedule) -> FaultSchedule:
        """Leave out ever smaller parts of the faults, as long as the rest fails."""
        parts = 2
        while schedule.faults and self._left:
            smaller = next(filter(self.is_failing, _complements(schedule, parts)), None)
            if smaller is not None:
                schedule, parts = smaller, max(parts - 1, 2)
            elif parts < len(schedule.faults):
                parts = min(2 * parts, len(schedule.faults))
            else:
                break
        return schedule

    def simplified(self, schedule: FaultSchedule) -> FaultSchedule:
        for name in schedule.options():
            simpler = replace(schedule, **{name: 0.0})
            schedule = simpler if self.is_failing(simpler) else schedule
        for place, each in enumerate(schedule.faults):
            if isinstance(each, Crash) and each.after:
                simpler = _with_fault(schedule, place, replace(each, after=0))
                schedule = simpler if self.is_failing(simpler) else schedule
        return schedule


def _complements(schedule: FaultSchedule, parts: int) -> Iterator[FaultSchedule]:
    """The schedule without each of some parts of about the same size."""
    faults = schedule.faults
    bounds = [len(faults) * each // parts for each in range(parts + 1)]
    for start, end in pairwise(bounds):
        if end > start:
            yield replace(schedule, faults=faults[:start] + faults[end:])


def _with_fault(schedule: FaultSchedule, place: int, fault: Fault) -> FaultSchedule:
    return replace(schedule, faults=(*schedule.faults[:place], fault, *schedule.faults[place + 1 :]))

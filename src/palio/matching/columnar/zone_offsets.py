"""Offsets of a time zone from UTC, for many moments at once.

The offset of a zone is a step function of time. Python's `zoneinfo` tells it for one moment, and has no list of the
steps, so they are found: within a block of some thirteen months the offset is looked up once a day, and where it
differs from one day to the next the step between them is found by bisection. No zone has ever changed its offset twice
within a day: the two closest changes in the database are four days apart (Freetown, 1939). Blocks are kept for as long
as the process lives; there are some 9,000 of them from the year 1 to 9999.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from palio.events.values import MICROS_PER_DAY
from palio.filters.expressions.coercion import EPOCH, zone_named
from palio.matching.columnar.array_types import Int64s
from palio.matching.columnar.vectors import FIRST_MICROS, LAST_MICROS

_BLOCK_BITS: Final = 45  # of 407 days in microseconds
_SECOND: Final = 1_000_000


class _Steps(NamedTuple):
    """The moments from which offsets hold, in order, and the offsets, both in microseconds."""

    starts: Int64s
    offsets: Int64s


def to_clock(micros: Int64s, zone: str) -> Int64s:
    """What the clocks of a zone show at moments, which may be beyond the years 1 and 9999."""
    place = zone_named(zone)
    if place is UTC:
        return micros
    steps = _steps_around(micros, zone)
    return micros + steps.offsets[np.searchsorted(steps.starts, micros, "right") - 1]


def from_clock(clock: Int64s, zone: str, offsets: Int64s | None = None) -> Int64s:
    """The moments at which the clocks of a zone show times: over a gap forward, in an overlap the first of the two.

    With `offsets`, those of the moments that the times were computed from, an overlap is resolved as by `moment_of`.
    """
    if zone_named(zone) is UTC:
        return clock
    steps = _steps_around(clock, zone)
    at = _before_change(steps, clock)
    found = steps.offsets[at]
    if offsets is not None:
        following = np.minimum(at + 1, len(steps.starts) - 1)
        after = steps.offsets[following]
        is_second = (offsets == after) & (after < found) & (clock >= steps.starts[following] + after)
        found = np.where(is_second, after, found)
    return clock - found


def first_moments(midnights: Int64s, zone: str) -> Int64s:
    """The first moments of days in a zone, which are given as what the clocks show: where they skip it, the change."""
    if zone_named(zone) is UTC:
        return midnights
    steps = _steps_around(midnights, zone)
    at = _before_change(steps, midnights)
    following = np.minimum(at + 1, len(steps.starts) - 1)
    moments = midnights - steps.offsets[at]
    is_gap = (following > at) & (steps.offsets[following] > steps.offsets[at]) & (moments >= steps.starts[following])
    return np.where(is_gap, steps.starts[following], moments)


def _before_change(steps: _Steps, clock: Int64s) -> Int64s:
    """The place of the offset that counts for local times, in a gap and in an overlap the one before the change."""
    # The offset before a step counts until the clocks have passed both the time they leave and the time they reach.
    before = np.concatenate((steps.offsets[:1], steps.offsets[:-1]))
    changes = steps.starts + np.maximum(before, steps.offsets)
    changes[0] = min(FIRST_MICROS, int(steps.starts[0])) - 2 * MICROS_PER_DAY
    return np.asarray(np.searchsorted(changes, clock, "right") - 1, np.int64)


def _steps_around(micros: Int64s, zone: str) -> _Steps:
    """The steps of the blocks in which some moments are, and of those beside them, which a local time may be in."""
    if not len(micros):
        return _block(zone, 0)
    clamped = np.clip(micros, FIRST_MICROS, LAST_MICROS)
    blocks = clamped >> _BLOCK_BITS
    least, most = int(blocks.min()), int(blocks.max())
    if most - least > 4:
        # Few of the blocks between the first and the last may be needed.
        present = np.unique(np.concatenate((blocks - 1, blocks, blocks + 1))).tolist()
        return _joined(zone, tuple(present))
    return _joined(zone, tuple(range(least - 1, most + 2)))


@lru_cache(maxsize=256)
def _joined(zone: str, blocks: tuple[int, ...]) -> _Steps:
    parts = [_block(zone, block) for block in blocks]
    return _Steps(np.concatenate([each.starts for each in parts]), np.concatenate([each.offsets for each in parts]))


@lru_cache(maxsize=65_536)
def _block(zone: str, block: int) -> _Steps:
    place = zone_named(zone)
    start, end = block << _BLOCK_BITS, (block + 1) << _BLOCK_BITS
    starts, offsets = [start], [_offset(start, place)]
    day = start
    while day < end:
        following = min(day + MICROS_PER_DAY, end)
        offset = _offset(following, place)
        if offset != offsets[-1]:
            starts.append(_step(day, following, offsets[-1], place))
            offsets.append(offset)
        day = following
    return _Steps(np.array(starts, np.int64), np.array(offsets, np.int64))


def _step(low: int, high: int, before: int, place: tzinfo) -> int:
    """The first moment with another offset, between one without it and one with it; steps are at whole seconds."""
    low, high = low // _SECOND, -(-high // _SECOND)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(middle * _SECOND, place) == before:
            low = middle
        else:
            high = middle
    return high * _SECOND


def _offset(micros: int, place: tzinfo) -> int:
    # A day from the first and last moments of Python, where the local time would be beyond them.
    inside = min(max(micros, FIRST_MICROS + 2 * MICROS_PER_DAY), LAST_MICROS - 2 * MICROS_PER_DAY)
    moment: datetime = EPOCH + timedelta(microseconds=inside)
    offset: Any = moment.astimezone(place).utcoffset()
    return int(offset // timedelta(microseconds=1))

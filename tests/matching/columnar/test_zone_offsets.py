"""Tests of the offsets of time zones for many moments against Python's own, one moment at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import available_timezones

import numpy as np
import pytest

from palio.filters.expressions.coercion import EPOCH, local, moment_of
from palio.filters.expressions.text_cast import zone_of
from palio.filters.kinds import timestamp_position
from palio.matching.columnar.zone_offsets import from_clock, to_clock

ZONES = ("UTC", "GMT", "+05:30", "-11:00", "Europe/Paris", "America/New_York", "Africa/Casablanca", "Asia/Gaza")
FAR_ZONES = ("Pacific/Apia", "Australia/Lord_Howe", "Africa/Freetown", "Asia/Kathmandu", "America/Recife")


def moments(random: Random) -> list[int]:
    """Microseconds of moments of all years, most of them near our own, some an hour or a second apart."""
    first, last = datetime(1, 1, 3, tzinfo=UTC), datetime(9999, 12, 28, tzinfo=UTC)
    made = [datetime(1880, 1, 1, tzinfo=UTC) + timedelta(seconds=random.randint(0, 7 * 10**9)) for _ in range(400)]
    made += [first + (last - first) * random.random() for _ in range(40)]
    day = datetime(2024, random.randint(1, 12), random.randint(1, 28), tzinfo=UTC)
    made += [day + timedelta(minutes=15 * step) for step in range(4 * 24 * 8)]
    return [timestamp_position(moment) for moment in made]


def compare(zone: str, random: Random) -> None:
    micros = np.array(moments(random), np.int64)
    clocks = to_clock(micros, zone)
    for at, clock in zip(micros.tolist(), clocks.tolist(), strict=True):
        moment = EPOCH + timedelta(microseconds=at)
        assert local(moment, zone).replace(tzinfo=UTC) == EPOCH + timedelta(microseconds=clock), (zone, moment)
    for shown, at in zip(micros.tolist(), from_clock(micros, zone).tolist(), strict=True):
        clock = (EPOCH + timedelta(microseconds=shown)).replace(tzinfo=None)
        assert timestamp_position(moment_of(clock, zone)) == at, (zone, clock)


@pytest.mark.parametrize("zone", [*ZONES, *FAR_ZONES])
def test_clocks_show_what_python_says_and_back(zone: str) -> None:
    for seed in range(3):
        compare(zone, Random(seed))


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/New_York", "Africa/Freetown", "Australia/Lord_Howe"])
def test_a_change_of_the_clocks_is_found_to_the_microsecond(zone: str) -> None:
    """Every change of some years is approached from both sides."""
    for year in (1939, 1984, 2024):
        hours = np.arange(366 * 24, dtype=np.int64) * 3_600_000_000 + timestamp_position(
            datetime(year, 1, 1, tzinfo=UTC)
        )
        offsets = to_clock(hours, zone) - hours
        for place in np.flatnonzero(np.diff(offsets)).tolist():
            low, high = int(hours[place]), int(hours[place + 1])
            while high - low > 1:
                middle = (low + high) // 2
                is_before = (
                    timestamp_position(local(EPOCH + timedelta(microseconds=middle), zone)) - middle == offsets[place]
                )
                low, high = (middle, high) if is_before else (low, middle)
            near = np.array([low - 1, low, high, high + 1], np.int64)
            expected = [timestamp_position(local(EPOCH + timedelta(microseconds=at), zone)) for at in near.tolist()]
            assert to_clock(near, zone).tolist() == expected


def test_no_moments_have_no_clocks() -> None:
    assert not len(to_clock(np.zeros(0, np.int64), "Europe/Paris"))


@pytest.mark.deep
@pytest.mark.parametrize("part", range(8))
def test_clocks_of_every_zone_show_what_python_says_and_back(part: int) -> None:
    for zone in sorted(available_timezones())[part::8]:
        if zone_of(zone) is not None:
            compare(zone, Random(zone))

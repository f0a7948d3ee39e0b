"""Upper bounds on delays by clocks that are not synchronised."""

from __future__ import annotations

import csv
import lzma
from bisect import bisect_right
from collections import defaultdict
from fractions import Fraction
from math import floor
from pathlib import Path
from random import Random
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from palio.errors import InvalidArgument
from palio.routing.messages import UNKNOWN_AGE, ClockReference
from palio.routing.upkeep.timeliness import Age, Drift, LinkDelays, clock_reading

SECOND = 1_000_000_000
MICROSECOND = 1_000
ROUNDING = 20  # nanoseconds, of durations that are rounded outwards one by one
PPM_100 = Drift(100e-6)
DRIFTS = st.fractions(0, Fraction(1, 10)).map(lambda share: share.limit_denominator(10**9))


@given(DRIFTS, st.fractions(-1, 1), st.integers(0, 10**18), st.integers(0, 10**18))
def test_a_true_duration_lies_between_its_bounds_whatever_the_rate(
    bound: Fraction, rate: Fraction, begin: int, duration: int
) -> None:
    drift = Drift(float(bound))
    shown = 1 + bound * rate  # nanoseconds that the clock shows in one
    measured = floor((begin + duration) * shown) - floor(begin * shown)
    assert drift.at_least(measured) <= duration <= drift.at_most(measured)
    assert drift.at_least(-measured) <= -duration <= drift.at_most(-measured)


@pytest.mark.parametrize("share", [-0.1, 1.0, 2, float("nan")])
def test_a_drift_is_a_share(share: float) -> None:
    with pytest.raises(InvalidArgument, match="a share from 0 to below 1"):
        Drift(share)


def bounded(drift: Drift, lower_bound: int = 0) -> LinkDelays:
    """An end of a link that knows a helper: sent at 100 s by the clock here, received at 5.01 s by the one there."""
    link = LinkDelays(drift)
    link.receive_reference(ClockReference(0, 100 * SECOND, clock_reading(5.010), lower_bound, 0, 0, -1), 0)
    return link


@pytest.mark.parametrize(("lower_bound", "expected"), [(0.0, 0.040008), (0.005, 0.035008)])
def test_the_worked_example_of_one_hop(lower_bound: float, expected: float) -> None:
    upper = bounded(PPM_100, clock_reading(lower_bound)).receive(clock_reading(5.030), clock_reading(100.060))
    assert upper is not None
    # The printed sum is of first order: the true bound is higher by some parts in 10^8.
    assert 0 <= upper - expected * SECOND < 20


def test_the_worked_example_of_several_hops() -> None:
    age = Age(0, 0)
    no_drift = Drift(0.0)
    for delay, waited in ((30_000, 0), (20_000, 1_000)):
        age = Age(age.nanoseconds + delay * MICROSECOND, 0).later(waited * MICROSECOND, no_drift)
    assert age.later(age.at, no_drift).nanoseconds == pytest.approx(0.051 * SECOND, abs=10)


@pytest.mark.parametrize(("received", "is_old_kept"), [(60.5, True), (59.5, False)])
def test_the_worked_example_of_choosing_a_helper(received: float, is_old_kept: bool) -> None:
    link = LinkDelays(Drift(0.0))
    link.receive(0, 50 * SECOND)
    link.receive(10 * SECOND, clock_reading(received))
    assert (link.reference(0).helper_sent == 0) is is_old_kept


def test_without_a_reference_an_age_is_unknown_and_stays_so() -> None:
    link = LinkDelays(PPM_100)
    assert link.receive(5, 6) is None
    age = link.receive_age(Age(7, 5), 9)
    assert age == Age(UNKNOWN_AGE, 9)
    assert age.later(100, PPM_100) == Age(UNKNOWN_AGE, 100)
    assert bounded(PPM_100).receive_age(age, 101 * SECOND).nanoseconds == UNKNOWN_AGE


def test_the_first_message_is_news_and_one_like_it_is_not() -> None:
    link = LinkDelays(PPM_100)
    assert not link.has_news
    link.receive(0, 5)
    assert link.has_news
    link.reference(6)
    assert not link.has_news
    link.receive(SECOND // 10, SECOND // 10 + 5)
    assert not link.has_news  # fresher, but the gain is small
    link.receive(10 * SECOND, 10 * SECOND + 5)
    assert link.has_news


@given(st.lists(st.tuples(*[st.integers(-(1 << 63), (1 << 63) - 1)] * 8), max_size=8))
def test_readings_that_no_clock_gave_make_no_bound_that_does_not_fit_the_wire(
    readings: list[tuple[int, ...]],
) -> None:
    link = LinkDelays(PPM_100)
    for *reference, sent in readings:
        link.receive_reference(ClockReference(*reference), 5 * SECOND)
        age = link.receive_age(Age(sent, sent), 6 * SECOND)
        told = link.reference(7 * SECOND)
        values = (*age, *(getattr(told, name) for name in told.__struct_fields__))
        assert all(-(1 << 63) <= each < (1 << 63) for each in values)


class Clock(Protocol):
    def read(self, time: Fraction) -> int:
        """The reading at a true time, both in nanoseconds."""


class SteadyClock:
    """A clock with an offset and a rate of its own, read in whole nanoseconds of exact rational time."""

    def __init__(self, random: Random, drift: Fraction) -> None:
        self.offset = random.randrange(10**12)
        # The ends of the range are what breaks a bound of first order.
        self.rate = 1 + drift * random.choice([-1, 1, Fraction(random.randrange(-1000, 1001), 1000)])

    def read(self, time: Fraction) -> int:
        return floor(self.offset + time * self.rate)


class RecordedClock:
    """A clock whose offset was recorded every second, and between two records changes evenly."""

    def __init__(self, records: list[tuple[int, int]]) -> None:
        begin = records[0][0]
        self.times = [time - begin for time, _ in records]
        self.offsets = [offset for _, offset in records]
        steps = zip(self.times, self.times[1:], self.offsets, self.offsets[1:], strict=False)
        self.drift = max(abs(Fraction(new - old, after - before)) for before, after, old, new in steps)

    def read(self, time: Fraction) -> int:
        after = min(bisect_right(self.times, time), len(self.times) - 1)
        before = after - 1
        share = (time - self.times[before]) / (self.times[after] - self.times[before])
        return floor(time + self.offsets[before] + share * (self.offsets[after] - self.offsets[before]))


def run_link(clocks: list[Clock], drift: Fraction, random: Random, is_reordering: bool) -> list[tuple[Fraction, int]]:
    """Messages and references in both directions of a link: the true delay of each, and its bound."""
    ends = [LinkDelays(Drift(float(drift))), LinkDelays(Drift(float(drift)))]
    time = Fraction(0)
    under_way: list[tuple[Fraction, int, int, Fraction, ClockReference | None]] = []
    bounds = []
    delays: dict[int, Fraction] = {}  # true ones, by the reading at which a message was sent
    for _ in range(120):
        time += random.randrange(1, 4 * SECOND)
        sender = random.randrange(2)
        reading = clocks[sender].read(time)
        content = ends[sender].reference(reading) if random.random() < 0.5 else None
        if content is not None and content.helper_sent in delays:
            assert content.helper_lower_bound <= delays[content.helper_sent]
        arrival = time + random.randrange(SECOND // 10, 4 * SECOND)
        if not is_reordering:
            arrival = max([arrival, *(each[0] for each in under_way if each[1] != sender)])
        under_way.append((arrival, 1 - sender, reading, time, content))
        under_way.sort(key=lambda each: each[0])
        while under_way and under_way[0][0] <= time:
            arrived, receiver, sent, sent_at, content = under_way.pop(0)
            now = clocks[receiver].read(arrived)
            delays[sent] = arrived - sent_at
            if content is not None:
                ends[receiver].receive_reference(content, now)
            else:
                upper = ends[receiver].receive(sent, now)
                if upper is not None:
                    bounds.append((arrived - sent_at, upper))
    return bounds


@pytest.mark.parametrize("is_reordering", [False, True])
@pytest.mark.parametrize("drift", [Fraction(0), Fraction(100, 10**6), Fraction(1, 100)])
def test_no_delay_exceeds_its_bound_by_the_worst_clocks(drift: Fraction, is_reordering: bool) -> None:
    checked = 0
    for seed in range(40):
        random = Random(seed)
        clocks: list[Clock] = [SteadyClock(random, drift), SteadyClock(random, drift)]
        bounds = run_link(clocks, drift, random, is_reordering)
        assert all(delay <= upper for delay, upper in bounds)
        checked += len(bounds)
    assert checked > 1_000


@pytest.mark.parametrize("drift", [Fraction(0), Fraction(100, 10**6), Fraction(1, 100)])
def test_neither_the_choice_of_helper_nor_its_lower_bound_makes_a_bound_wider(drift: Fraction) -> None:
    """Of one message: with the chosen helper beside the last one, and with the last one's lower bound beside none."""
    tighter = [0, 0]
    for seed in range(20):
        random = Random(seed)
        here, there = SteadyClock(random, drift), SteadyClock(random, drift)
        bound = Drift(float(drift))
        receiver, sender = LinkDelays(bound), LinkDelays(bound)
        time = Fraction(0)
        for _ in range(40):
            time += random.randrange(1, 4 * SECOND)
            sent = here.read(time)
            told = receiver.reference(sent)
            time += random.randrange(SECOND // 10, 4 * SECOND)
            last = LinkDelays(bound)
            for each in (sender, last):
                each.receive_reference(told, there.read(time))
            left = there.read(time)
            chosen, of_last = sender.reference(left), last.reference(left)
            without = replace(of_last, helper_lower_bound=0)
            others = [LinkDelays(bound) for _ in range(3)]
            time += random.randrange(SECOND // 10, 4 * SECOND)
            now = here.read(time)
            bounds: list[int] = []
            for each, reference in zip(others, (chosen, of_last, without), strict=True):
                each.receive_reference(reference, now)
                upper = each.receive(left, now)
                assert upper is not None
                bounds.append(upper)
            assert bounds[0] <= bounds[1] + ROUNDING
            assert bounds[1] <= bounds[2]
            tighter = [tighter[0] + (bounds[0] < bounds[1]), tighter[1] + (bounds[1] < bounds[2])]
            receiver.receive_reference(chosen, now)
    assert min(tighter) > 50


def test_the_printed_sum_undershoots_where_the_division_does_not() -> None:
    # The clock here is slow by the whole drift: it shows 0.99 s in a second.
    drift = Fraction(1, 100)
    measured = floor(10 * SECOND * (1 - drift))
    assert measured * (1 + drift) < 10 * SECOND <= Drift(float(drift)).at_most(measured)


def test_no_delay_exceeds_its_bound_by_clocks_of_real_machines(data_folder: Path) -> None:
    records = defaultdict(list)
    with lzma.open(data_folder / "networks" / "clock_offsets_gnss_4nodes.csv.xz", "rt") as file:
        for row in csv.DictReader(file):
            at, offset = (round(Fraction(row[name]) * SECOND) for name in ("unix_time_ref", "offset_s"))
            records[row["experiment"], row["node"]].append((at, offset))
    recorded = [RecordedClock(each) for each in records.values() if len(each) > 500]
    checked = 0
    for seed in range(40):
        random = Random(seed)
        one, other = random.sample(recorded, 2)
        bounds = run_link([one, other], max(one.drift, other.drift), random, is_reordering=True)
        assert all(delay <= upper for delay, upper in bounds)
        checked += len(bounds)
    assert checked > 1_000

"""Palio beside other brokers: conditions are the same for all, deliveries are foretold, and a cell is measured."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from beside.measure import measure
from beside.of_palio import PALIO
from beside.tally import Tally, ages_of, milliseconds_at
from beside.work import GROUPS, PRICES, Expected, compiled, condition, event, read_seen
from hypothesis import given
from hypothesis import strategies as st

import palio


@given(st.integers(0, 10_000), st.integers(0, 100_000))
def test_a_compiled_filter_and_a_condition_want_the_same(subscription: int, number: int) -> None:
    published = event(number, 1.0)
    seen = read_seen(msgspec.json.encode(published))
    assert compiled(subscription)(seen) == palio.Filter.parse(condition(subscription)).matches(published)


def test_deliveries_are_foretold() -> None:
    expected = Expected(50)
    wants = [compiled(each) for each in range(50)]
    counted = 0
    for number in range(300):
        seen = read_seen(msgspec.json.encode(event(number, 1.0)))
        assert expected.upto(number) == counted
        counted += sum(each(seen) for each in wants)
    assert counted > 0
    assert expected.complete(counted) >= 300 - 1


def test_a_subscription_wants_one_event_in_a_hundred() -> None:
    whole = GROUPS * PRICES
    assert Expected(1).upto(whole) == whole // 100
    assert Expected(100).upto(whole) == whole


def test_ages_are_known_within_some_percent() -> None:
    tallies = [Tally(), Tally()]
    for tally in tallies:
        tally.saw(0.0)
    ages = ages_of(tallies)
    assert sum(ages) == sum(each.seen for each in tallies) == 2
    few, many = [0] * len(ages), [0] * len(ages)
    few[100], many[500] = 99, 1
    ages = [sum(each) for each in zip(few, many, strict=True)]
    assert milliseconds_at(ages, 0.5) < milliseconds_at(ages, 0.999)


def test_a_cell_is_measured() -> None:
    row = measure(PALIO, 20, 0.3)
    assert not row.note
    assert row.deliveries > 0
    assert row.events_per_second > 0
    assert row.p50 <= row.p99 <= row.p999


def test_what_is_not_installed_is_said() -> None:
    row = measure(replace(PALIO, command="no-such-server"), 1, 1.0)
    assert row.note == "no-such-server: not installed"

"""The benchmark of XRoute, in small: its tables are smaller, its difference sends less, and both searches agree."""

from __future__ import annotations

from statistics import fmean

import pytest
import xroute
from harness.nitf import read_schema


@pytest.fixture(scope="module")
def schema() -> object:
    read = read_schema()
    if read is None:
        pytest.skip("the NITF schema is not here; set PALIO_DATA to the folder that has it")
    return read


def test_tables_are_smaller_than_with_simple_routing(schema: object) -> None:
    aggregated, simple, _ = xroute.measure_tables(schema, 200, True)
    assert len(aggregated) == len(simple)
    assert all(small <= large for small, large in zip(aggregated, simple, strict=True))
    assert fmean(aggregated) < fmean(simple)


def test_the_difference_sends_fewer_messages(schema: object) -> None:
    messages = {router: xroute.measure_work(schema, 500, router)[0] for router in ("counters", "difference")}
    assert messages["difference"] < messages["counters"]


def test_both_searches_find_the_same(schema: object) -> None:
    # The comparison is part of the measurement.
    assert [row[0] for row in xroute.measure_search(schema, 60)] == ["contained", "containing"]

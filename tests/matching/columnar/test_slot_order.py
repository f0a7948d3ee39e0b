"""Constants and values that only exact arithmetic tells apart: a decimal may be below 1 and yet round to 1.0."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from palio.filters.filter import Filter
from palio.matching.columnar.slot_order import EXACT_FLOATS, decimal_cuts, float_cuts, number_cut
from palio.matching.matcher import Matcher

NEAR = ["0.99999999999999999", "1", "1.00000000000000001", "1.0000000000000002220446", "0.5", "2", "9007199254740993"]
LITERALS = st.sampled_from([*NEAR, *(f"{float(each)!r}D" for each in NEAR)])
CONDITIONS = st.builds("x {} {}".format, st.sampled_from(["<", "<=", "=", ">=", ">", "<>"]), LITERALS)
LISTS = st.builds("x IN ({}, {})".format, LITERALS, LITERALS)
WHERES = st.lists(st.lists(CONDITIONS | LISTS, min_size=1, max_size=3).map(" AND ".join), min_size=1, max_size=12)
VALUES = [*map(Decimal, NEAR), *map(float, NEAR), 1, 2, 2**53, 2**53 + 1]


@given(WHERES)
@example(["x = 1.0D AND x < 1"])
@example(["x IN (1, 2.5D) AND (x < 1 OR x > 2)", "x > 1.0D AND x <= 1.00000000000000001"])
def test_what_lies_between_two_constants_that_round_to_one_is_found(wheres: list[str]) -> None:
    matcher = Matcher()
    matcher.add_many([str(number) for number in range(len(wheres))], wheres)
    filters = [Filter.parse(where) for where in wheres]
    for value in VALUES:
        expected = {str(number) for number, each in enumerate(filters) if each.matches({"x": value})}
        assert matcher.match({"x": value}) == expected, value
    decimals = pa.table({"x": pa.array([Decimal(each) for each in NEAR], pa.decimal128(38, 22))})
    found = matcher.match_batch(decimals).to_pylist()
    assert {(each["row"], each["subscription"]) for each in found} == {
        (row, str(number))
        for row, value in enumerate(NEAR)
        for number, each in enumerate(filters)
        if each.matches({"x": Decimal(value)})
    }


@given(
    st.lists(st.tuples(st.integers(1 - EXACT_FLOATS, EXACT_FLOATS - 1), st.booleans()), min_size=1), st.integers(0, 15)
)
def test_cuts_at_many_decimals_are_those_at_each(cuts: list[tuple[int, bool]], scale: int) -> None:
    found = decimal_cuts(np.array([each for each, _ in cuts]), scale, np.array([after for _, after in cuts]))
    for at, (scaled, after) in enumerate(cuts):
        value = Decimal(scaled).scaleb(-scale)
        is_whole = value == value.to_integral_value()
        assert Decimal(found.exact.get(at, int(value))) == value
        expected = number_cut(int(value) if is_whole else value, after)
        assert (found.integers[at], found.orders[at], found.kinds[at]) == expected


@given(st.lists(st.floats(1 - EXACT_FLOATS, EXACT_FLOATS - 1), min_size=1), st.booleans())
def test_cuts_at_many_floats_are_those_at_each(values: list[float], after: bool) -> None:
    found = float_cuts(np.array(values), after)
    assert [*zip(found.integers, found.orders, found.kinds, strict=True)] == [
        number_cut(each, after) for each in values
    ]

"""A value lies in a condition's interval of slots exactly when the condition holds for it."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from palio.matching.columnar.axes import Axes
from palio.matching.columnar.axes_builder import AxesBuilder
from palio.matching.columnar.layout import FALSE, MISSING, NULL, TRUE
from palio.matching.columnar.slot_order import Cut, Region

# Numbers around the places where integers, floats and decimals part ways.
EDGES = [0, 1, 5, 2**53, 2**62, 2**63, 2**64, 10**30]
integers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-20, 20),
    st.builds(
        lambda edge, step, sign: sign * (edge + step),
        st.sampled_from(EDGES),
        st.integers(-3, 3),
        st.sampled_from([1, -1]),
    ),
)
short_integers = integers.filter(lambda value: -(2**63) <= value < 2**63)
floats = st.one_of(
    st.floats(),
    st.builds(float, st.integers(-20, 20)),
    st.builds(
        lambda edge, up: math.nextafter(float(edge), math.inf if up else -math.inf),
        st.sampled_from(EDGES),
        st.booleans(),
    ),
    st.sampled_from([math.inf, -math.inf, math.nan, -0.0, 0.1, 2.5, float(2**53), float(2**63), -float(2**63)]),
)
decimals = st.one_of(
    st.decimals(-30, 30, allow_nan=False, allow_infinity=False, places=2),
    st.builds(
        Decimal, st.sampled_from(["0.1", "-0.1", "0.10000000000000000001", "2.5", "9007199254740992.5", "1e25", "1.0"])
    ),
)
numbers = st.one_of(integers, floats, decimals)
texts = st.one_of(
    st.text(max_size=3),
    st.text("ab\0é\uffff😀", max_size=12),
    st.sampled_from(["", "a", "abcdefg", "abcdefgh", "abcdefghi"]),
)
blobs = st.binary(max_size=10)
dates = st.dates(date(1960, 1, 1), date(2040, 1, 1))
zones = st.sampled_from([None, UTC, timezone(timedelta(hours=-7, minutes=-30))])
times = st.datetimes(datetime(1960, 1, 1), datetime(2040, 1, 1), timezones=zones)


def rounded(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def compare(value: Any, constant: Any) -> int:
    """The sign of value - constant, as SQL compares numbers: an exact one is rounded before it meets a float."""
    if isinstance(value, float) or isinstance(constant, float):
        value, constant = rounded(value), rounded(constant)
        if math.isnan(value) or math.isnan(constant):
            return int(math.isnan(value)) - int(math.isnan(constant))
    return int(value > constant) - int(value < constant)


def above(value: Any, cut: Cut) -> bool:
    constant, after = cut
    if isinstance(constant, str):
        constant, value = constant.encode("utf-8", "surrogatepass"), value.encode("utf-8", "surrogatepass")
    if isinstance(constant, datetime):
        constant, value = (each.replace(tzinfo=each.tzinfo or UTC) for each in (constant, value))
    if isinstance(constant, int | float | Decimal):
        sign = compare(value, constant)
        return sign > 0 or (sign == 0 and not after)
    return bool(value > constant or (value == constant and not after))


def holds(value: Any, lower: Cut | None, upper: Cut | None) -> bool:
    return (lower is None or above(value, lower)) and not (upper is not None and above(value, upper))


def cut_pairs(constants: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Cut | None, Cut | None]]:
    cut = st.none() | st.tuples(constants, st.booleans())
    return st.one_of(st.tuples(cut, cut), constants.map(lambda each: ((each, False), (each, True))))


REGIONS = [
    (Region.NUMBER, numbers, st.one_of(short_integers, floats)),
    (Region.STRING, texts, texts),
    (Region.BYTES, blobs, blobs),
    (Region.DATE, dates, dates),
    (Region.TIMESTAMP, times, times),
]


def check(region: Region, pairs: list[tuple[Cut | None, Cut | None]], values: list[Any]) -> None:
    builder = AxesBuilder()
    other = builder.equal(2, Region.STRING, "elsewhere")
    handles = [builder.between(1, region, *pair) for pair in pairs]
    axes, intervals = builder.finish()
    assert intervals.axis[other] == 2
    values = values + [cut[0] for pair in pairs for cut in pair if cut is not None and usable(region, cut[0])]
    for value in values:
        if isinstance(value, Decimal | float) and not axes.places_fractions(1):
            continue
        slot = axes.slot(1, value)
        for handle, pair in zip(handles, pairs, strict=True):
            expected = holds(value, *pair)
            assert (intervals.lo[handle] <= slot <= intervals.hi[handle]) == expected, (value, pair, slot)


def usable(region: Region, constant: Any) -> bool:
    return region != Region.NUMBER or not isinstance(constant, int) or -(2**63) <= constant < 2**63


@pytest.mark.parametrize(("region", "constants", "values"), REGIONS, ids=lambda each: getattr(each, "name", ""))
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_values_lie_between_their_cuts(region: Region, constants: Any, values: Any, data: st.DataObject) -> None:
    pairs = data.draw(st.lists(cut_pairs(constants), min_size=1, max_size=12))
    check(region, pairs, data.draw(st.lists(values, max_size=12)))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(cut_pairs(numbers), min_size=1, max_size=8),
    st.lists(st.one_of(decimals, integers.map(Decimal)), max_size=8),
)
@example([((Decimal("0.99999999999999999999"), False), None), ((1, False), None)], [Decimal("0.99999999999999999999")])
def test_decimals_lie_between_their_cuts(pairs: list[tuple[Cut | None, Cut | None]], values: list[Decimal]) -> None:
    check(Region.NUMBER, pairs, list(values))


@settings(max_examples=60, deadline=None)
@given(st.integers(-(10**6), 10**6), st.integers(1, 4000), st.lists(st.one_of(short_integers, floats), max_size=40))
def test_many_cuts_are_found_by_their_leading_bits(first: int, step: int, values: list[Any]) -> None:
    pairs: list[tuple[Cut | None, Cut | None]] = [((first + step * at, False), None) for at in range(100)]
    near = [first + step * at + by for at in range(0, 100, 7) for by in (-1, 0, 1)]
    check(Region.NUMBER, pairs, values + near + [each + 0.5 for each in near])
    check(Region.NUMBER, [*pairs, ((first + 0.25, False), None)], values + near + [each + 0.5 for each in near])


@settings(max_examples=100, deadline=None)
@given(st.lists(texts, min_size=1, max_size=30), st.lists(texts, max_size=20))
def test_strings_that_are_only_compared_for_equality_have_a_slot_each(constants: list[str], others: list[str]) -> None:
    builder = AxesBuilder()
    handles = [builder.equal(0, Region.STRING, each) for each in constants]
    everything = builder.between(0, Region.STRING, None, None)
    axes, intervals = builder.finish()
    assert axes.sizes[0] == 9 + len(set(constants))
    for value in constants + others:
        slot = axes.slot(0, value)
        for handle, constant in zip(handles, constants, strict=True):
            assert (intervals.lo[handle] <= slot <= intervals.hi[handle]) == (value == constant)
        assert intervals.lo[everything] <= slot <= intervals.hi[everything]


def test_kinds_do_not_mix() -> None:
    builder = AxesBuilder()
    wholes = [builder.between(0, region, None, None) for region in Region]
    builder.equal(0, Region.NUMBER, 5)
    builder.equal(0, Region.STRING, "5")
    builder.between(0, Region.DATE, (date(2024, 1, 1), False), None)
    truth = [builder.fixed(0, FALSE, FALSE), builder.fixed(0, TRUE, TRUE)]
    present = builder.present(0)
    axes, intervals = builder.finish()
    values = [5, "5", date(2024, 1, 1), datetime(2024, 1, 1), b"5", False, True]
    for index, value in enumerate(values):
        slot = axes.slot(0, value)
        inside = [each for each in (*wholes, *truth) if intervals.lo[each] <= slot <= intervals.hi[each]]
        assert inside == [(*wholes, *truth)[index]]
        assert intervals.lo[present] <= slot <= intervals.hi[present]
    assert not intervals.lo[present] <= NULL <= intervals.hi[present]


def test_null_is_written_only_where_some_condition_tells_it_from_missing() -> None:
    builder = AxesBuilder()
    builder.fixed(0, MISSING, NULL)
    builder.fixed(1, NULL, NULL)
    builder.virtual(2)
    builder.fixed(2, 1, 1)
    builder.present(3)
    axes, _ = builder.finish()
    assert [axes.code(axis, None) for axis in range(4)] == [None, 1 << 32 | NULL, None, None]
    assert [axes.coder(axis)(None) for axis in range(4)] == [-1, 1 << 32 | NULL, -1, -1]
    assert axes.sizes.tolist() == [9, 9, 2, 9]


def test_a_coder_agrees_with_code_and_forgets_what_is_too_much() -> None:
    builder = AxesBuilder()
    for number in range(0, 10_000, 10):
        builder.equal(0, Region.NUMBER, number)
    for number in range(100):
        builder.equal(0, Region.STRING, f"text {number}")
    axes, _ = builder.finish()
    coder = axes.coder(0)
    values: list[Any] = [
        *range(-5, 9_000),
        *(f"text {number}" for number in range(200)),
        1.0,
        True,
        5.5,
        Decimal("5.5"),
    ]
    for value in values * 2:
        assert coder(value) == axes.code(0, value)
    with pytest.raises(TypeError, match="complex"):
        coder(1j)


def test_decimals_that_floats_confuse_are_owned_up_to() -> None:
    for constants, certain in [
        ([(Decimal("0.1"), True), (Decimal("0.2"), False)], True),
        ([(Decimal("0.1"), True), (Decimal("0.1"), False)], True),
        ([(Decimal("0.1"), True), (Decimal("0.10000000000000000001"), False)], False),
        ([(2**53, True), (2**53 + 1, False)], False),
        ([(5, True), (6, False)], True),
    ]:
        builder = AxesBuilder()
        for cut in constants:
            builder.between(0, Region.NUMBER, cut, None)
        assert builder.finish()[0].places_fractions(0) == certain


def test_axes_come_back_from_read_only_arrays() -> None:
    builder = AxesBuilder()
    for each in ["a", "a longer text", "b"]:
        builder.equal(0, Region.STRING, each)
    builder.between(0, Region.NUMBER, (1, False), (Decimal("2.75"), True))
    axes, _ = builder.finish()
    kept = {name: np.frombuffer(each.tobytes(), each.dtype).reshape(each.shape) for name, each in axes.arrays.items()}
    opened = Axes(kept)
    for value in ["a", "a longer text", "nothing", 1, 2, 2.75, Decimal("2.75"), Decimal("2.76"), 2.76]:
        assert opened.slot(0, value) == axes.slot(0, value)
    assert opened.nbytes == axes.nbytes > 0


def test_equality_with_a_float_that_is_not_a_number() -> None:
    builder = AxesBuilder()
    handle = builder.equal(0, Region.NUMBER, math.nan)
    again = builder.equal(0, Region.NUMBER, float("nan"))
    axes, intervals = builder.finish()
    assert intervals.lo[handle] == intervals.lo[again] == axes.slot(0, math.nan)
    assert axes.slot(0, math.inf) == intervals.lo[handle] - 1


@given(st.lists(st.tuples(st.integers(0, 3), integers, st.booleans()), max_size=30))
@settings(max_examples=50, deadline=None)
def test_axes_do_not_disturb_each_other(cuts: list[tuple[int, int, bool]]) -> None:
    assume(cuts)
    together = AxesBuilder()
    for axis, value, after in cuts:
        together.between(axis, Region.NUMBER, (value, after), None)
    axes, intervals = together.finish()
    for own in {axis for axis, _, _ in cuts}:
        alone = AxesBuilder()
        mine = [(at, cut) for at, cut in enumerate(cuts) if cut[0] == own]
        for _, (_, value, after) in mine:
            alone.between(0, Region.NUMBER, (value, after), None)
        _, expected = alone.finish()
        assert intervals.lo[[at for at, _ in mine]].tolist() == expected.lo.tolist()
        assert intervals.hi[[at for at, _ in mine]].tolist() == expected.hi.tolist()
    assert len(axes.sizes) == max(axis for axis, _, _ in cuts) + 1

"""A column of an Arrow batch is encoded as its values are, one by one."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio import EventError
from palio.matching.columnar import encoding_kernels as kernels
from palio.matching.columnar.arrow_columns import bind_columns
from palio.matching.columnar.axes import Axes
from palio.matching.columnar.axes_builder import AxesBuilder
from palio.matching.columnar.layout import NULL
from palio.matching.columnar.native import address_of
from palio.matching.columnar.postings import Conjunctions, Postings
from palio.matching.columnar.search import Searcher
from palio.matching.columnar.slot_order import Region

WORDS = [
    "",
    "a",
    "ab",
    "abcdefg",
    "abcdefgh",
    "abcdefghi",
    "é",
    "a\0",
    "a text that is longer than sixteen bytes",
    "zz",
]
NUMBERS = [-(2**63), -129, -1, 0, 1, 2, 100, 127, 200, 40_000, 2**31, 2**53, 2**63 - 1]
DAYS = [date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)]
TIMES = [datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(2024, 2, 29, 12, 0, 0, 500_000, UTC)]


def everything(*, ordered: bool, nulls: bool) -> Axes:
    """One axis with constants of every kind."""
    builder = AxesBuilder()
    for number in [*NUMBERS, 0.5, 1e300, Decimal("0.25")]:
        builder.equal(0, Region.NUMBER, number)
    for word in WORDS[:-1]:
        builder.equal(0, Region.STRING, word)
        builder.equal(0, Region.BYTES, word.encode())
    if ordered:
        builder.between(0, Region.STRING, ("ab", True), ("b", False))
        builder.between(0, Region.BYTES, (b"ab", True), (b"b", False))
    for day in DAYS:
        builder.between(0, Region.DATE, (day, False), None)
    for time in TIMES:
        builder.between(0, Region.TIMESTAMP, (time, False), None)
    builder.fixed(0, NULL if nulls else 0, NULL)
    return builder.finish()[0]


AXES = {
    (ordered, nulls): everything(ordered=ordered, nulls=nulls) for ordered in (False, True) for nulls in (False, True)
}


def encode(axes: Axes, column: pa.Array) -> list[int | None]:
    """The codes of a column, by the kernel; None where there is none."""
    bound = bind_columns(axes, [(0, column)], len(column))
    codes, lengths = np.zeros(len(column) + 1, np.int64), np.zeros(len(column) + 1, np.int32)
    kernels.encode_columns(
        axes.address, bound.address, bound.count, 0, len(column), address_of(codes), 1, address_of(lengths)
    )
    return [code if length else None for code, length in zip(codes[:-1].tolist(), lengths[:-1].tolist(), strict=True)]


def within(low: int, high: int) -> st.SearchStrategy[int]:
    usual = [number for number in NUMBERS if low <= number <= high]
    return st.one_of(st.sampled_from(usual), st.integers(low, high))


INTEGERS = [
    (data_type, within(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
    for bits, data_type in ((8, pa.int8()), (16, pa.int16()), (32, pa.int32()), (64, pa.int64()))
]
UNSIGNED = [
    (data_type, within(0, 2**bits - 1))
    for bits, data_type in ((8, pa.uint8()), (16, pa.uint16()), (32, pa.uint32()), (64, pa.uint64()))
]
words = st.one_of(st.sampled_from(WORDS), st.text(max_size=12))
days_and_times = st.datetimes(datetime(1960, 1, 1), datetime(2040, 1, 1))
moments = st.one_of(st.sampled_from(TIMES), days_and_times.map(lambda time: time.replace(tzinfo=UTC)))
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    *INTEGERS,
    *UNSIGNED,
    (pa.bool_(), st.booleans()),
    (pa.float32(), st.one_of(st.sampled_from([0.5, -0.0, float("nan")]), st.floats(width=32))),
    (pa.float64(), st.one_of(st.sampled_from([0.5, -0.0, 1.0, 2.0**53, float("nan"), float("inf")]), st.floats())),
    *((each, words) for each in (pa.string(), pa.large_string(), pa.string_view())),
    *((each, words.map(str.encode)) for each in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.date32(), st.one_of(st.sampled_from(DAYS), st.dates(date(1960, 1, 1), date(2040, 1, 1)))),
    (pa.date64(), st.one_of(st.sampled_from(DAYS), st.dates(date(1960, 1, 1), date(2040, 1, 1)))),
    *((pa.timestamp(unit, "UTC"), moments) for unit in ("us", "ns")),
    (pa.timestamp("ms", "UTC"), moments.map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))),
    (pa.timestamp("s", "UTC"), moments.map(lambda time: time.replace(microsecond=0))),
    (pa.decimal128(38, 4), st.decimals(-(10**9), 10**9, places=4)),
]


def plain(value: Any) -> Any:
    return value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value


@pytest.mark.parametrize(
    ("data_type", "values"), KINDS, ids=lambda each: str(each) if isinstance(each, pa.DataType) else ""
)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_columns_are_encoded_as_their_values_are(data_type: pa.DataType, values: Any, data: st.DataObject) -> None:
    listed = data.draw(st.lists(st.none() | values, max_size=70))
    axes = AXES[data.draw(st.booleans()), data.draw(st.booleans())]
    column = pa.array(listed, data_type)
    skipped = data.draw(st.integers(0, len(listed)))
    if data.draw(st.booleans()):
        column = column.dictionary_encode() if data_type not in (pa.string_view(), pa.binary_view()) else column
    column = column.slice(skipped)
    assert encode(axes, column) == [axes.code(0, plain(value)) for value in column.to_pylist()]


def short(places: int) -> st.SearchStrategy[Decimal]:
    """Decimals around constants of few digits, and now and then one of many."""
    near = st.sampled_from(["0.1", "0.3", "12.34", "100", "-7.5", "0.30000000000000004", "0", "-0.1"]).map(Decimal)
    steps = st.integers(-3, 3).map(lambda step: Decimal(step).scaleb(-places))
    some = st.builds(lambda number, step: (number + step).quantize(Decimal(1).scaleb(-places)), near, steps)
    return st.one_of(some, some, some, st.decimals(-(10**16), 10**16, places=places))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_decimals_are_encoded_as_their_values_are_by_constants_of_few_digits_or_many(data: st.DataObject) -> None:
    places = data.draw(st.sampled_from([0, 1, 2, 9, 15, 16, 20]))
    constants = st.one_of(
        short(2), short(places), st.integers(-200, 200), st.sampled_from([0.1, 0.3, 12.34, 1e300, -0.0, 2**53 + 1])
    )
    builder = AxesBuilder()
    for number, after in data.draw(st.lists(st.tuples(constants, st.booleans()), min_size=1, max_size=9)):
        builder.between(0, Region.NUMBER, (number, after), None)
    axes = builder.finish()[0]
    column = pa.array(data.draw(st.lists(st.none() | short(places), max_size=30)), pa.decimal128(38, places))
    column = column.slice(data.draw(st.integers(0, len(column))))
    if axes.places_fractions(0):
        assert encode(axes, column) == [axes.code(0, value) for value in column.to_pylist()]


def test_decimals_of_few_digits_are_no_dictionary() -> None:
    builder = AxesBuilder()
    for number in (5, 0.1, Decimal("0.1"), Decimal("12.34")):
        builder.equal(0, Region.NUMBER, number)
    axes = builder.finish()[0]
    assert axes.rounds_safely(0)
    assert not AXES[True, True].rounds_safely(0)
    column = pa.array([Decimal("0.10"), None, Decimal("12.34"), Decimal("99999999999999.99")], pa.decimal128(20, 2))
    assert [len(kept[1]) for kept in bind_columns(axes, [(0, column[:3])], 3).kept] == [2]  # validity and values
    assert len(bind_columns(axes, [(0, column)], 4).kept) == 2  # and the slots of the values of a dictionary


def test_a_column_of_nothing_but_null() -> None:
    assert encode(AXES[True, False], pa.nulls(40)) == [None] * 40
    assert encode(AXES[True, True], pa.nulls(40)) == [NULL] * 40
    assert encode(AXES[True, True], pa.nulls(40, pa.string())) == [NULL] * 40


@pytest.mark.parametrize(
    "index", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
)
def test_dictionaries_of_any_index_and_with_nulls_inside(index: pa.DataType) -> None:
    axes = AXES[False, False]
    values = (
        [f"v{number}" for number in range(199)] + ["ab"] if index.bit_width > 8 or index == pa.uint8() else ["ab", "x"]
    )
    places = pa.array([len(values) - 1, None, 0, len(values) - 1], index)
    column = pa.DictionaryArray.from_arrays(places, pa.array(values))
    assert encode(axes, column) == [axes.code(0, value) for value in column.to_pylist()]
    hollow = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 0], index), pa.array([None, "ab", "a"]))
    assert encode(axes, hollow) == [None, axes.code(0, "ab"), axes.code(0, "a"), None, None]


def test_nanoseconds_are_cut_to_microseconds_towards_the_past() -> None:
    axes = AXES[False, False]
    column = pa.array([-1, -1000, -1001, 1, 999], pa.timestamp("ns"))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    micro = timedelta(microseconds=1)
    assert encode(axes, column) == [axes.code(0, epoch - at * micro) for at in (1, 1, 2, 0, 0)]


def test_columns_that_no_condition_can_ask_of_are_refused() -> None:
    for column in (pa.array([[1]]), pa.array([{"a": 1}]), pa.array([timedelta(1)])):
        with pytest.raises(EventError, match="cannot hold the Arrow type"):
            bind_columns(AXES[False, False], [(0, column)], 1)
    with pytest.raises(ValueError, match="2 rows in a batch of 3"):
        bind_columns(AXES[False, False], [(0, pa.array([1, 2]))], 3)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_batch_gives_what_its_rows_give(data: st.DataObject) -> None:
    builder = AxesBuilder()
    words = [builder.equal(0, Region.STRING, word) for word in WORDS]
    numbers = [builder.between(1, Region.NUMBER, (number, False), None) for number in NUMBERS]
    builder.virtual(2)
    hit = builder.fixed(2, 1, 1)
    axes, intervals = builder.finish()
    pick = data.draw(st.lists(st.tuples(st.sampled_from(words), st.sampled_from(numbers), st.booleans()), max_size=40))
    rows = [[word, number, *([hit] if virtual else [])] for word, number, virtual in pick]
    handles = np.array([handle for row in rows for handle in row], np.int64)
    start = np.cumsum([0, *(len(row) for row in rows)])
    conjunctions = Conjunctions(
        np.arange(len(rows), dtype=np.int32),
        start,
        intervals.axis[handles],
        intervals.lo[handles],
        intervals.hi[handles],
    )
    searcher = Searcher(axes, Postings.build(conjunctions, axes.sizes))
    count = data.draw(st.sampled_from([0, 1, 31, 33, 600, 1100]))
    choose = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    texts = [None if choose.random() < 0.2 else str(choose.choice(WORDS)) for _ in range(count)]
    values = [None if choose.random() < 0.2 else int(choose.choice(NUMBERS)) for _ in range(count)]
    hits = choose.random(count) < 0.3
    columns = [(0, pa.array(texts, pa.string())), (1, pa.array(values, pa.int64()))]
    extras = (np.concatenate([[0], np.cumsum(hits)]).astype(np.int64), np.full(int(hits.sum()), 2 << 32 | 1, np.int64))
    ends, found = searcher.match_columns(bind_columns(axes, columns, count), extras)
    begins = np.concatenate([[0], ends[:-1]]).astype(int)
    for row in range(count):
        codes = [axes.code(0, texts[row]), axes.code(1, values[row]), 2 << 32 | 1 if hits[row] else None]
        expected = searcher.match_one([code for code in codes if code is not None])
        assert sorted(found[begins[row] : ends[row]].tolist()) == sorted(expected)

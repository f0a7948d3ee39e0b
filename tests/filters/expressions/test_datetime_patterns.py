"""Tests of datetime patterns: Spark's results, or rejection with a reason."""

from __future__ import annotations

import contextlib
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio.filters.expressions.datetime_patterns import for_reading, for_writing
from palio.filters.expressions.pattern_functions import PREPARED
from palio.filters.filter import Filter
from tests.filters.expressions.generator import quoted
from tests.filters.expressions.spark_oracle import RAISES, SparkOracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAP = datetime(2024, 2, 29, 13, 5, 9, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        ("yyyy-MM-dd HH:mm:ss", "2024-02-29 13:05:09"),
        ("d/M/yy h a", "29/2/24 1 PM"),
        ("EEEE, d MMMM", "Thursday, 29 February"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2024-02-29T13:05:09.123Z"),
        ("QQQ 'of' y", "Q1 of 2024"),
        ("DDD''k", "060'13"),
    ],
)
def test_a_moment_is_written_as_a_pattern_says(pattern: str, written: str) -> None:
    assert for_writing(pattern).write(LEAP, "UTC") == written


def test_a_moment_is_written_as_the_clocks_of_the_zone_show_it() -> None:
    assert for_writing("HH:mm XXX").write(LEAP, "Asia/Kathmandu") == "18:50 +05:45"


@pytest.mark.parametrize(
    ("pattern", "text", "moment"),
    [
        ("yyyy-MM-dd", "2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
        ("yyyyMMdd", "20240229", datetime(2024, 2, 29, tzinfo=UTC)),
        ("dd/MMM/yyyy:HH:mm:ss Z", "29/Feb/2024:13:05:09 +0100", datetime(2024, 2, 29, 12, 5, 9, tzinfo=UTC)),
        ("yyyy-MM-dd[ HH:mm]", "2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
        ("yyyy-MM-dd[ HH:mm]", "2024-02-29 13:05", datetime(2024, 2, 29, 13, 5, tzinfo=UTC)),
        ("HH", "07", datetime(1970, 1, 1, 7, tzinfo=UTC)),
        ("yyyy-MM-dd", "2023-02-29", None),
        ("yyyy-MM-dd", "2024-2-29", None),
        ("yyyy-MM-dd", "2024-02-29 ", None),
        ("h a", "13 PM", None),
        ("yyyy-MM-dd", "２０２４-02-29", None),
    ],
)
def test_a_text_is_read_as_a_pattern_says_or_not_at_all(pattern: str, text: str, moment: datetime | None) -> None:
    assert for_reading(pattern).read(text, "UTC") == moment


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("yyyy-ww", "Spark has no letters for weeks"),
        ("yyyy VV", "names of zones"),
        ("G", "our era"),
        ("yyyyyyy", "too often"),
        ("b", "the letters are"),
        ("'T", "never closed"),
        ("[yyyy", "never closed"),
        ("yyyy]", "no \\["),
        ("#", "no meaning"),
        ("y" * 2_000, "at most 1,000"),
    ],
)
def test_what_is_no_pattern_is_refused_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        for_writing(pattern)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("EEE d MMM", "only for writing"),
        ("Q", "only for writing"),
        ("yyyy yyyy", "twice"),
        ("HH hh", "twice"),
        ("yyyy a", "no hour"),
        ("yyyy-DDD dd", "beside which"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(pattern: str, reason: str) -> None:
    for_writing(pattern)
    with pytest.raises(ValueError, match=reason):
        for_reading(pattern)


@given(st.text(max_size=12) | st.text("yMdHhKkmsSaDEQXxZ[]'-: ", max_size=12), st.text(max_size=20))
def test_any_pattern_is_taken_or_refused_and_reads_any_text_or_not(pattern: str, text: str) -> None:
    try:
        for_writing(pattern).write(LEAP, "UTC")
        read = for_reading(pattern).read
    except ValueError:
        return
    with contextlib.suppress(ValueError, OverflowError):  # which is NULL where the function is computed
        read(text, "UTC")


# --- Spark -------------------------------------------------------------------------------------------------

MOMENTS = (
    LEAP,
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1583, 5, 17, 8, 0, 0, 1, tzinfo=UTC),
    datetime(2099, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2000, 10, 5, 0, 7, 9, 500000, tzinfo=UTC),
)
ZONES = ("UTC", "America/St_Johns", "Asia/Tokyo")
SEPARATORS = ("-", "/", " ", ":", ".", "", "", "", "'T'", "[", "]", ", ", "''")


def random_time_pattern(source: random.Random) -> str:
    """Fields as people write them, or any letters in any number."""
    pick = source.choice
    if source.random() < 0.5:
        fields = ["y" * pick((1, 2, 3, 4, 4, 4, 4, 5, 6)), pick(("M", "MM", "MM", "MMM", "MMMM")), pick(("d", "dd"))]
        fields += [pick(("H", "HH", "hh", "h", "K", "kk")), pick(("m", "mm")), pick(("s", "ss"))] * pick((0, 1))
        fields += [pick(("S", "SSS", "SSSSSS", "SSSSSSSSS"))] * pick((0, 0, 1))
        fields += [pick(("X", "XXX", "x", "xx", "Z", "ZZZZZ", "XX", "XXXXX"))] * pick((0, 0, 1))
    else:
        fields = [
            pick("yyyMMMMdddDHHHhKkmmsssSSSaEQLqXxZ") * pick((1, 1, 2, 2, 3, 4, 5)) for _ in range(pick((1, 2, 3)))
        ]
    made, depth = fields[0], 0
    for each in fields[1:]:
        separator = pick(SEPARATORS)
        if separator == "]" and not depth:
            separator = ""
        depth += (separator == "[") - (separator == "]")
        made += separator + each
    return made + "]" * depth


def damaged(source: random.Random, text: str) -> str:
    """A text with one character lost, doubled or replaced, or as it is."""
    if not text or source.random() < 0.5:
        return text
    at = source.randrange(len(text))
    return text[:at] + source.choice(("", "0", "9", "-", " ", "a", text[at] * 2)) + text[at + 1 :]


def computed(name: str, pattern: str, zone: str, value: Any) -> Any:
    try:
        return PREPARED[name](pattern)(zone, value)
    except (ValueError, OverflowError):
        return None


def compare_with_spark(spark: SparkSession, folder: Any, seed: int, count: int) -> None:
    source = random.Random(seed)
    tables = {zone: SparkOracle(spark, [{}], folder / zone.replace("/", "_"), zone) for zone in ZONES}

    def in_spark(zone: str, sql: str) -> Any:
        (value,) = tables[zone].values(sql)  # type: ignore[misc]
        return value

    for _ in range(count):
        pattern, moment, zone = random_time_pattern(source), source.choice(MOMENTS), source.choice(ZONES)
        theirs = in_spark(zone, f"date_format(TIMESTAMP'{moment:%Y-%m-%d %H:%M:%S.%f}Z', {quoted(pattern)})")
        mine = computed("date_format", pattern, zone, moment)
        assert (mine, pattern) == (None if theirs is RAISES else theirs, pattern)
        if theirs is RAISES:
            continue
        try:
            for_reading(pattern)
        except ValueError:
            continue  # a few that Spark takes are refused, and said to be
        for _ in range(2):
            text = damaged(source, theirs)
            read = in_spark(zone, f"to_timestamp({quoted(text)}, {quoted(pattern)})")
            mine = computed("to_timestamp", pattern, zone, text)
            assert (mine, text, pattern) == (None if read is RAISES else read, text, pattern)


@pytest.mark.parametrize("function", ["to_date", "to_timestamp", "unix_timestamp"])
def test_a_time_needs_no_pattern_so_that_null_for_one_does_not_matter(function: str) -> None:
    """As in Spark, which does not look at the pattern unless it has a text to read."""
    moment = datetime(2024, 1, 31, tzinfo=UTC)
    wanted = Filter.parse(f"{function}(t, NULL) = {function}(t)")
    assert wanted.matches({"t": moment})
    assert wanted.matches({"t": moment.date()})
    assert not wanted.matches({"t": "2024-01-31 00:00:00"})


def test_spark_writes_and_reads_the_same(spark: SparkSession, tmp_path: Any) -> None:
    compare_with_spark(spark, tmp_path, seed=1, count=60)


@pytest.mark.deep
@settings(max_examples=15)
@given(seed=st.integers(2, 2**32))
def test_spark_writes_and_reads_the_same_in_many_more(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    compare_with_spark(spark, tmp_path_factory.mktemp("patterns"), seed, count=100)

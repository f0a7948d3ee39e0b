"""Tests of filters with several time zones: combined, printed, saved and merged."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Matcher
from palio.errors import ParseError
from palio.filters.expressions.text_cast import zone_of
from palio.filters.filter import Filter
from tests.strategies import attributes, readable_conditions

parse = Filter.parse
NEW_YORK, TOKYO = "America/New_York", "Asia/Tokyo"
HOURS = [{"t": datetime(2024, 1, 1, hour, minute, tzinfo=UTC), "h": 7} for hour in range(24) for minute in (5, 35)]


def in_zones(condition: str, other: str) -> tuple[Filter, Filter]:
    return parse(condition, timezone=NEW_YORK), parse(other, timezone=TOKYO)


@pytest.mark.parametrize(
    ("condition", "other"),
    [
        ("hour(t) = 3", "hour(t) = 3"),
        ("hour(t) > h", "minute(t) > h AND hour(t) < h"),
        ("t > '2024-01-01'", "hour(t) = 1"),
    ],
)
def test_what_is_combined_of_two_zones_reads_back_and_means_the_same(
    condition: str, other: str, tmp_path: Path
) -> None:
    one, two = in_zones(condition, other)
    combined = {"or": one | two, "and": one & two, "not": ~(one | two), "merged": one.merge(two)}
    wants = Matcher()
    for name, wanted in combined.items():
        assert parse(str(wanted), timezone=wanted.timezone) == wanted
        assert pickle.loads(pickle.dumps(wanted)) == wanted
        wants.add(name, wanted)
    expected = [{name for name, wanted in combined.items() if wanted.matches(event)} for event in HOURS]
    for event, found in zip(HOURS, expected, strict=True):
        assert ("or" in found) is (one.matches(event) or two.matches(event))
        assert ("and" in found) is (one.matches(event) and two.matches(event))
    assert [wants.match(event) for event in HOURS] == expected
    wants.save(tmp_path / "wants.palio")
    opened = Matcher.open(tmp_path / "wants.palio")
    assert [opened.match(event) for event in HOURS] == expected
    opened.add("another", "q = 1")
    opened.merge()
    assert [opened.match(event) for event in HOURS] == expected


def test_one_zone_is_told_beside_the_text_and_several_in_it() -> None:
    one, two = in_zones("hour(t) = 3", "hour(t) = 3")
    assert (str(one), one.timezone) == ("hour(t) = 3", NEW_YORK)
    assert str(one | two) == "in_timezone('America/New_York', hour(t) = 3) OR in_timezone('Asia/Tokyo', hour(t) = 3)"
    assert (one | two).timezone == "UTC"
    assert repr(one | two) == f"Filter.parse({str(one | two)!r})"
    assert one != two
    assert not one.covers(two)
    assert (one | two).covers(two)
    assert one.is_plain_sql
    assert not (one | two).is_plain_sql


@given(
    readable_conditions(),
    readable_conditions(),
    st.sampled_from(["UTC", NEW_YORK, "+05:30"]),
    st.sampled_from(["UTC", TOKYO]),
    st.lists(attributes(), min_size=1, max_size=4),
)
def test_any_filters_of_two_zones_read_back(
    one: str, two: str, here: str, there: str, events: list[dict[str, Any]]
) -> None:
    first, second = parse(one, timezone=here), parse(two, timezone=there)
    for wanted in (first | second, first & second, ~(first & second)):
        assert parse(str(wanted), timezone=wanted.timezone) == wanted
    for event in events:
        either = first.matches_attributes(event) or second.matches_attributes(event)
        assert (first | second).matches_attributes(event) is either


class TestWrittenByHand:
    def test_a_condition_is_read_and_computed_on_the_clocks_of_its_zone(self) -> None:
        wanted = parse(
            "in_timezone('Asia/Tokyo', t >= TIMESTAMP'2024-01-01 09:00:00' AND hour(t) > 8) AND hour(t) > 10"
        )
        assert [event["t"].hour for event in HOURS[::2] if wanted.matches(event)] == [11, 12, 13, 14]

    def test_it_may_stand_within_logic_and_within_another(self) -> None:
        inner = parse("hour(t) = 3", timezone=TOKYO)
        assert parse("NOT in_timezone('Asia/Tokyo', hour(t) = 3)") == ~inner
        assert parse("in_timezone('UTC', in_timezone('Asia/Tokyo', hour(t) = 3))") == inner
        assert parse("in_timezone('Asia/Tokyo', hour(t) = 3) IS TRUE") == inner

    @pytest.mark.parametrize(
        ("condition", "said"),
        [
            ("in_timezone('Nowhere', x > 1)", "there is no time zone 'Nowhere'"),
            ("in_timezone(zone, x > 1)", "as a literal"),
            ("in_timezone('UTC')", "behind the time zone stands a condition"),
            ("in_timezone('UTC', x > 1) = y", "around a whole condition"),
            ("in_timezone('UTC', x > 1) IS NULL", "around a whole condition"),
            ("in_timezone('UTC', upper(x))", "a value, not a condition"),
        ],
    )
    def test_anything_else_is_refused(self, condition: str, said: str) -> None:
        with pytest.raises(ParseError, match=said):
            parse(condition)

    def test_an_attribute_may_have_that_name(self) -> None:
        assert parse("in_timezone = 1").matches({"in_timezone": 1})


def test_changes_of_the_clocks_come_from_the_package_not_from_the_machine(tmp_path: Path) -> None:
    """In a process that finds a database in which New York has the clocks of Tokyo."""
    (tmp_path / "America").mkdir()
    clocks = (resources.files("tzdata") / "zoneinfo" / "Asia" / "Tokyo").read_bytes()
    (tmp_path / "America" / "New_York").write_bytes(clocks)
    program = (
        "from datetime import UTC, datetime; from palio import Filter; moment = datetime(2024, 7, 1, 11, tzinfo=UTC); "
        "print(Filter.parse('hour(t) = 7', timezone='America/New_York').matches({'t': moment}))"
    )
    environment = {**os.environ, "PYTHONTZPATH": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert ran.stdout == "True\n"


@pytest.mark.parametrize("name", ["../../etc/passwd", "America", "Factory", "america/new_york", "zone.tab", "", "/UTC"])
def test_what_is_no_name_of_a_zone_is_none(name: str) -> None:
    assert zone_of(name) is None

"""CESQL filters in the matchers: event by event, in batches, and after saving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio import Filter, Matcher
from tests.languages.cesql.expressions import NAMES, WORDS, events, expressions, simple_conditions, text_of

_some = st.lists(
    st.one_of(simple_conditions(), simple_conditions(), expressions()).map(text_of), min_size=1, max_size=6
)


def matched_in(batch: Any) -> set[tuple[int, str]]:
    return set(zip(batch["row"].to_pylist(), batch["subscription"].to_pylist(), strict=True))


@settings(max_examples=40)
@given(_some, st.lists(events(), min_size=1, max_size=5))
def test_a_matcher_finds_the_filters_that_match(texts: list[str], several: list[dict[str, Any]]) -> None:
    matcher = Matcher()
    matcher.add_many([str(at) for at in range(len(texts))], texts, language="cesql")
    filters = [Filter.parse(text, language="cesql") for text in texts]
    expected = {
        (row, str(at)) for row, event in enumerate(several) for at, each in enumerate(filters) if each.matches(event)
    }
    assert {(row, id) for row, event in enumerate(several) for id in matcher.match(event)} == expected
    assert matched_in(matcher.match_batch(several)) == expected


_columns = {
    "a": st.sampled_from([*WORDS, None]),
    "b": st.integers(-(2**33), 2**33) | st.sampled_from([0, 1, 5, None]),
    "x1": st.sampled_from([True, False, None]),
    "id": st.sampled_from([5.0, 1.5, -0.0, float("nan"), None]),
}


@settings(max_examples=25)
@given(_some, st.lists(st.fixed_dictionaries(_columns), min_size=1, max_size=6))
def test_a_table_is_matched_as_its_rows_are(texts: list[str], rows: list[dict[str, Any]]) -> None:
    types = {"a": pa.string(), "b": pa.int64(), "x1": pa.bool_(), "id": pa.float64()}
    table = pa.table({name: pa.array([row[name] for row in rows], types[name]) for name in NAMES})
    matcher = Matcher()
    matcher.add_many([str(at) for at in range(len(texts))], texts, language="cesql")
    filters = [Filter.parse(text, language="cesql") for text in texts]
    expected = {
        (row, str(at)) for row, event in enumerate(rows) for at, each in enumerate(filters) if each.matches(event)
    }
    assert matched_in(matcher.match_batch(table)) == expected


ARRAYS: list[Any] = [[5.0, 3], [3, 5.0, "7"], ["+3", 9], [True, "x"], [2**40, "2"], [5], ["4", 4.0, None]]


@pytest.mark.parametrize(
    "text", ["n < 5", "n > 5", "n = 3", "n != 3", "n >= 2 AND n < 4", "NOT (n < 5)", "n IN (3, '+3')"]
)
def test_of_several_values_one_must_satisfy_a_condition(text: str) -> None:
    wanted = Filter.parse(text, language="cesql")
    matcher = Matcher()
    matcher.add("it", text, language="cesql")
    several = [{"n": values} for values in ARRAYS]
    expected = {(row, "it") for row, event in enumerate(several) if any(wanted.matches({"n": n}) for n in event["n"])}
    assert {(row, "it") for row, event in enumerate(several) if wanted.matches(event)} == expected
    assert {(row, id) for row, event in enumerate(several) for id in matcher.match(event)} == expected
    assert matched_in(matcher.match_batch(several)) == expected


def test_a_saved_matcher_is_the_same(tmp_path: Path) -> None:
    texts = [
        "hop < ttl",
        "hop < 5",
        "hop = 5 OR s LIKE '%x'",
        "s LIKE '%5'",
        "NOT (s = 'x')",
        "LENGTH(s) > 2",
        "s XOR hop",
    ]
    matcher = Matcher()
    matcher.add_many(texts, texts, language="cesql")
    matcher.save(tmp_path / "cesql.palio")
    opened = Matcher.open(tmp_path / "cesql.palio")
    several = [
        {"hop": hop, "ttl": ttl, "s": s}
        for hop in (1, "04", 5, 7.0, None, True)
        for ttl in (6, "x")
        for s in ("x", "abx", "15", 5, 2.5, "true")
    ]
    for event in several:
        expected = {text for text in texts if Filter.parse(text, language="cesql").matches(event)}
        assert matcher.match(event) == opened.match(event) == expected
    assert matched_in(opened.match_batch(several)) == matched_in(matcher.match_batch(several))

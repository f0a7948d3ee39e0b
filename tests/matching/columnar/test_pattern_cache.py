"""Kernels find for columns of strings the tests that Python, their specification, finds for single values."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from palio import Filter, Matcher
from palio.filters.like import LikePattern
from palio.filters.regex import Regex
from palio.filters.value_predicates import Like, Rlike, Test
from palio.matching.columnar import pattern_cache
from palio.matching.columnar.arrow_columns import bind_columns
from palio.matching.columnar.axes import Axes
from palio.matching.columnar.axes_builder import AxesBuilder
from palio.matching.columnar.conditions import WholeEventSearch
from palio.matching.columnar.layout import MAX_CACHED_VALUE_BYTES, MAX_FOLDED_BYTES, WORD_SHARED
from palio.matching.columnar.pattern_cache import PatternCache, PatternColumn, SearchEvaluator, TextColumn
from palio.matching.columnar.patterns import AttributeTests, EventSearches

LETTERS = "abAB.-% kKıİ\u212aéÉ®_\0"
texts = st.text(st.sampled_from(LETTERS), max_size=12)
patterns = st.text(st.sampled_from("aabAB.-%%_ kKİé"), max_size=9).filter(lambda text: "\\" not in text)


@st.composite
def value_tests(draw: st.DrawFn) -> list[Any]:
    likes = draw(st.lists(st.tuples(patterns, st.booleans()), max_size=12, unique=True))
    made: dict[Test, None] = {Test(Like(LikePattern.parse(text, ignore_case=folded))): None for text, folded in likes}
    for text in draw(st.lists(st.sampled_from(["a+b", "^a", "k$", "(?i)AB", "é", "a.b", "-"]), max_size=3)):
        made[Test(Rlike(Regex.compile(text)))] = None
    return [(axis << 32 | 1, test) for axis, test in enumerate(made)]


@st.composite
def searches(draw: st.DrawFn) -> list[tuple[int, WholeEventSearch]]:
    wanted = draw(st.lists(st.tuples(st.sampled_from(["any_value_like", "any_value_ilike"]), patterns), max_size=4))
    made = dict.fromkeys(WholeEventSearch(function, text) for function, text in wanted)
    return [((1000 + number) << 32 | 1, search) for number, search in enumerate(made)]


NO_AXES: Axes = AxesBuilder().finish()[0]


def words_of(
    column: PatternColumn, values: list[str | None], memory: PatternCache, kind: pa.DataType
) -> list[set[int]]:
    """The words of every value of a column, as the kernels find them."""
    array = pa.array(values, kind)
    bound = bind_columns(NO_AXES, [(0, array)], len(values))
    text = TextColumn("x", bound.address_of(0), lambda row: array[row].as_py())
    found = memory.look_up({"x": column}, [text], len(values))
    # The arrays are what the kernel reads; they have no other reader.
    (cache,) = memory._caches.values()
    rows = []
    for number in found._ids[0].tolist():
        first, count = cache._entries[number, 2:4].tolist() if number >= 0 else (0, 0)
        words = cache._words[first : first + count].tolist()
        assert len(set(words)) == len(words)
        rows.append(set(words))
    return rows


@given(value_tests(), searches(), st.lists(st.lists(st.one_of(st.none(), texts), max_size=40), max_size=4))
@example([(1, Test(Like(LikePattern.parse("%k%", ignore_case=True))))], [], [["\u212aelvin", "K", "x" * 300 + "k"]])
def test_kernels_find_what_python_finds(
    tests: list[Any], searched: list[tuple[int, WholeEventSearch]], batches: list[list[str | None]]
) -> None:
    own_tests = AttributeTests(tests)
    through = EventSearches(searched)
    column = PatternColumn(own_tests, SearchEvaluator(through) if searched else None)
    memory = PatternCache()
    for number, values in enumerate(batches):
        found = words_of(column, values, memory, [pa.string(), pa.large_string()][number % 2])
        for value, words in zip(values, found, strict=True):
            expected = set[int]()
            if value is not None:
                expected = {*own_tests.codes(value), *(code | WORD_SHARED for code in through.of_value(value))}
            assert words == expected


@given(searches().filter(bool), st.lists(st.one_of(st.none(), texts), max_size=60))
def test_columns_that_are_only_searched_are_searched(
    searched: list[tuple[int, WholeEventSearch]], values: list[str | None]
) -> None:
    through = EventSearches(searched)
    array = pa.array(values, pa.string())
    bound = bind_columns(NO_AXES, [(0, array)], len(values))
    column = TextColumn("x", bound.address_of(0), lambda row: array[row].as_py())
    rows, words = PatternCache().search(SearchEvaluator(through), [column, column], len(values))
    found = set(zip(rows.tolist(), words.tolist(), strict=True))
    expected = {
        (row, code | WORD_SHARED)
        for row, value in enumerate(values)
        if value is not None
        for code in through.of_value(value)
    }
    assert found == expected


def many(count: int, length: int = 20) -> list[str | None]:
    return [f"{number:0{length}d}{'abc' if number % 7 == 0 else ''}{number % 3}" for number in range(count)]


def test_a_memory_grows_and_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_cache, "_MAX_VALUES", 1_000)
    tests = [(1, Test(Like(LikePattern.parse("%ABC%", ignore_case=True)))), (2, Test(Rlike(Regex.compile("1$"))))]
    column, memory = PatternColumn(AttributeTests(tests), None), PatternCache()
    values = many(5_000)
    for start in range(0, 5_000, 700):
        batch = values[start : start + 700] + values[:50]
        found = words_of(column, batch, memory, pa.string())
        assert found == [set(column.tests.codes(value)) for value in batch]


@pytest.mark.parametrize(
    "length", [MAX_CACHED_VALUE_BYTES - 30, MAX_CACHED_VALUE_BYTES, MAX_CACHED_VALUE_BYTES + 1, MAX_FOLDED_BYTES + 1]
)
def test_long_values_are_tested_too(length: int) -> None:
    tests = [(1, Test(Like(LikePattern.parse("%ABC%", ignore_case=True)))), (2, Test(Rlike(Regex.compile("1$"))))]
    column, memory = PatternColumn(AttributeTests(tests), None), PatternCache()
    values = many(20, length)
    for _ in range(2):
        found = words_of(column, values, memory, pa.large_string())
        assert found == [set(column.tests.codes(value)) for value in values]


def test_short_texts_are_found_wherever_they_are() -> None:
    wanted = ["a", "bc", "def", "ghij", "klmnopqrs", "%z", "y%", "x%w%v"]
    tests = [(n, Test(Like(LikePattern.parse(f"%{text}%", ignore_case=True)))) for n, text in enumerate(wanted)]
    column = PatternColumn(AttributeTests(tests), None)
    values: list[str | None] = [
        f"{'-' * before}{text}{'-' * after}" for text in wanted for before in range(4) for after in range(4)
    ]
    assert words_of(column, values, PatternCache(), pa.string()) == [set(column.tests.codes(value)) for value in values]


CONDITIONS = {
    "search": "any_value_ilike('%needle%')",
    "not": "NOT any_value_ilike('%needle%') AND a ILIKE 'x%'",
    "number": "any_value_like('%42%')",
    "pattern": "any_value_rlike('n.edle$') OR b = 1",
    "tree": " OR ".join(f"(a ILIKE '%{n}x%' OR any_value_ilike('{n}%')) AND b < {n}" for n in range(40)),
    "none": "a ILIKE '%needle%'",
}


@settings(max_examples=50)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "a": st.sampled_from(["x", "needle", "a NEEDLE", "1x", "42", None]),
                "b": st.sampled_from([1, 42, -1, None]),
                "c": st.sampled_from(["", "needles", "Needle", "3", None]),
                "d": st.sampled_from([True, None]),
            }
        ),
        min_size=1,
        max_size=30,
    )
)
def test_searches_through_whole_events_find_the_same_everywhere(happened: list[dict[str, Any]]) -> None:
    wants = Matcher()
    wants.add_many(list(CONDITIONS), list(CONDITIONS.values()))
    filters = {id: Filter.parse(text) for id, text in CONDITIONS.items()}
    expected = [{id for id, wanted in filters.items() if wanted.matches(event)} for event in happened]
    assert [wants.match(event) for event in happened] == expected
    kinds = {"a": pa.string(), "b": pa.int64(), "c": pa.string(), "d": pa.bool_()}
    table = pa.table({name: pa.array([event[name] for event in happened], kind) for name, kind in kinds.items()})
    listed = table.append_column(
        "e", pa.array([["needle"], []] * len(happened), pa.list_(pa.string())).slice(0, len(happened))
    )
    nested = pa.table({"a": table["a"], "b": table["b"], "s": table.select(["c", "d"]).to_struct_array()})
    for events in (happened, table, nested):
        assert ids_by_row(wants.match_batch(events), len(happened)) == expected
    rows = listed.to_pylist()
    expected = [{id for id, wanted in filters.items() if wanted.matches(event)} for event in rows]
    assert ids_by_row(wants.match_batch(listed), len(rows)) == expected


def ids_by_row(found: pa.Table, count: int) -> list[set[str]]:
    rows: list[set[str]] = [set() for _ in range(count)]
    for row, id in zip(found["row"].to_pylist(), found["subscription"].to_pylist(), strict=True):
        assert id not in rows[row]
        rows[row].add(id)
    return rows


def test_threads_do_not_share_what_they_remember() -> None:
    wants = Matcher()
    wants.add_many([str(n) for n in range(50)], [f"a ILIKE '%{n}x%' AND a RLIKE '{n}'" for n in range(50)])
    tables = [pa.table({"a": [f"{(n * seed) % 997}x" for n in range(3_000)]}) for seed in (1, 7, 13, 29)]
    expected = [wants.match_batch(table).num_rows for table in tables]
    found: list[list[int]] = [[] for _ in tables]

    def match(which: int) -> None:
        for _ in range(5):
            found[which].append(wants.match_batch(tables[which]).num_rows)

    threads = [threading.Thread(target=match, args=(which,)) for which in range(len(tables))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[count] * 5 for count in expected]


def test_a_null_may_pass_a_test() -> None:
    wants = Matcher()
    wants.add("null", "coalesce(a, 'x') = 'x' AND b = 1")
    table = pa.table({"a": pa.array([None, "x", "y", None]), "b": np.ones(4, np.int64)})
    assert wants.match_batch(table)["row"].to_pylist() == [0, 1, 3]

"""Filters of random CloudEvents filter expressions against the dialects' rules."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from palio import Filter, Matcher
from tests.languages.cesql.expressions import NAMES, WORDS, events, expressions, simple_conditions, text_of
from tests.languages.cloudevents.oracle import passes

_texts = st.sampled_from([*WORDS, "2024", "-02-29", "T10:00", "Z", "tr", "ue", ".5", "00", "N", "nity"]).filter(bool)
_attributes = st.dictionaries(st.sampled_from(NAMES), _texts, min_size=1, max_size=2)
_simple = st.one_of(
    st.fixed_dictionaries({"exact": _attributes}),
    st.fixed_dictionaries({"prefix": _attributes}),
    st.fixed_dictionaries({"suffix": _attributes}),
    st.fixed_dictionaries({"sql": st.one_of(simple_conditions(), expressions())}),
)


def _nested(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(parts, min_size=1, max_size=3)
    return st.one_of(
        st.fixed_dictionaries({"all": several}),
        st.fixed_dictionaries({"any": several}),
        st.fixed_dictionaries({"not": parts}),
        st.fixed_dictionaries({"not": parts}),
    )


_filters = st.recursive(_simple, _nested, max_leaves=4)
_conditions = st.one_of(_filters, st.lists(_filters, max_size=3))


def written(found: Any) -> Any:
    """A filter with its expressions as text."""
    if isinstance(found, list):
        return [written(each) for each in found]
    return {
        dialect: text_of(value) if dialect == "sql" else written(value) if dialect in ("all", "any", "not") else value
        for dialect, value in found.items()
    }


@given(_conditions, st.lists(events(), min_size=1, max_size=4))
def test_an_event_passes_or_does_not(found: Any, several: list[dict[str, Any]]) -> None:
    wanted = Filter.parse(written(found), language="cloudevents")
    for event in several:
        assert wanted.matches_attributes(event) is passes(found, event)
        assert (~wanted).matches_attributes(event) is not passes(found, event)


@given(_conditions)
def test_a_filter_reads_back_as_itself(found: Any) -> None:
    wanted = Filter.parse(written(found), language="cloudevents")
    assert Filter.parse(str(wanted)) == wanted
    assert Filter.parse(str(~wanted)) == ~wanted
    text = json.dumps(written(found))
    assert Filter.parse(text, language="cloudevents") == Filter.parse(text.encode(), language="cloudevents") == wanted


@settings(max_examples=30)
@given(st.lists(_conditions, min_size=1, max_size=5), st.lists(events(), min_size=1, max_size=4))
def test_a_matcher_finds_the_filters_that_match(conditions: list[Any], several: list[dict[str, Any]]) -> None:
    matcher = Matcher()
    matcher.add_many(list(map(str, range(len(conditions)))), list(map(written, conditions)), language="cloudevents")
    expected = {
        (row, str(at)) for row, event in enumerate(several) for at, each in enumerate(conditions) if passes(each, event)
    }
    assert {(row, id) for row, event in enumerate(several) for id in matcher.match(event)} == expected
    batch = matcher.match_batch(several)
    assert set(zip(batch["row"].to_pylist(), batch["subscription"].to_pylist(), strict=True)) == expected

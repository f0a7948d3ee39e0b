"""XPath as a language of subscriptions: filters, their relations, and SQL."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Event, Filter, InvalidArgument, Matcher, ParseError
from palio.filters.work_limit import WorkLimit, work_limit
from tests.xml.strategies import documents, xpaths

CURIE = "<article><contrib role='author'><surname>Curie</surname></contrib></article>"


def xpath(text: str) -> Filter:
    return Filter.parse(text, language="xpath")


def test_a_pattern_asks_about_the_attribute_with_the_document() -> None:
    wanted = xpath("//contrib[@role='author']/surname[.='Curie']")
    assert wanted.matches(Event.from_xml(CURIE))
    assert not wanted.matches(Event.from_xml("<article/>"))
    assert not wanted.matches({"title": "none"})
    assert wanted.attributes == {"xml"}


def test_another_attribute_may_hold_the_document() -> None:
    wanted = Filter.parse("/a", language="xpath", attribute="body")
    assert wanted.matches({"body": "<a/>", "xml": "<b/>"})
    assert str(wanted) == "xpath_boolean(body, '/a')"


def test_namespaces_are_an_option_of_the_language() -> None:
    wanted = Filter.parse("//m:math", language="xpath", namespaces={"m": "urn:m"})
    assert wanted.matches({"xml": "<a><x:math xmlns:x='urn:m'/></a>"})
    assert not wanted.matches({"xml": "<a><m:math xmlns:m='urn:other'/></a>"})
    assert Filter(str(wanted)) == wanted


@pytest.mark.parametrize("namespaces", [{"m": 1}, ["m"], "m"])
def test_namespaces_are_texts_by_prefix(namespaces: object) -> None:
    with pytest.raises(InvalidArgument, match="namespaces map prefixes"):
        Filter.parse("//m:math", language="xpath", namespaces=namespaces)


def test_a_text_that_is_no_document_is_null() -> None:
    wanted = xpath("/a")
    for text in ("", "<a>", "plain text", "<a/><b/>", "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>"):
        assert not wanted.matches({"xml": text})
        assert not (~wanted).matches({"xml": text})
        assert Filter("xpath_boolean(xml, '/a') IS NULL").matches({"xml": text})
        assert Filter("xpath_boolean(xml, '/a') IS NOT TRUE").matches({"xml": text})
    assert (~wanted).matches({"xml": "<b/>"})
    assert not (~wanted).matches({"xml": 5})


def test_relations_of_filters_are_those_of_patterns() -> None:
    narrow, wide = xpath("/article//contrib[@role='author']/surname"), xpath("//contrib[surname]")
    assert wide.covers(narrow)
    assert not narrow.covers(wide)
    assert (~narrow).covers(~wide)
    assert narrow.overlaps(wide)
    assert (narrow & wide) == narrow
    assert (narrow | wide) == wide
    assert xpath("/a/b") == xpath("a[b]")
    assert not xpath("/a").overlaps(xpath("/b"))
    assert (xpath("/a[@x='1']") & xpath("/a[@x='2']")) == Filter.nothing
    assert xpath("/a[@x='1'][@x='2']") == Filter.nothing


def test_a_where_clause_mixes_attributes_and_xpath() -> None:
    wanted = Filter("price > 5 AND xpath_boolean(xml, '//a[b][c]')")
    assert wanted.matches({"price": 6, "xml": "<a><b/><c/></a>"})
    assert not wanted.matches({"price": 6, "xml": "<a><b/></a>"})
    assert not wanted.matches({"price": 5, "xml": "<a><b/><c/></a>"})
    assert Filter("xpath_boolean(xml, '//a') AND price > 3").covers(wanted)
    assert Filter(str(wanted)) == wanted


def test_a_computed_text_may_be_the_document() -> None:
    wanted = Filter("xpath_boolean(concat('<a>', content, '</a>'), '/a/b')")
    assert wanted.matches({"content": "<b/>"})
    assert not wanted.matches({"content": "<c/>"})


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (
            "xpath_boolean(xml, '//a[name()=1]')",
            "returns have no meaning, at column 5 of the XPath",
        ),
        ("xpath_boolean(xml, path)", "must be given as literals"),
        ("xpath_boolean(xml)", "xpath_boolean"),
    ],
)
def test_sql_refuses_what_is_no_pattern(condition: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason.replace("(", r"\(")):
        Filter(condition)


@pytest.mark.parametrize("condition", [5, None, ["//a"]])
def test_an_xpath_is_a_text(condition: object) -> None:
    with pytest.raises(ParseError, match="an XPath is a text"):
        Filter.parse(condition, language="xpath")


def test_filters_are_pickled() -> None:
    wanted = xpath("//a[not(b) or c='1']")
    assert pickle.loads(pickle.dumps(wanted)) == wanted


def test_an_expression_beyond_the_limit_of_a_broker_is_null_and_noted() -> None:
    document = {"xml": "<a>" + "<b/>" * 3_000 + "</a>"}
    slow = xpath("//b[count(preceding::b) > 5000]")
    matcher = Matcher({"not slow": ~slow, **{f"{place}": xpath(f"//b[{place}]") for place in range(2, 9)}})
    for limit, expected in ((WorkLimit(5_000_000), False), (WorkLimit(10**12), True)):
        with work_limit(limit):
            assert not slow.matches(document)
            assert (~slow).matches(document) is expected
            assert ("not slow" in matcher.match(document)) is expected
            assert "8" in matcher.match(document)
        assert (str(limit.reached) == "Counter()") is expected
    assert "count(preceding::b)>5000" in str(slow)


@given(st.lists(xpaths(), min_size=1, max_size=8, unique=True), st.lists(documents(), min_size=1, max_size=4))
def test_a_matcher_of_many_patterns_agrees_with_each_filter(patterns: list[str], texts: list[str]) -> None:
    matcher = Matcher()
    filters: dict[str, Filter] = {}
    for number, pattern in enumerate(patterns):
        wanted = xpath(pattern)
        filters |= {f"{number}": wanted, f"not {number}": ~wanted, f"{number} and n": wanted & Filter("n > 1")}
    matcher.add_many(filters.items())
    events = [{"xml": text, "n": number} for number, text in enumerate([*texts, "<a>", "no document"])]
    expected = [{name for name, each in filters.items() if each.matches(event)} for event in events]
    assert [matcher.match(event) for event in events] == expected
    matcher.merge()
    assert [matcher.match(event) for event in events] == expected
    # Columns of strings are read by kernels, in which one test stands for all patterns.
    columns = pa.table({"xml": [str(event["xml"]) for event in events], "n": list(range(len(events)))})
    found: list[set[str]] = [set() for _ in events]
    for row in matcher.match_batch(columns).to_pylist():
        found[row["row"]].add(row["subscription"])
    assert found == expected


def test_a_document_longer_than_the_kernels_take_is_matched_in_a_column() -> None:
    matcher = Matcher()
    matcher.add_many([(f"{number}", xpath(f"//b[@n='{number}']")) for number in range(30)])
    matcher.merge()
    texts = ["<a>" + "".join(f"<b n='{n}'>{'é' * 50}</b>" for n in range(first, 400)) + "</a>" for first in (0, 28, 99)]
    found = matcher.match_batch(pa.table({"xml": texts})).to_pylist()
    assert sorted(row["row"] for row in found) == [0] * 30 + [1] * 2

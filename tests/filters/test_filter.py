"""Tests of filters as values: comparison, hash, pickling, combination, equality across processes."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import palio
from palio.errors import EventError, ParseError, UnknownLanguage
from palio.events import Event
from palio.filters.filter import Filter
from palio.filters.registry import languages, register
from tests.strategies import attributes, filters, readable_conditions

parse = Filter.parse


class TestAlgebra:
    @given(filters(), filters(), st.lists(attributes(), min_size=1, max_size=6))
    def test_or_matches_what_either_does(self, f: Filter, g: Filter, events: list[dict[str, Any]]) -> None:
        for event in events:
            either = f.matches_attributes(event) or g.matches_attributes(event)
            assert (f | g).matches_attributes(event) is either

    @given(readable_conditions(), readable_conditions(), st.lists(attributes(), min_size=1, max_size=6))
    def test_and_and_or_are_those_of_the_language(self, one: str, two: str, events: list[dict[str, Any]]) -> None:
        both, either = parse(one) & parse(two), parse(one) | parse(two)
        written, other = parse(f"({one}) AND ({two})"), parse(f"({one}) OR ({two})")
        for event in events:
            assert both.matches_attributes(event) is written.matches_attributes(event)
            assert either.matches_attributes(event) is other.matches_attributes(event)
            assert (~both).matches_attributes(event) is (~written).matches_attributes(event)

    @given(filters(), filters())
    def test_and_and_or_commute_and_a_filter_is_its_own_union(self, f: Filter, g: Filter) -> None:
        assert f & g == g & f
        assert f | g == g | f
        assert f & f == f | f == f
        assert f & Filter.everything == f | Filter.nothing == f
        assert f & Filter.nothing == Filter.nothing
        assert f | Filter.everything == Filter.everything

    def test_a_filter_combines_only_with_filters_and_their_texts(self) -> None:
        with pytest.raises(TypeError):
            parse("x = 1") & 2  # type: ignore[operator]
        with pytest.raises(TypeError):
            parse("x = 1") | None  # type: ignore[operator]
        assert parse("x = 1") != "x = 1"

    def test_the_other_operand_may_be_text(self) -> None:
        wanted = parse("x > 3")
        assert wanted & "y = 1" == "y = 1" & wanted == parse("x > 3 AND y = 1")
        assert wanted | "y = 1" == "y = 1" | wanted == parse("x > 3 OR y = 1")
        assert wanted.covers("x > 5")
        assert not wanted.covers("x > 1")
        assert wanted.overlaps("x < 5")
        assert not wanted.overlaps("x < 2")
        assert wanted.merge("x < 0").covers("x < 0")
        assert wanted.merge_perfect("x BETWEEN 1 AND 3") == parse("x >= 1")
        with pytest.raises(ParseError):
            wanted & "y ="

    def test_a_filter_has_no_truth_value(self) -> None:
        f, g = parse("x > 3"), parse("y = 1")
        for asks in (lambda: f and g, lambda: f or g, lambda: not f, lambda: bool(f), lambda: any([f])):
            with pytest.raises(palio.NoTruthValue, match=r"&, \| and ~") as caught:
                asks()
            assert isinstance(caught.value, TypeError)
            assert isinstance(caught.value, palio.PalioError)


class TestConstruction:
    def test_the_constructor_reads_a_condition_as_parse_does(self) -> None:
        assert Filter("x > 3") == parse("x > 3")
        text = "hour(at) = 3"
        assert Filter(text, timezone="Europe/Rome") == parse(text, timezone="Europe/Rome") != parse(text)
        with pytest.raises(ParseError):
            Filter("x >")
        with pytest.raises(ParseError):
            Filter(None)
        with pytest.raises(UnknownLanguage):
            Filter("x > 3", "klingon")

    def test_a_filter_of_a_filter_is_that_filter(self) -> None:
        wanted = parse("x > 3").valid_for(5)
        assert Filter(wanted) is wanted

    def test_a_filter_is_called_with_an_event(self) -> None:
        wanted = Filter("x > 3")
        assert wanted({"x": 4}) is True
        assert [event["x"] for event in filter(wanted, [{"x": 1}, {"x": 5}])] == [5]


class TestIdentity:
    @given(filters())
    def test_a_copy_is_equal_and_works(self, wanted: Filter) -> None:
        copy = pickle.loads(pickle.dumps(wanted))
        assert copy == wanted
        assert (hash(copy), str(copy), copy.digest) == (hash(wanted), str(wanted), wanted.digest)
        assert ~copy == ~wanted

    @given(filters(), filters())
    def test_equal_filters_share_a_digest_and_others_do_not(self, f: Filter, g: Filter) -> None:
        assert (f == g) is (f.digest == g.digest)
        assert (f == g) is (str(f) == str(g))

    @given(filters())
    def test_a_filter_read_back_from_its_text_has_its_digest(self, wanted: Filter) -> None:
        assert Filter.parse(str(wanted), timezone=wanted.timezone).digest == wanted.digest

    def test_no_text_is_written_for_a_digest(self) -> None:
        wanted = parse("price BETWEEN 1 AND 5 AND symbol = 'ACME'")
        assert hash(wanted) == int.from_bytes(wanted.digest[:8], "little", signed=True)
        assert "_text" not in vars(wanted)

    @given(filters())
    def test_it_prints_as_what_reads_back(self, wanted: Filter) -> None:
        assert repr(wanted) == f"Filter.parse({str(wanted)!r})"
        assert len(wanted.digest) == 16

    @settings(max_examples=3)
    @given(st.lists(readable_conditions(), min_size=30, max_size=60))
    def test_hashes_and_texts_are_the_same_in_every_process(self, conditions: list[str]) -> None:
        here = [[hash(each), str(each)] for each in map(parse, conditions)]
        program = (
            "import json, sys; from palio import Filter\n"
            "print(json.dumps([[hash(f), str(f)] for f in map(Filter.parse, json.load(sys.stdin))]))"
        )
        for seed in ("0", "1", "4242"):
            environment = {
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": str(Path(palio.__file__).parent.parent),
            }
            done = subprocess.run(
                [sys.executable, "-c", program],
                input=json.dumps(conditions), env=environment, capture_output=True, text=True, check=True,
            )  # fmt: skip
            assert json.loads(done.stdout) == here


class TestEvents:
    @pytest.mark.parametrize(
        "event",
        [{"x": 7}, '{"x": 7}', b'{"x": 7}', Event({"x": 7}), {"x": [7]}, {"x": 7.0, "other": None}],
    )
    def test_an_event_may_come_in_any_form(self, event: Any) -> None:
        assert parse("x > 5").matches(event)
        assert parse("x > 5").explain(event).matched

    def test_what_is_no_event_is_refused(self) -> None:
        for bad in ("[1]", "{", {"x": object()}):
            with pytest.raises(EventError):
                parse("x > 5").matches(bad)  # type: ignore[arg-type]

    def test_nothing_matches_nothing_and_everything_all(self) -> None:
        for event in ({}, {"x": 1}, {"x": [1, 2]}):
            assert Filter.everything.matches(event)
            assert not Filter.nothing.matches(event)
        assert parse("TRUE") == Filter.everything
        assert parse("x > 5 AND x < 3") == Filter.nothing


class TestLanguages:
    def test_sql_is_known_and_others_can_be_added(self) -> None:
        assert "sql" in languages()
        register("yes", lambda condition, **options: Filter.everything)
        assert parse("whatever", language="yes") == Filter.everything
        assert "yes" in languages()

    def test_an_unknown_language_names_those_that_are(self) -> None:
        with pytest.raises(UnknownLanguage, match="sql"):
            parse("x = 1", language="klingon")

    def test_a_condition_that_cannot_be_read_says_where(self) -> None:
        with pytest.raises(ParseError) as caught:
            parse("x > 5 AND")
        assert caught.value.position == len("x > 5 AND")


def test_a_condition_of_three_thousand_alternatives_is_read_and_matched() -> None:
    many = " OR ".join(f"(a = {i} AND b = {i + 1})" for i in range(3_000))
    wanted = parse(many)
    assert wanted.matches({"a": 77, "b": 78})
    assert not wanted.matches({"a": 77, "b": 77})


def test_a_list_of_twenty_thousand_values_is_read_and_printed() -> None:
    wanted = parse(f"a IN ({', '.join(map(str, range(0, 40_000, 2)))})")
    assert wanted.matches({"a": 10_000})
    assert not wanted.matches({"a": 10_001})
    assert parse(str(wanted)) == wanted


def test_a_filter_says_for_how_long_it_is_wanted_and_means_the_same() -> None:
    plain = Filter.parse("x > 3")
    short = plain.valid_for(60)
    assert (plain.validity, short.validity, pickle.loads(pickle.dumps(short)).validity) == (None, 60.0, 60.0)
    assert short == plain
    assert short.covers(plain)
    assert short.digest == plain.digest
    assert ((short & plain).validity, (plain | short).validity) == (60.0, 60.0)
    assert (short.valid_for(5) & short).validity == 5.0
    assert ((plain & plain).validity, (~short).validity) == (None, None)
    for wrong in (0, -1, float("nan"), float("inf"), True, "60", None):
        with pytest.raises(palio.InvalidArgument, match="seconds above 0"):
            plain.valid_for(wrong)  # type: ignore[arg-type]

"""Filters that are parsed when their tree is first needed."""

from __future__ import annotations

import pickle

import pytest

from palio import Filter
from palio.filters.stored_filter import StoredFilter

CONDITIONS = ["price > 100", "symbol LIKE 'AC%' OR NOT (price BETWEEN 1 AND 2)", "x + y > 3", "TRUE", "FALSE"]


def stored(wanted: Filter) -> StoredFilter:
    return StoredFilter.of_text(str(wanted), wanted.timezone, wanted.digest)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_stored_filter_is_the_filter_that_was_stored(condition: str) -> None:
    wanted = Filter.parse(condition)
    assert stored(wanted).tree == wanted.tree
    assert stored(wanted) & "z = 1" == wanted & "z = 1"
    assert stored(wanted).attributes == wanted.attributes
    read = stored(wanted)
    assert (read, str(read), repr(read), hash(read)) == (wanted, str(wanted), repr(wanted), hash(wanted))
    assert pickle.loads(pickle.dumps(read)) == wanted
    assert read.covers(wanted)
    assert wanted.covers(stored(wanted))


def test_text_zone_and_digest_need_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Filter.parse("date_trunc('day', at) > timestamp'2026-01-01 00:00:00'", timezone="Europe/Oslo")
    read = stored(wanted)

    def parse(*arguments: object, **options: object) -> Filter:
        raise AssertionError("not yet")

    monkeypatch.setattr(Filter, "parse", parse)
    assert (str(read), read.timezone, read.digest) == (str(wanted), "Europe/Oslo", wanted.digest)
    assert not hasattr(read, "something_else")
    with pytest.raises(AssertionError, match="not yet"):
        assert read.tree

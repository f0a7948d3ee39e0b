"""Metadata of subscriptions: returned unchanged, or refused at once by name."""

from __future__ import annotations

import enum
import tempfile
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import InvalidSubscription, UnknownSubscription
from palio.matching import catalogue
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False),
    st.text(),
    st.binary(),
    st.dates(),
    st.datetimes(timezones=st.none() | st.just(UTC) | st.just(timezone(timedelta(hours=5, minutes=30)))).map(
        lambda moment: moment.replace(fold=0)
    ),
    st.times().map(lambda clock: clock.replace(fold=0)),
    st.timedeltas(),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
metadata = st.dictionaries(st.text(max_size=4), values, max_size=4)


@given(st.text(min_size=1), st.none() | st.text(), metadata)
def test_it_comes_back_as_it_was(id: str, subscriber: str | None, kept: dict[str, Any]) -> None:
    matcher = Matcher()
    matcher.add(id, "x = 1", subscriber=subscriber, metadata=kept)
    matcher.add_subscriptions([Subscription(f"{id} too", {"x": [1]}, "eventbridge", subscriber, kept)])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wants.palio"
        matcher.save(path)
        for each in (matcher, Matcher.open(path)):
            assert each[id] == Subscription(id, "x = 1", "sql", subscriber, kept)
            assert each[f"{id} too"] == Subscription(f"{id} too", {"x": [1]}, "eventbridge", subscriber, kept)
            assert repr(each[id].metadata) == repr(kept)  # equal, and of the same types
            assert each.match_batch([{"x": 1}]).num_rows == 2


def test_it_is_a_copy_of_what_was_given() -> None:
    given_metadata: dict[str, Any] = {"k": [1]}
    where: dict[str, Any] = {"x": [1]}
    matcher = Matcher()
    matcher.add("a", "x = 1", metadata=given_metadata)
    matcher.add("b", where, language="eventbridge")
    given_metadata["k"].append(2)
    where["x"].append(2)
    matcher["a"].metadata["more"] = 1  # type: ignore[index]
    assert matcher["a"].metadata == {"k": [1]}
    assert matcher["b"].where == {"x": [1]}


class Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((1, (2, 3)), [1, [2, 3]]),
        (Level.HIGH, 3),
        (np.int32(7), 7),
        (np.array([1.5, 2.5]), [1.5, 2.5]),
        (np.str_("x"), "x"),
        (pd.Timestamp("2024-01-01 10:00"), datetime(2024, 1, 1, 10)),
        (pd.NaT, None),
        (bytearray(b"x"), b"x"),
        (memoryview(b"xy"), b"xy"),
        ({"": 1}, {"": 1}),
        ({"": ["date", "2024-01-01"]}, {"": ["date", "2024-01-01"]}),
        ({"": {"": {"": date(2024, 1, 1)}}}, {"": {"": {"": date(2024, 1, 1)}}}),
        (time(1, 2), time(1, 2)),
        (Decimal("1.50"), Decimal("1.50")),
    ],
)
def test_a_class_of_its_own_becomes_its_plain_kind(value: Any, plain: Any) -> None:
    matcher = Matcher()
    matcher.add("a", "x = 1", metadata={"k": value})
    assert repr(matcher["a"].metadata) == repr({"k": plain})
    # Packed at once; a catalogue packs by itself only when a block is full.
    matcher._catalogue.pack()
    assert repr(matcher["a"].metadata) == repr({"k": plain})


DEEP: list[Any] = []
DEEP.append(DEEP)


@pytest.mark.parametrize(
    ("given_parts", "reason"),
    [
        ({"metadata": 5}, "metadata is a mapping, not int"),
        ({"metadata": [("a", 1)]}, "metadata is a mapping, not list"),
        ({"metadata": {1: 2}}, "metadata: has the key 1; keys are text"),
        ({"metadata": {"k": {"s": {1}}}}, "metadata.k.s: a value of type set cannot be kept"),
        ({"metadata": {"k": [object()]}}, r"metadata.k\[0\]: a value of type object cannot be kept"),
        ({"metadata": {"k": np.complex128(1)}}, "metadata.k: a NumPy value of type complex128"),
        ({"metadata": {"k": 10**5000}}, "metadata.k: an integer of more than 4,000 digits"),
        ({"metadata": {"k": "\ud800"}}, "metadata.k: text has a lone surrogate"),
        ({"metadata": {"\ud800": 1}}, "metadata: text has a lone surrogate"),
        ({"metadata": {"k": DEEP}}, "nested more than 100 levels deep"),
        ({"subscriber": ("a", "b")}, "a subscriber is text, not tuple"),
        ({"subscriber": "\ud800"}, "subscriber: text has a lone surrogate"),
        ({"id": "a\ud800"}, "id: text has a lone surrogate"),
        ({"id": ""}, "an id is empty"),
        ({"id": 5}, "an id is text, not int"),
        ({"language": 5}, "a language is text, not int"),
        ({"timezone": None}, "a time zone is text, not NoneType"),
        ({"where": {1, 2}}, "where: a value of type set cannot be kept"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_changes_nothing(given_parts: dict[str, Any], reason: str) -> None:
    matcher = Matcher()
    matcher.add("stays", "x > 0")
    parts = {"id": "a", "where": "x = 1", **given_parts}
    with pytest.raises(InvalidSubscription, match=reason):
        matcher.add(parts.pop("id"), parts.pop("where"), **parts)
    with pytest.raises(InvalidSubscription, match=reason):
        matcher.add_subscriptions([Subscription(**{"id": "a", "where": "x = 1", **given_parts})])
    assert list(matcher) == ["stays"]
    assert matcher.match_batch([{"x": 1}]).num_rows == 1


def test_an_id_that_is_no_text_is_unknown() -> None:
    matcher = Matcher()
    for id in (None, 5, "\ud800"):
        assert id not in matcher
        with pytest.raises(UnknownSubscription):
            matcher.remove(id)  # type: ignore[arg-type]


def test_a_block_is_written_whatever_its_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "BLOCK_SUBSCRIPTIONS", 3)
    monkeypatch.setattr(catalogue, "_MAX_UNPACKED_TAIL", 8)
    matcher = Matcher()
    for number in range(20):
        matcher.add(str(number), f"x = {number}", metadata={"since": date(2024, 1, 1), "n": number})
    assert matcher["3"].metadata == {"since": date(2024, 1, 1), "n": 3}

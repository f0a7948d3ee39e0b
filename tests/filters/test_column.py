"""Filters that are built of columns: they are those of the text that says the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Event, Filter, InvalidArgument, NoTruthValue, col

x = col("x")


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (x == 3, "x = 3"),
        (x != 3, "x <> 3"),
        (x < 3, "x < 3"),
        (x <= 3, "x <= 3"),
        (x > 3, "x > 3"),
        (x >= 3, "x >= 3"),
        (3 < x, "x > 3"),  # noqa: SIM300  the operand may be on either side
        (x == True, "x = TRUE"),  # noqa: E712
        (x > Decimal("1.50"), "x > 1.50"),
        (x == 0.1, "x = 0.1D"),
        (x >= date(2026, 1, 31), "x >= DATE'2026-01-31'"),
        (x < datetime(2026, 1, 31, 12, tzinfo=UTC), "x < TIMESTAMP'2026-01-31 12:00:00Z'"),
        (x == b"\x00a", "x = X'0061'"),
        (x.isin(1, 2), "x IN (1, 2)"),
        (x.isin([1, 2]), "x IN (1, 2)"),
        (x.isin({"ab"}), "x IN ('ab')"),
        (x.isin("ab"), "x IN ('ab')"),
        (x.isin(), "FALSE"),
        (x.between(1, 5), "x BETWEEN 1 AND 5"),
        (x.like("a%"), "x LIKE 'a%'"),
        (x.rlike("^a+$"), "x RLIKE '^a+$'"),
        (x.is_null(), "x IS NULL"),
        (x.is_not_null(), "x IS NOT NULL"),
        (x > col("y"), "x > y"),
        (col("quote.price") > 3, "quote.price > 3"),
        (col("order") == 1, "`order` = 1"),
        (col("`a.b`") == 1, "`a.b` = 1"),
        ((x > 3) & (col("y") == "a") | ~x.isin(7), "x > 3 AND y = 'a' OR x NOT IN (7)"),
        ((x > 3) & "y = 'a'", "x > 3 AND y = 'a'"),
    ],
)
def test_a_comparison_is_the_filter_of_its_text(built: Filter, text: str) -> None:
    assert built == Filter(text)
    assert ~built == ~Filter(text)


@given(st.text(min_size=1), st.text())
def test_names_and_values_are_never_read_as_sql(name: str, value: str) -> None:
    event = Event.from_dict({name: value})
    [path] = event
    assert col(path).name == path
    assert (col(path) == value)(event)
    assert not (col(path) == value + "'")(event)
    assert (col(path) == value).attributes == {path}


@pytest.mark.parametrize("value", ["' OR '1' = '1", "\\", "\\'", "a\nb", "`", "x' --", "%", "\x00", "🐎"])
def test_a_text_with_quotes_is_one_text(value: str) -> None:
    assert (x == value)({"x": value})
    assert not (x == value)({"x": "1"})
    assert x.isin([value, "other"])({"x": value})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: x == None, "is_null"),  # noqa: E711
        (lambda: x.isin([1, None]), "is_null"),
        (lambda: x == [1, 2], "isin"),
        (lambda: x > object(), "object"),
        (lambda: x.like(3), "a pattern is text, not int"),
        (lambda: col(3), "named by text, not int"),  # type: ignore[arg-type]
        (lambda: col("`a"), "no name of an attribute"),
    ],
)
def test_what_cannot_be_compared_gets_a_sentence(wrong: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        wrong()


def test_a_column_has_no_truth_value_and_no_hash() -> None:
    for asks in (lambda: bool(x), lambda: 1 < x < 5, lambda: (x > 3) and (x < 5)):
        with pytest.raises(NoTruthValue, match="&"):
            asks()
    with pytest.raises(TypeError):
        hash(x)
    assert repr(x) == "col('x')"

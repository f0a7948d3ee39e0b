"""Objects of other libraries as events: pandas and Polars, dataclasses, enumerations."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isnan, nan
from typing import Any

import pandas as pd
import polars
import pyarrow as pa
import pytest

from palio import Event, EventError, Filter, Matcher

WHERES = {
    "null": "x IS NULL",
    "large": "x > 100",
    "nan": "isnan(x)",
    "text": "s = 'a'",
    "no text": "s IS NULL",
    "index": "k IS NOT NULL",
}


class Side(enum.Enum):
    BUY = "buy"
    SELL = 2


@dataclass
class Quote:
    price: float
    side: Side = Side.BUY
    tags: list[str] = field(default_factory=list)


@dataclass
class Trade:
    symbol: str
    quote: Quote
    more: list[Quote] = field(default_factory=list)


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "x": [1.0, nan, 150.0, nan],
            "n": pd.array([1, None, 3, 4], dtype="Int64"),
            "s": ["a", None, nan, pd.NA],
            "t": [pd.Timestamp("2026-01-31"), pd.NaT, pd.NaT, pd.NaT],
        },
        index=pd.Index([5, 6, 7, 8], name="k"),
    )


def test_a_row_of_pandas_means_alone_what_it_means_in_a_batch() -> None:
    matcher, rows = Matcher(WHERES), frame()
    found: list[set[str]] = [set() for _ in range(len(rows))]
    for match in matcher.match_batch(rows).to_pylist():
        found[match["row"]].add(match["subscription"])
    assert found == [{"text"}, {"null", "no text"}, {"large", "no text"}, {"null", "no text"}]
    series = [row for _, row in rows.iterrows()]
    assert [matcher.match(row) for row in series] == found  # type: ignore[arg-type]
    assert matcher.match_batch(series).to_pylist() == matcher.match_batch(rows).to_pylist()
    assert [dict(event) for event in Event.from_arrow(rows)][1] == {"x": None, "n": None, "s": None, "t": None}
    assert dict(Event.read(rows.iloc[0])) == {"x": 1.0, "n": 1, "s": "a", "t": datetime(2026, 1, 31, tzinfo=UTC)}


def test_a_nan_of_python_stays_a_float() -> None:
    assert Matcher(WHERES).match({"x": nan, "s": "b"}) == {"large", "nan"}
    assert Matcher(WHERES).match_batch(polars.DataFrame({"x": [nan], "s": ["b"]})).num_rows == 2
    assert isnan(Event.from_dict({"x": nan})["x"])  # type: ignore[arg-type]


def test_an_index_is_no_attribute() -> None:
    [event] = Event.from_arrow(frame().iloc[:1])
    assert list(event) == ["x", "n", "s", "t"]


@pytest.mark.parametrize("rows", [0, 1, 20_000])
def test_a_lazy_frame_of_polars_is_collected(rows: int) -> None:
    lazy = polars.LazyFrame({"x": range(rows)}, schema={"x": polars.Int64})
    assert Matcher({"a": "x % 2 = 0"}).match_batch(lazy).num_rows == (rows + 1) // 2
    assert len(list(Event.from_arrow(lazy))) == rows


@pytest.mark.parametrize("column", [polars.Series("x", [1, 2]), pa.chunked_array([[1, 2]])], ids=["polars", "arrow"])
def test_one_column_is_no_batch(column: Any) -> None:
    with pytest.raises(EventError, match="one column is no batch of events; make a frame of it"):
        Matcher({"a": "x = 1"}).match_batch(column)
    with pytest.raises(EventError, match="one column is no batch of events"):
        list(Event.from_arrow(column))


def test_a_dataclass_is_an_object() -> None:
    trade = Trade("ACME", Quote(1.5, Side.SELL, ["a", "b"]), [Quote(2.5)])
    event = Event.read(trade)
    assert event["symbol"] == "ACME"
    assert (event["quote.price"], event["quote.side"], event["quote.tags"]) == (1.5, 2, ("a", "b"))
    assert (event["more.price"], event["more.side"]) == ((2.5,), ("buy",))
    assert Filter("quote.price < 2 AND quote.side = 2")(trade)
    assert Matcher({"a": "quote.price < 2"}).match_batch([trade, trade]).num_rows == 2
    assert Event.from_dict({"trade": trade})["trade.quote.price"] == 1.5


def test_a_dataclass_that_holds_itself_is_refused() -> None:
    trade = Trade("ACME", Quote(1.5))
    trade.quote = trade  # type: ignore[assignment]
    with pytest.raises(EventError, match="nested"):
        Event.read(trade)


@pytest.mark.parametrize("value", [pd.NA, pd.NaT])
def test_a_null_of_pandas_is_a_null(value: Any) -> None:
    assert dict(Event.from_dict({"x": value, "y": [1, value]})) == {"x": None, "y": (1, None)}
    assert dict(Event({"x": value})) == {"x": None}


@pytest.mark.parametrize(
    "wrong",
    [
        pd.Series([1, 2], index=["a", "a"]),
        pd.Series([1, 2]),
        Trade,
        pd.Series([1j], index=["a"]),
    ],
)
def test_what_has_no_names_is_refused(wrong: Any) -> None:
    with pytest.raises(EventError):
        Event.read(wrong)


def test_a_frame_that_arrow_cannot_read_is_refused() -> None:
    with pytest.raises(EventError, match="DataFrame"):
        Matcher({"a": "x > 1"}).match_batch(pd.DataFrame({"x": [1, "a", object()]}))

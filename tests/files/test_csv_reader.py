"""CSV: the types of columns, and rows that do not fit."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from palio.errors import InputError
from palio.files import csv_reader, read_events
from tests.files.sample_files import Make, all_events, csv, zstd


def columns_of(text: str, make: Make) -> dict[str, list[Any]]:
    events = all_events(make("a.csv", text.encode()))
    return {name: [event[name] for event in events] for name in (events[0] if events else {})}


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        (["1", "-2", "0"], [1, -2, 0]),
        (["7", " 8 "], [7, 8]),
        (["007", "8"], ["007", "8"]),
        (["0", "0.5", "-0"], [0.0, 0.5, -0.0]),
        (["1", ""], [1, None]),
        (["1", "NA", "N/A", "null", "NULL", "\\N"], [1, None, None, None, None, None]),
        (["1", "2.5", "1e3"], [1.0, 2.5, 1000.0]),
        (["1.5", "inf", "-inf"], [1.5, float("inf"), float("-inf")]),
        (["9223372036854775807"], [2**63 - 1]),
        (["9223372036854775808", "1"], [Decimal(2**63), Decimal(1)]),
        (["true", "False", ""], [True, False, None]),
        (["2026-01-31", ""], [date(2026, 1, 31), None]),
        (["2026-01-31 12:00:00"], [datetime(2026, 1, 31, 12, tzinfo=UTC)]),
        (["2026-01-31T12:00:00.5"], [datetime(2026, 1, 31, 12, 0, 0, 500000, UTC)]),
        (["2026-01-31T12:00:00Z"], [datetime(2026, 1, 31, 12, tzinfo=UTC)]),
        (["2026-01-31T14:00:00+02:00"], [datetime(2026, 1, 31, 12, tzinfo=UTC)]),
        (["2026-01-31T12:00:00.123456789Z"], [datetime(2026, 1, 31, 12, 0, 0, 123456, UTC)]),
        (["12:30:00"], ["12:30:00"]),
        (["2016/01/01 00:30:04.91"], ["2016/01/01 00:30:04.91"]),
        (["a", "NA", ""], ["a", "NA", None]),
        (["a", '""'], ["a", ""]),
        (["1", "x"], ["1", "x"]),
        (['"a,b"', '"say ""hi"""', '"two\nlines"'], ["a,b", 'say "hi"', "two\nlines"]),
        (["é", " b "], ["é", " b "]),
        (["", ""], [None, None]),
    ],
)
def test_a_column_has_the_type_all_its_values_look_like(fields: list[str], values: list[Any], make: Make) -> None:
    text = "n,x\n" + "".join(f"0,{field}\n" for field in fields)
    got = columns_of(text, make)["x"]
    assert got == values
    assert [type(value) for value in got] == [type(value) for value in values]


def test_nan_is_a_number(make: Make) -> None:
    got = columns_of("x\n1.5\nNaN\n", make)["x"]
    assert got[0] == 1.5
    assert got[1] != got[1]


def test_columns_keep_their_names(make: Make) -> None:
    assert columns_of('a.b,"c d",,É\n1,2,3,4\n', make) == {"`a.b`": [1], "c d": [2], "": [3], "É": [4]}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"x,y,x\n1,2,3\n", "the header has the column 'x' twice"),
        (b"x\xff,y\n1,2\n", "its header is not UTF-8"),
    ],
)
def test_a_header_that_cannot_be_used_is_raised(data: bytes, reason: str, make: Make) -> None:
    with pytest.raises(InputError, match=reason):
        all_events(make("a.csv", data))


def test_rows_of_another_length_are_reported_and_left_out(make: Make) -> None:
    path = make("a.csv", b"x,y\n1,2\n3\n4,5,6\n7,8\n9,\n1,2,3\n")
    with read_events(path, on_error=(faults := []).append) as reader:  # type: ignore[var-annotated]
        (batch,) = reader
        assert batch.to_pylist() == [{"x": 1, "y": 2}, {"x": 7, "y": 8}, {"x": 9, "y": None}]
        assert list(reader.numbers) == [1, 4, 5]
    assert [(fault.line, fault.reason) for fault in faults] == [
        (3, "1 field where the header has 2"),
        (4, "3 fields where the header has 2"),
        (7, "3 fields where the header has 2"),
    ]


def test_values_unlike_the_first_ones_are_reported_and_their_rows_left_out(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_reader, "SAMPLE_BYTES", 100)
    good = [{"i": i, "f": i / 2, "b": True, "d": "2026-01-01", "s": "x"} for i in range(50)]
    rows = csv(good).decode().splitlines()
    rows[30] = "oops,1.5,true,2026-01-01,x"
    rows[31] = "1,oops,maybe,2026-01-01,x"
    rows[32] = "1,1.5,true,soon,x"
    rows[40] = "NA, 2 ,NULL,,NA"
    rows[41] = "1,2"
    data = "\n".join(rows).encode() + b"\n1,1.5,true,2026-01-01,\xff\n"
    path = make("a.csv", data)
    with read_events(path, on_error=(faults := []).append) as reader:  # type: ignore[var-annotated]
        events = [
            (number, row) for batch in reader for number, row in zip(reader.numbers, batch.to_pylist(), strict=True)
        ]
    assert [number for number, _ in events] == [n for n in range(1, 51) if n not in (30, 31, 32, 41)]
    assert events[36][1] == {"i": None, "f": 2.0, "b": None, "d": None, "s": "NA"}
    assert sorted((fault.line, fault.reason) for fault in faults) == [
        (31, "column i: 'oops' is not an integer, as the first rows have there"),
        (32, "column f: 'oops' is not a number, as the first rows have there"),
        (33, "column d: 'soon' is not a date, as the first rows have there"),
        (42, "2 fields where the header has 5"),
        (52, "column s: '\N{REPLACEMENT CHARACTER}' is not UTF-8 text, as the first rows have there"),
    ]
    with pytest.raises(InputError, match=r"a\.csv:"):
        all_events(path)


def test_a_csv_row_that_never_ends_is_an_input_error(make: Make) -> None:
    for data in (b'x,y\n1,"' + b"y" * 9_000_000, b"x" * 9_000_000, b"x,y\n1," + b"y" * 9_000_000 + b"\n"):
        with pytest.raises(InputError, match=r"more than 4,194,304 bytes|longer than 4,194,304 bytes"):
            all_events(make("a.csv", data))


def test_a_csv_larger_than_a_block_is_read_whole(make: Make) -> None:
    rows = [{"x": i, "s": f'"line\n{i}"'} for i in range(250_000)]
    path = make("a.csv.zst", zstd(csv(rows)))
    with read_events(path) as reader:
        total = number = 0
        for batch in reader:
            assert list(reader.numbers[:1]) == [number + 1]
            assert batch.column(0)[0].as_py() == number
            number += batch.num_rows
            total += batch.num_rows
    assert total == 250_000

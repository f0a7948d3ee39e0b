"""Events are read from every kind of file, in every compression."""

from __future__ import annotations

import gzip
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from palio.errors import InputError
from palio.events import Event
from palio.files import FileKind, kind_of, read_events, read_subscriptions
from tests.files.sample_files import COMPRESS, CONTENTS, ROWS, Make, all_events, parquet


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.jsonl", ("jsonl", None)),
        ("a.NDJSON.GZ", ("jsonl", "gz")),
        ("a.b.json.xz", ("json", "xz")),
        ("folder.csv/a.csv.zst", ("csv", "zst")),
        (".parquet", ("parquet", None)),
    ],
)
def test_the_name_tells_the_kind(name: str, kind: tuple[str, str | None]) -> None:
    assert kind_of(name) == FileKind(*kind)


def test_a_format_overrides_the_name() -> None:
    assert kind_of("a.csv", "jsonl") == FileKind("jsonl", None)
    assert kind_of("-", "csv.gz") == FileKind("csv", "gz")
    assert kind_of("a.log", ".ndjson") == FileKind("jsonl", None)


@pytest.mark.parametrize(
    ("path", "format", "reason"),
    [
        (
            "a.txt",
            None,
            "its name does not say what it holds; say it with --format: jsonl, json, csv, parquet",
        ),
        ("gz", None, "its name does not say"),
        ("", None, "its name does not say"),
        ("-", None, "standard input: say what it holds with --format"),
        ("a.csv", "yaml", "there is no format 'yaml'; known are jsonl"),
        ("a.csv", "gz", "there is no format 'gz'"),
        ("a.csv", "a.b.csv", "there is no format 'a.b.csv'"),
    ],
)
def test_an_unknown_kind_is_refused_with_the_known_ones(
    path: str, format: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if path not in ("", "-"):
        Path(path).touch()
    with pytest.raises(InputError, match=reason):
        read_events(path, format)
    with pytest.raises(InputError, match=reason):
        read_subscriptions(path, format)
    with pytest.raises(InputError, match="there is no such file"):
        read_subscriptions("nowhere", format)


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("format", CONTENTS)
def test_every_format_is_read_in_every_compression(format: str, compression: str, make: Make) -> None:
    path = make(f"events.{format}{compression}", COMPRESS[compression](CONTENTS[format](ROWS)))
    with read_events(path, batch_size=8) as reader:
        numbers: list[int] = []
        sizes: list[int] = []
        events: list[Any] = []
        for batch in reader:
            assert isinstance(batch, list if "json" in format else pa.RecordBatch)
            numbers += reader.numbers
            sizes.append(len(batch))
            events += batch if isinstance(batch, list) else Event.from_arrow(batch)
            assert reader.size == path.stat().st_size
            assert 0 <= reader.position <= reader.size
        assert reader.position == reader.size
    assert [event.attributes for event in events] == ROWS
    assert numbers == list(range(1, 21))
    assert sizes == [8, 8, 4]


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("format", ["jsonl", "json", "csv"])
def test_an_empty_file_has_no_events(format: str, compression: str, make: Make) -> None:
    assert all_events(make(f"a.{format}{compression}", b"")) == []
    for blank in (b"\n", b" \r\n \n", b"\xef\xbb\xbf"):
        assert all_events(make(f"b.{format}{compression}", COMPRESS[compression](blank))) == []


def test_files_with_nothing_in_them_have_no_events(make: Make) -> None:
    assert all_events(make("a.json", b"[]")) == []
    assert all_events(make("b.json", b" [ \n ] \n")) == []
    assert all_events(make("a.csv", b"x,y")) == []
    assert all_events(make("b.csv", b"x,y\n")) == []
    assert all_events(make("a.parquet", parquet([{"x": 1}]))) == [{"x": 1}]
    empty = io.BytesIO()
    pq.write_table(pa.schema([("x", pa.int64())]).empty_table(), empty)
    assert all_events(make("b.parquet", empty.getvalue())) == []


@pytest.mark.parametrize("format", ["jsonl", "json", "csv"])
def test_a_byte_order_mark_windows_line_ends_and_no_last_line_end_are_fine(format: str, make: Make) -> None:
    data = b"\xef\xbb\xbf" + CONTENTS[format](ROWS).rstrip(b"\n").replace(b"\n", b"\r\n")
    assert all_events(make(f"a.{format}", data)) == ROWS


@pytest.mark.parametrize("format", ["jsonl", "json", "csv", "csv.gz"])
@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_utf_16_is_refused_with_the_way_out(format: str, mark: bytes, make: Make) -> None:
    data = mark + "x,y\n1,2\n".encode("utf-16-le")
    path = make(f"a.{format}", gzip.compress(data) if format.endswith("gz") else data)
    with pytest.raises(InputError, match="this is UTF-16; convert it with: iconv"):
        all_events(path)


def test_a_file_is_opened_at_once_and_read_when_asked(make: Make) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_events("nowhere.jsonl")
    reader = read_events(make("a.jsonl", b"nonsense"))
    assert reader.position == 0
    with pytest.raises(InputError):
        list(reader)


@pytest.mark.parametrize(
    ("file", "events", "attribute", "value"),
    [
        ("nycflights13_flights.csv.xz", 336_776, "time_hour", datetime(2013, 1, 1, 10, tzinfo=UTC)),
        ("ncedc_earthquakes.csv.xz", 38_094, "Magnitude", 2.8),
        ("wikiticker-2015-09-12-sampled.json.gz", 39_244, "delta", 36),
        ("aws_cloudtrail_stratus.jsonl.xz", 2_900, "userIdentity.type", "IAMUser"),
    ],
)
def test_real_files_are_read_whole(file: str, events: int, attribute: str, value: object, data_folder: Path) -> None:
    with read_events(data_folder / "events" / file) as reader:
        count = 0
        for batch in reader:
            if count == 0:
                first = batch[0] if isinstance(batch, list) else next(Event.from_arrow(batch))
                assert first.get(attribute) == value
            count += len(batch)
    assert (count, reader.faults) == (events, 0)

"""How files of events and subscriptions are read, and what is said about those that cannot be."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import random
import sys
import tracemalloc
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palio.errors import InputError
from palio.events import Event, Limits
from palio.files import (
    Kind,
    SubscriptionLine,
    csv_text,
    json_text,
    kind_of,
    read_events,
    read_subscriptions,
)


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}

ROWS = [{"x": i, "s": f"v{i % 3}"} for i in range(20)]


def jsonl(rows: list[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def csv(rows: list[dict[str, Any]]) -> bytes:
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    return "\n".join(lines).encode() + b"\n"


def parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=7)
    return sink.getvalue()


CONTENTS: dict[str, Callable[[list[Any]], bytes]] = {
    "jsonl": jsonl,
    "ndjson": jsonl,
    "json": lambda rows: json.dumps(rows, indent=1).encode(),
    "csv": csv,
    "parquet": parquet,
}


def all_events(path: str | Path, **options: Any) -> list[dict[str, Any]]:
    """The attributes of all events of a file."""
    with read_events(path, **options) as reader:
        batches = list(reader)
    events = [event for batch in batches for event in (batch if isinstance(batch, list) else Event.from_arrow(batch))]
    return [dict(event.attributes) for event in events]


def read_with_faults(path: str | Path, **options: Any) -> tuple[list[dict[str, Any]], list[tuple[int | None, str]]]:
    faults: list[InputError] = []
    events = all_events(path, on_error=faults.append, **options)
    return events, [(fault.line, fault.reason) for fault in faults]


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str, bytes], Path]:
    def make_file(name: str, data: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return make_file


Make = Callable[[str, bytes], Path]


# What a file is.


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
    assert kind_of(name) == Kind(*kind)


def test_a_format_overrides_the_name() -> None:
    assert kind_of("a.csv", "jsonl") == Kind("jsonl", None)
    assert kind_of("-", "csv.gz") == Kind("csv", "gz")
    assert kind_of("a.log", ".ndjson") == Kind("jsonl", None)


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
        ("a.csv", "xml", "there is no format 'xml'; known are jsonl"),
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


# Events from every kind of file.


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


# Files that cannot be opened, or not to the end.


def test_a_missing_file_is_named_with_one_like_it(make: Make) -> None:
    path = make("events.jsonl", b"")
    with pytest.raises(InputError) as caught:
        read_events(path.with_name("evnts.jsonl"))
    assert str(caught.value) == f"{path.with_name('evnts.jsonl')}: there is no such file; there is {path}"
    with pytest.raises(InputError, match=r"there is no such file$"):
        read_events(path.parent / "nowhere" / "evnts.jsonl")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(InputError, match="this is a folder; name a file in it"):
        read_events(tmp_path / "a.csv")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_without_permission_is_refused(make: Make) -> None:
    path = make("a.csv", b"x\n1\n")
    path.chmod(0)
    with pytest.raises(InputError, match="you are not allowed to read it"):
        read_events(path)


def test_a_file_without_permission_is_explained(monkeypatch: pytest.MonkeyPatch, make: Make) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = make("a.csv", b"x\n1\n")
    monkeypatch.setattr("palio.files.sources.open", refuse, raising=False)
    with pytest.raises(InputError, match="you are not allowed to read it; see its permissions with ls -l"):
        read_events(path)


def noise(size: int, seed: int) -> str:
    """Text that hardly compresses, the same at every run."""
    return random.Random(seed).randbytes(size).hex()


BIG = jsonl([{"x": i, "text": noise(20, i)} for i in range(5_000)])


@pytest.mark.parametrize("compression", [".gz", ".xz", ".zst"])
def test_a_compressed_file_that_is_cut_short_gives_what_there_was_then_says_so(compression: str, make: Make) -> None:
    data = COMPRESS[compression](BIG)
    path = make(f"a.jsonl{compression}", data[: len(data) * 2 // 3])
    batches = iter(read_events(path, batch_size=100))
    seen: list[int] = []
    with pytest.raises(InputError, match=rf"the \{compression} file is cut short; fetch it again"):
        seen.extend(len(batch) for batch in batches)
    assert sum(seen) < 5_000
    assert compression == ".zst" or sum(seen) > 1_000


@pytest.mark.parametrize("compression", [".gz", ".xz", ".zst"])
def test_a_csv_that_is_cut_short_gives_what_there_was_then_says_so(
    compression: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_text, "SAMPLE", 1_000)
    monkeypatch.setattr(csv_text, "_BLOCK", 1_000)
    data = COMPRESS[compression](csv([{"x": i, "text": noise(20, i)} for i in range(20_000)]))
    batches = iter(read_events(make(f"a.csv{compression}", data[: len(data) * 2 // 3])))
    seen: list[int] = []
    with pytest.raises(InputError, match=rf"the \{compression} file is cut short; fetch it again"):
        seen.extend(batch.num_rows for batch in batches)
    assert sum(seen) < 20_000
    assert compression == ".zst" or sum(seen) > 0


# Not .zst: pyarrow writes it without a checksum, so that some damage goes unseen.
@pytest.mark.parametrize("compression", [".gz", ".xz"])
def test_a_compressed_file_that_is_damaged_is_an_input_error(compression: str, make: Make) -> None:
    data = bytearray(COMPRESS[compression](BIG))
    data[len(data) // 2 : len(data) // 2 + 50] = b"\0" * 50
    with pytest.raises(InputError, match=rf"a\.jsonl\{compression}:"):
        all_events(make(f"a.jsonl{compression}", bytes(data)))


@pytest.mark.parametrize("format", ["jsonl", "json", "csv", "parquet"])
@pytest.mark.parametrize("compression", [".gz", ".xz", ".zst"])
def test_a_file_that_is_not_compressed_as_it_says_is_an_input_error(format: str, compression: str, make: Make) -> None:
    for broken in (b"this is not compressed at all, but it is long enough", b"\x1f"):
        path = make(f"a.{format}{compression}", broken)
        with pytest.raises(InputError, match=rf"a\.{format}\{compression}: (not a|the) \{compression} file"):
            all_events(path)
        with pytest.raises(InputError, match=rf"a\.{format}\{compression}: (not a|the) \{compression} file"):
            list(read_subscriptions(path))


@pytest.mark.parametrize("data", [b"", b"PAR1", b"not parquet" * 100, parquet(ROWS)[:-20], parquet(ROWS)[20:]])
def test_a_damaged_parquet_file_is_an_input_error(data: bytes, make: Make) -> None:
    with pytest.raises(InputError, match="not a Parquet file, or a damaged one: "):
        all_events(make("a.parquet", data))
    with pytest.raises(InputError, match="not a Parquet file, or a damaged one: "):
        list(read_subscriptions(make("a.parquet", data)))


def test_a_parquet_file_damaged_inside_is_an_input_error(make: Make) -> None:
    rows = [{"x": noise(30, i)} for i in range(1_000)]
    data = bytearray(parquet(rows))
    data[100 : len(data) // 2] = b"\xff" * (len(data) // 2 - 100)
    with pytest.raises(InputError, match="not a Parquet file, or a damaged one: "):
        all_events(make("a.parquet", bytes(data)))


# JSON lines.


def test_bad_lines_are_reported_and_left_out(make: Make) -> None:
    path = make("a.jsonl", b'{"x":1}\nnonsense\n\n{"x":2}\n[1]\n{"x":1,"x":2}\n{"x":"\xff"}\n{"x":3}')
    with read_events(path, on_error=(faults := []).append) as reader:  # type: ignore[var-annotated]
        (batch,) = reader
        assert [event.get("x") for event in batch] == [1, 2, 3]
        assert reader.numbers == [1, 3, 7]
        assert reader.faults == 4
    assert [str(fault).partition("a.jsonl:")[2] for fault in faults] == [
        "2: not JSON: expecting value (line 1, column 1)",
        "5: an event is a JSON object, not an array",
        "6: x: the key occurs twice in one object",
        "7: invalid UTF-8 at byte 6: invalid start byte",
    ]


def test_a_bad_line_is_raised_where_nobody_takes_it(make: Make) -> None:
    path = make("a.jsonl", b'{"x":1}\nnonsense\n')
    with pytest.raises(InputError, match=r"a\.jsonl:2: not JSON") as caught:
        all_events(path)
    assert (caught.value.source, caught.value.line) == (str(path), 2)


def test_a_line_that_is_too_long_is_reported_and_left_out(make: Make) -> None:
    long = b'{"x":"' + b"y" * 100 + b'"}'
    limits = Limits(json_bytes=50)
    for data in (b'{"x":1}\n' + long + b'\n{"x":2}\n', b'{"x":1}\n' + long, long + b'\n{"x":1}\n{"x":2}'):
        events, faults = read_with_faults(make("a.jsonl", data), limits=limits)
        assert {"x": 1} in events
        assert [reason for _, reason in faults] == ["a line of more than 50 bytes"] or len(faults) == 1


def test_a_line_larger_than_memory_is_left_out_without_being_held(make: Make) -> None:
    path = make("a.jsonl.gz", gzip.compress(b'{"x":1}\n{"x":"' + b"y" * 50_000_000 + b'"}\n{"x":2}\n', 1))
    tracemalloc.start()
    events, faults = read_with_faults(path, limits=Limits(json_bytes=2**20))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert events == [{"x": 1}, {"x": 2}]
    assert faults == [(2, "a line of more than 1,048,576 bytes")]
    assert peak < 20 * 2**20


# JSON documents.


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"x":1}', [1]),
        ('[{"x":1}]', [1]),
        (' [ {"x":1} , {"x":[2]} ] ', [1, (2,)]),
        ('{"x":1}{"x":2}', [1, 2]),
        ('{"x":1}\n{"x":2}\n', [1, 2]),
        ('[{"x":"]}[{,\\"]"},{"x":"\\\\"}]', [']}[{,"]', "\\"]),
        ('[{"y":{"z":[{}]},"x":1}]', [1]),
    ],
)
def test_a_document_is_an_array_or_values_one_after_the_other(text: str, values: list[Any], make: Make) -> None:
    assert [event["x"] for event in all_events(make("a.json", text.encode()))] == values


def test_bad_elements_are_reported_by_their_line_and_left_out(make: Make) -> None:
    path = make("a.json", b'[\n{"x":1},\n5,\n"a",\n{"x" 1},\n{"x":},null, [{}], {"x":\n2}\n,{"x":1,"x":1}]')
    events, faults = read_with_faults(path)
    assert events == [{"x": 1}, {"x": 2}]
    assert [line for line, _ in faults] == [3, 4, 5, 6, 6, 6, 8]
    assert faults[0][1] == "an event is a JSON object, not a number"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ('[{"x":1}\n', 2, "the file ends inside its array"),
        ("[", 1, "the file ends inside its array"),
        ('[{"x":1},', 1, "the file ends inside its array"),
        ('[{"x":1}\n{"x":2}]', 2, "expected a comma or ] after an element of the array"),
        ('[{"x":1},\n]', 2, "expected a value here"),
        ("[,]", 1, "expected a value here"),
        ('[{"x":1}]\n\n5', 3, "there is more after the end of the array"),
        ('\n{"x":1', 2, "the file ends inside a value that begins here"),
        ('{"x":"', 1, "the file ends inside a value that begins here"),
        ('"abc', 1, "the file ends inside a value that begins here"),
        ("}", 1, "expected a value here"),
        ('{"x":1},{"x":2}', 1, "expected a value here"),
    ],
)
def test_a_document_that_breaks_off_or_is_not_json_between_values_is_raised(
    text: str, line: int, reason: str, make: Make
) -> None:
    with pytest.raises(InputError) as caught:
        read_with_faults(make("a.json", text.encode()))
    assert (caught.value.line, caught.value.reason) == (line, reason)


def test_what_came_before_a_broken_place_is_given(make: Make) -> None:
    batches = iter(read_events(make("a.json", b'[{"x":1},{"x":2} nonsense'), batch_size=1))
    seen: list[Any] = []
    with pytest.raises(InputError):
        seen.extend(event.get("x") for batch in batches for event in batch)
    assert seen == [1, 2]


def test_a_value_that_is_too_long_is_raised(make: Make) -> None:
    limits = Limits(json_bytes=2**20)
    for data in (b'[{"x":"' + b"y" * 5_000_000, b"[[" + b"{}," * 2_000_000, b'"' + b"y" * 5_000_000):
        with pytest.raises(InputError, match="a value of more than 1,048,576 bytes"):
            all_events(make("a.json", data), limits=limits)
    with pytest.raises(InputError, match="a value nested deeper than 1,000 levels"):
        all_events(make("a.json", b"[" * 5_000_000))


VALUES = st.recursive(
    st.integers() | st.booleans() | st.none() | st.text(st.sampled_from('[]{}",\\:é\n'), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(VALUES, max_size=6), st.integers(1, 7), st.sampled_from([None, 1]), st.booleans())
def test_documents_are_cut_right_wherever_chunks_end(
    values: list[Any], chunk: int, indent: int | None, ascii: bool
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=ascii).encode()

    class Trickle(io.RawIOBase):
        at = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            piece = text[self.at : self.at + chunk]
            self.at += len(piece)
            buffer[: len(piece)] = piece
            return len(piece)

    found = list(json_text.read_values(io.BufferedReader(Trickle()), "a", 1 << 20, lambda *_: None))
    assert [json.loads(piece) for texts in found for _, piece in texts] == values
    lines = [line for texts in found for line, _ in texts]
    assert lines == sorted(lines)


@given(st.binary(max_size=40) | st.text(st.sampled_from('[]{},:" \\nx1'), max_size=30).map(str.encode))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("format", ["jsonl", "json", "csv", "parquet", "jsonl.gz", "json.xz", "csv.zst"])
def test_any_bytes_are_events_or_input_errors(format: str, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / f"any.{format}"
    path.write_bytes(data)
    try:
        read_with_faults(path)
        list(read_subscriptions(path, on_error=lambda _: None))
    except InputError as error:
        message = str(error)
    else:
        message = str(path)
    assert message.startswith(str(path))


# CSV.


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
    monkeypatch.setattr(csv_text, "SAMPLE", 100)
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


# Standard input.


class Pipe:
    """A stand-in for sys.stdin that gives its pieces one read at a time, as a pipe does."""

    def __init__(self, *pieces: bytes) -> None:
        pending = list(pieces)

        class Raw(io.RawIOBase):
            def readable(self) -> bool:
                return True

            def readinto(self, buffer: Any) -> int:
                piece = pending.pop(0) if pending else b""
                buffer[: len(piece)] = piece
                return len(piece)

        self.buffer = io.BufferedReader(Raw())


@pytest.mark.parametrize("format", ["jsonl", "json", "csv", "parquet", "jsonl.gz", "csv.xz", "json.zst"])
def test_standard_input_is_read_in_every_format(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, _, compression = format.partition(".")
    data = COMPRESS["." + compression if compression else ""](CONTENTS[plain](ROWS))
    monkeypatch.setattr(sys, "stdin", Pipe(*(data[i : i + 100] for i in range(0, len(data), 100))))
    with read_events("-", format) as reader:
        assert (reader.size, reader.name) == (None, "standard input")
        events = [
            event for batch in reader for event in (batch if isinstance(batch, list) else Event.from_arrow(batch))
        ]
        assert reader.position == len(data)
    assert [event.attributes for event in events] == ROWS
    assert not sys.stdin.buffer.closed


def test_lines_from_a_pipe_are_given_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Pipe(b'{"x":1}\n{"x":2}\n{"x"', b":3}\n", b'{"x":4}'))
    batches = [[event.get("x") for event in batch] for batch in read_events("-", "jsonl")]
    assert batches == [[1, 2], [3], [4]]


def test_standard_input_is_named_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Pipe(b"nonsense\n"))
    with pytest.raises(InputError, match="standard input:1: not JSON"):
        list(read_events("-", "jsonl"))


def test_a_named_pipe_is_read_like_standard_input(tmp_path: Path) -> None:
    import threading

    path = tmp_path / "pipe.jsonl"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b'{"x":1}\n',))
    writer.start()
    with read_events(path) as reader:
        assert reader.size is None
        assert [event.get("x") for batch in reader for event in batch] == [1]
    writer.join()


def test_a_batch_size_must_be_positive(make: Make) -> None:
    with pytest.raises(ValueError, match="batch_size must be positive, not 0"):
        read_events(make("a.jsonl", b""), batch_size=0)


# Subscriptions.

WANTS = [
    {"id": "desk", "where": "price > 100"},
    {"id": "ops", "where": "level = 'error'", "language": "sql", "subscriber": "ann", "team": "night"},
]


def lines(path: Path, **options: Any) -> list[SubscriptionLine]:
    return list(read_subscriptions(path, **options))


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("format", CONTENTS)
def test_subscriptions_are_read_from_every_kind_of_file(format: str, compression: str, make: Make) -> None:
    names = ("id", "where", "language", "subscriber", "team")
    rows: list[Any] = [{name: want.get(name) for name in names} for want in WANTS]
    if format == "csv":
        rows = [{name: "" if value is None else value for name, value in row.items()} for row in rows]
    found = lines(make(f"wants.{format}{compression}", COMPRESS[compression](CONTENTS[format](rows))))
    nulls = {"team": None} if "json" in format else {}
    first = {"parquet": 1, "csv": 2, "json": 2}.get(format, 1)
    assert [(one.id, one.where, one.language, one.subscriber, one.metadata) for one in found] == [
        ("desk", "price > 100", None, None, nulls),
        ("ops", "level = 'error'", "sql", "ann", {"team": "night"}),
    ]
    assert found[0].line == first
    assert found[1].line > found[0].line


def test_a_condition_may_be_json(make: Make) -> None:
    path = make("a.jsonl", b'{"id":"a","where":{"x":[1]},"language":"eventbridge"}\n{"id":"b","where":[{"y":1}]}\n')
    assert [one.where for one in lines(path)] == [{"x": [1]}, [{"y": 1}]]


def test_an_integer_id_is_its_digits_and_csv_ids_are_text(make: Make) -> None:
    path = make("a.jsonl", b'{"id":7,"where":"x","subscriber":12}\n{"id":12345678901234567890,"where":"x"}')
    assert [(one.id, one.subscriber) for one in lines(path)] == [("7", "12"), ("12345678901234567890", None)]
    assert [one.id for one in lines(make("a.csv", b"id,where\n007,x\n1.50,x\n"))] == ["007", "1.50"]
    assert [one.id for one in lines(make("a.parquet", parquet([{"id": 7, "where": "x"}])))] == ["7"]


def test_everything_else_is_kept_as_metadata(make: Make) -> None:
    path = make("a.jsonl", b'{"id":"a","where":"x","tags":["p"],"owner":{"n":1},"note":null}')
    assert lines(path)[0].metadata == {"tags": ["p"], "owner": {"n": 1}, "note": None}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"where":"x"}', 'there is no "id"'),
        ('{"id":null,"where":"x"}', 'there is no "id"'),
        ('{"id":"a"}', 'there is no "where"'),
        ('{"id":"","where":"x"}', '"id" is empty'),
        ('{"id":true,"where":"x"}', '"id" must be a string or an integer, not bool'),
        ('{"id":1.5,"where":"x"}', '"id" must be a string or an integer, not float'),
        ('{"id":["a"],"where":"x"}', '"id" must be a string or an integer, not list'),
        ('{"id":"a","where":5}', '"where" must be a condition as text, or as JSON, not int'),
        ('{"id":"a","where":"x","language":5}', '"language" must be a string, not int'),
        ('{"id":"a","where":"x","subscriber":{}}', '"subscriber" must be a string or an integer, not dict'),
        ('{"id":"a","id":"b","where":"x"}', "id: the key occurs twice in one object"),
        ('{"id":"a","where":"x","m":{"k":1,"k":2}}', "m.k: the key occurs twice in one object"),
        ("[1]", "a subscription is an object such as "),
        ("nonsense", "not JSON: "),
    ],
)
def test_a_subscription_that_cannot_be_used_is_reported_by_its_line(text: str, reason: str, make: Make) -> None:
    path = make("a.jsonl", b'{"id":"first","where":"x"}\n\n' + text.encode() + b'\n{"id":"last","where":"y"}\n')
    faults: list[InputError] = []
    assert [one.id for one in lines(path, on_error=faults.append)] == ["first", "last"]
    (fault,) = faults
    assert fault.line == 3
    assert fault.reason.startswith(reason)
    with pytest.raises(InputError, match=r"a\.jsonl:3: "):
        lines(path)


def test_columns_that_are_missing_are_reported_for_each_row(make: Make) -> None:
    faults: list[InputError] = []
    assert lines(make("a.csv", b"id,condition\na,x\nb,y\n"), on_error=faults.append) == []
    assert [(fault.line, fault.reason) for fault in faults] == [
        (2, 'there is no "where"'),
        (3, 'there is no "where"'),
    ]


def test_subscriptions_are_read_as_they_are_asked_for(make: Make) -> None:
    path = make("a.jsonl", b'{"id":"a","where":"x"}\n' * 100_000 + b"nonsense\n")
    found = read_subscriptions(path)
    assert next(found).id == "a"
    found.close()  # type: ignore[attr-defined]


def test_a_missing_file_of_subscriptions_is_raised_at_once() -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_subscriptions("nowhere.jsonl")


# Real files.


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

"""Files of matches: formats, compression, and the state of a file when writing ends early."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import signal
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from palio.cli import match_writer as formats_module
from palio.cli.match_writer import open_writer
from palio.cli.output_file import OutputError
from palio.errors import PalioError
from palio.events import Event

EVENTS = [1, 1, 3]
WANTS = ["desk", 'say "hi", é\n', "desk"]
ROWS = [{"event": event, "subscription": want} for event, want in zip(EVENTS, WANTS, strict=True)]
FORMATS = ["jsonl", "json", "csv", "parquet"]
COMPRESSIONS = ["", ".gz", ".xz", ".zst"]


def unpack(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".zst":
        return pa.input_stream(io.BytesIO(data), compression="zstd").read()  # type: ignore[no-any-return]
    return data


def read_back(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, by other means than Palio's own reading."""
    data = unpack(path)
    if ".csv" in path.name:
        options = pyarrow.csv.ParseOptions(newlines_in_values=True)
        types = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
        return pyarrow.csv.read_csv(io.BytesIO(data), parse_options=options, convert_options=types).to_pylist()  # type: ignore[no-any-return]
    if ".parquet" in path.name:
        return pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist()  # type: ignore[no-any-return]
    if ".jsonl" in path.name:
        return [json.loads(line) for line in data.decode().split("\n")[:-1]]
    return json.loads(data)  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def nothing_left_behind(tmp_path: Path) -> Iterator[None]:
    yield
    assert [path.name for path in tmp_path.rglob("*.part")] == []


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_written_in_every_compression(format: str, compression: str, tmp_path: Path) -> None:
    path = tmp_path / f"matches.{format}{compression}"
    with open_writer(path) as writer:
        writer.write(EVENTS[:2], WANTS[:2])
        writer.write([], [])
        writer.write(EVENTS[2:], WANTS[2:])
        assert writer.rows == 3
    assert read_back(path) == ROWS


@pytest.mark.parametrize("format", FORMATS)
def test_no_matches_are_a_valid_file_too(format: str, tmp_path: Path) -> None:
    path = tmp_path / f"matches.{format}"
    with open_writer(path):
        pass
    assert read_back(path) == []


@pytest.mark.parametrize("format", FORMATS)
def test_subscribers_and_events_are_written_where_asked_for(format: str, tmp_path: Path) -> None:
    path = tmp_path / f"matches.{format}"
    event = Event.from_dict({"x": 1, "o": {"tags": ["a", "b"]}})
    with open_writer(path, columns=["subscriber", "event", "subscription", "content"]) as writer:
        writer.write([5, 6], ["desk", "ops"], ["ann", None], [event, event])
    content: Any = {"x": 1, "o": {"tags": ["a", "b"]}}
    if format in ("csv", "parquet"):
        content = json.dumps(content, separators=(",", ":"))
    assert read_back(path) == [
        {"subscriber": "ann", "event": 5, "subscription": "desk", "content": content},
        {"subscriber": None, "event": 6, "subscription": "ops", "content": content},
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_arrays_of_arrow_and_numpy_are_written(format: str, tmp_path: Path) -> None:
    path = tmp_path / f"matches.{format}"
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), pa.array(["desk", WANTS[1]]))
    with open_writer(path) as writer:
        writer.write(np.array(EVENTS), encoded)
        writer.write(pa.array(EVENTS), pa.chunked_array([["desk"], [WANTS[1], "desk"]]))
    assert read_back(path) == ROWS + ROWS


def test_a_format_may_be_given_instead_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "matches.out"
    with open_writer(path, "csv") as writer:
        writer.write([1], ["a"])
    assert path.read_text() == '"event","subscription"\n1,"a"\n'


def test_lines_of_json_are_as_plain_as_can_be(tmp_path: Path) -> None:
    path = tmp_path / "matches.jsonl"
    with open_writer(path) as writer:
        writer.write([1, 2], ["desk", "é"])
    assert path.read_text() == '{"event":1,"subscription":"desk"}\n{"event":2,"subscription":"é"}\n'


def test_parquet_rows_are_gathered_into_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats_module, "_ROWS_PER_GROUP", 10)
    path = tmp_path / "matches.parquet"
    with open_writer(path) as writer:
        for i in range(25):
            writer.write([i], ["desk"])
    assert pyarrow.parquet.ParquetFile(path).num_row_groups == 3
    assert [row["event"] for row in read_back(path)] == list(range(25))


# When writing ends early.


def write_then_raise(path: Path, error: BaseException) -> None:
    with open_writer(path) as writer:
        writer.write(EVENTS, WANTS)
        raise error


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("format", FORMATS)
def test_a_file_appears_when_it_is_complete(format: str, compression: str, tmp_path: Path) -> None:
    path = tmp_path / f"matches.{format}{compression}"
    path.write_text("old")
    writer = open_writer(path)
    writer.write(EVENTS, WANTS)
    assert path.read_text() == "old"
    writer.close()
    assert read_back(path) == ROWS
    writer.close()


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("format", FORMATS)
def test_after_an_interrupt_what_was_done_is_there_and_valid(format: str, compression: str, tmp_path: Path) -> None:
    path = tmp_path / f"matches.{format}{compression}"
    with pytest.raises(KeyboardInterrupt):
        write_then_raise(path, KeyboardInterrupt())
    assert read_back(path) == ROWS


@pytest.mark.parametrize("format", ["jsonl.xz", "json.gz", "csv.zst", "parquet"])
def test_an_interrupt_in_the_middle_of_a_piece_waits_for_its_end(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"matches.{format}"
    # Not what the process came with: a shell starts jobs in the background with interrupts ignored.
    before, given = signal.default_int_handler, signal.signal(signal.SIGINT, signal.default_int_handler)
    event = Event.from_dict({"x": 1})
    real = Event.to_json

    def interrupted(self: Event) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return real(self)

    monkeypatch.setattr(Event, "to_json", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt), open_writer(path, columns=["event", "content"]) as writer:
            writer.write([1, 2], ["desk", "desk"], content=[event, event])
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, given)
    assert writer.rows == 2
    assert [row["event"] for row in read_back(path)] == [1, 2]


def test_another_thread_may_write(tmp_path: Path) -> None:
    path = tmp_path / "matches.jsonl"
    with open_writer(path) as writer:
        thread = threading.Thread(target=writer.write, args=(EVENTS, WANTS))
        thread.start()
        thread.join()
    assert read_back(path) == ROWS


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("format", FORMATS)
def test_after_a_failure_the_old_file_is_there(format: str, compression: str, tmp_path: Path) -> None:
    path = tmp_path / f"matches.{format}{compression}"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="elsewhere"):
        write_then_raise(path, RuntimeError("elsewhere"))
    assert path.read_text() == "old"
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_a_failure_while_the_file_is_completed_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "matches.jsonl"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    writer = open_writer(path)
    writer.write(EVENTS, WANTS)
    with pytest.raises(OutputError, match="it cannot be written: No space left on device"):
        writer.close()
    assert path.read_text() == "old"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("format", FORMATS)
def test_a_full_disk_is_an_output_error(format: str) -> None:
    with (
        pytest.raises(OutputError, match="/dev/full: it cannot be written: No space left"),
        open_writer("/dev/full", format) as writer,
    ):
        writer.write(EVENTS * 10_000, WANTS * 10_000)


# Where it goes.


def test_a_device_is_written_to_directly() -> None:
    with open_writer(os.devnull, "jsonl") as writer:
        writer.write(EVENTS, WANTS)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.jsonl").write_text("old")
    link = tmp_path / "link.jsonl"
    link.symlink_to("real.jsonl")
    with open_writer(link) as writer:
        writer.write(EVENTS, WANTS)
    assert link.is_symlink()
    assert read_back(tmp_path / "real.jsonl") == ROWS


def test_permissions_are_those_of_the_old_file_or_the_usual_ones(tmp_path: Path) -> None:
    usual, old = tmp_path / "usual", tmp_path / "old.jsonl"
    usual.touch()
    old.touch()
    old.chmod(0o640)
    for path in (tmp_path / "new.jsonl", old):
        with open_writer(path) as writer:
            writer.write(EVENTS, WANTS)
    assert (tmp_path / "new.jsonl").stat().st_mode == usual.stat().st_mode
    assert stat.S_IMODE(old.stat().st_mode) == 0o640


@pytest.mark.parametrize("path", [None, "-"])
def test_standard_output_is_json_lines_and_stays_open(
    path: str | None, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with open_writer(path) as writer:
        writer.write([1], ["desk"])
        assert capfdbinary.readouterr().out == b'{"event":1,"subscription":"desk"}\n'
    assert not sys.stdout.buffer.closed


@pytest.mark.parametrize("format", ["json", "csv", "parquet", "jsonl.gz", "csv.xz", "json.zst"])
def test_standard_output_takes_every_format(
    format: str, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    with open_writer(None, format) as writer:
        writer.write(EVENTS, WANTS)
    path = tmp_path / f"caught.{format}"
    path.write_bytes(capfdbinary.readouterr().out)
    assert read_back(path) == ROWS
    assert not sys.stdout.buffer.closed


@pytest.mark.parametrize("format", ["parquet", "jsonl.gz"])
def test_a_terminal_is_not_given_binary_data(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(OutputError, match="standard output: a terminal cannot show this format"):
        open_writer(None, format)


@pytest.mark.parametrize(
    ("path", "format", "reason"),
    [
        (
            "a.txt",
            None,
            "its name does not say what to write; end it in .jsonl, .json, .csv, .parquet, each also",
        ),
        ("a.csv", "xml", "there is no format 'xml'; known are .jsonl"),
        (None, "xml", "standard output: there is no format 'xml'"),
        ("nowhere/a.csv", None, "its folder does not exist; make it with mkdir -p"),
        ("folder.csv", None, "there is a folder of this name; give the name of a file"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused(
    path: str | None, format: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(OutputError, match=reason) as caught:
        open_writer(path, format)
    assert isinstance(caught.value, PalioError)


def test_a_reader_that_went_away_is_a_broken_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    class Output:
        buffer = Gone()

    monkeypatch.setattr(sys, "stdout", Output())
    with pytest.raises(BrokenPipeError), open_writer(None) as writer:
        writer.write(EVENTS, WANTS)


def test_columns_must_be_known_and_given(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for columns in ([], ["event", "event"], ["row"]):
        with pytest.raises(ValueError, match="columns are some of event, path, subscription, subscriber, content"):
            open_writer(path, columns=columns)
    with open_writer(path, columns=["event", "subscriber"]) as writer:
        with pytest.raises(ValueError, match="the column subscriber was announced, but is not given"):
            writer.write([1], ["a"])
        with pytest.raises(ValueError, match="the columns of a piece have one length"):
            writer.write([1], ["a"], ["b", "c"])
    assert read_back(path) == []

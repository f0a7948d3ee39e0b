"""Standard input and named pipes are read as they come."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from palio.errors import InputError
from palio.events import Event
from palio.files import (
    read_events,
)
from tests.files.sample_files import COMPRESS, CONTENTS, ROWS, Make


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

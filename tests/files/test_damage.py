"""Errors of files that cannot be opened, or not read to their end."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from palio.errors import InputError
from palio.files import csv_reader, read_events, read_subscriptions
from tests.files.sample_files import COMPRESS, ROWS, Make, all_events, csv, jsonl, parquet


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
    monkeypatch.setattr("palio.files.input_file.open", refuse, raising=False)
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
    monkeypatch.setattr(csv_reader, "SAMPLE_BYTES", 1_000)
    monkeypatch.setattr(csv_reader, "_BLOCK_BYTES", 1_000)
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

"""Saved-index file: the arrays of a matcher as they are in memory, so that opening is mapping.

    magic · arrays, each at a multiple of 64 bytes · directory (JSON) · footer

The directory names every array with its place, type, shape and checksum; the footer, of fixed size, says where the
directory is. Everything in the file is data: nothing of it is executed, tests of values are kept as SQL text and read
by the parser. A file that is cut short, damaged or of another version is refused by name.
"""

from __future__ import annotations

import json
import mmap
import os
import secrets
import struct
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from palio.errors import IndexFileError, IndexFileNotFound, PalioError
from palio.filters.filter import Filter
from palio.filters.like import LikePattern
from palio.filters.sql_writer import leaf_to_sql, literal_to_sql, name_to_sql
from palio.filters.tree import Leaf, Residual, domain_of
from palio.filters.value_predicates import Computed, Like, Test
from palio.matching.catalogue import Block, Catalogue, IdHashRun
from palio.matching.columnar import layout
from palio.matching.columnar.array_members import ArrayMember, membership_in
from palio.matching.columnar.array_types import AnyArray, Bytes
from palio.matching.columnar.axes import Axes
from palio.matching.columnar.computed_attributes import is_computed
from palio.matching.columnar.conditions import AxisKey, SetMembership, WholeEventSearch
from palio.matching.columnar.postings import Postings
from palio.matching.columnar.segment import Segment

_FORMAT: Final = 4  # of the file; FORMAT of `layout` is that of its arrays
_MAGIC: Final = b"PALIO\0" + bytes((layout.FORMAT, _FORMAT))
_FOOTER: Final = struct.Struct("<QQI4s8s")  # where the directory is, its length, its checksum, padding, magic
_ALIGNMENT: Final = 64


def save(path: Path, segments: Iterable[Segment], catalogue: Catalogue, dead: Bytes, removed: int) -> None:
    """Write a matcher; the file appears under its name only when it is complete."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with beside.open("wb") as file:
            writer = _IndexWriter(file)
            directory = {
                "segments": [_write_segment(writer, segment) for segment in segments],
                "catalogue": _write_catalogue(writer, catalogue),
                "dead": writer.array(dead),
                "removed": removed,
            }
            writer.finish(directory)
            file.flush()
            # On disk before it gets its name: after a crash, there is the old file or the whole new one.
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise IndexFileError(str(path), f"cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def load(path: Path) -> tuple[list[Segment], Catalogue, Bytes, int]:
    """Map a saved matcher into memory."""
    reader = _IndexReader(path)
    try:
        directory = reader.directory
        segments = [_read_segment(reader, each) for each in directory["segments"]]
        catalogue = _read_catalogue(reader, directory["catalogue"])
        dead = reader.array(directory["dead"]).copy()  # removals change it
        return segments, catalogue, dead, int(directory["removed"])
    except PalioError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, pa.ArrowException) as error:
        raise IndexFileError(str(path), f"is damaged: {error!r}") from error


def _write_segment(writer: _IndexWriter, segment: Segment) -> dict[str, Any]:
    return {
        "attributes": [name for name, test in segment.encoder.keys if test is None],
        # What the code calls tests. The key is a part of the format: another one would refuse every saved index.
        "questions": [_write_key(key) for key in segment.encoder.keys if key[1] is not None],
        "axes": writer.arrays(segment.encoder.axes.arrays),
        "postings": writer.arrays(segment.postings.arrays),
        "runs": writer.array(segment.runs),
        "unsure": writer.array(segment.residual_numbers),
        "computed": writer.array(segment.computed_numbers),
        "unshared": segment.slow,
    }


def _read_segment(reader: _IndexReader, entry: dict[str, Any]) -> Segment:
    return Segment(
        entry["attributes"],
        # Parsed at first use, so that opening takes milliseconds whatever the size.
        lambda: [_read_key(*key) for key in entry["questions"]],
        Axes(reader.arrays(entry["axes"])),
        Postings.from_arrays(reader.arrays(entry["postings"])),
        reader.array(entry["runs"]),
        reader.array(entry["unsure"]),
        reader.array(entry["computed"]),
        int(entry["unshared"]),
    )


def _write_key(key: AxisKey) -> list[str | None]:
    name, test = key
    if isinstance(test, WholeEventSearch):
        return [name, "search", test.pattern, test.function]
    if isinstance(test, Test) and isinstance(test.pattern, Like):
        # The common ones need no parser.
        return [name, "ilike" if test.pattern.pattern.ignore_case else "like", test.pattern.pattern.sql]
    if isinstance(test, ArrayMember):
        text = f"array_contains({name_to_sql(name)}, {literal_to_sql(test.constant.value)})"
        return [name, "contains", text, test.timezone]
    written = _name_in_tests(name)
    if isinstance(test, SetMembership):
        return [name, "member", leaf_to_sql(written, test.values)[0], "UTC"]
    assert test is not None  # plain axes are kept by their names alone
    zone = test.pattern.timezone if isinstance(test.pattern, Computed) else "UTC"
    return [name, "test", leaf_to_sql(written, domain_of(test).where([test]))[0], zone]


def _name_in_tests(name: str) -> str:
    """The attribute that the SQL of a test names: the name of a computed one is no name in SQL."""
    return "computed" if is_computed(name) else name


def _read_key(name: str, form: str, text: str, zone: str = "UTC") -> AxisKey:
    if form == "search":
        # In this form the fourth field is the function, not a time zone.
        return name, WholeEventSearch(zone, text)
    if form in ("like", "ilike"):
        return name, Test(Like(LikePattern.parse(text, ignore_case=form == "ilike")))
    tree = Filter.parse(text, timezone=zone).tree
    if form == "contains":
        found = membership_in(tree) if isinstance(tree, Residual) else None
        if found is None or found[0] != name:
            raise ValueError(f"{text} is no test of the array {name}")
        return found
    if not isinstance(tree, Leaf) or tree.attribute != _name_in_tests(name):
        raise ValueError(f"{text} is no test of {name}")
    if form == "member":
        return name, SetMembership(tree.values)
    (test,) = tree.values.tests
    return name, test


def _write_catalogue(writer: _IndexWriter, catalogue: Catalogue) -> dict[str, Any]:
    ids = catalogue.names().cast(pa.large_string())
    _, offsets, text = ids.buffers()
    packed = b"".join([bytes(block.packed) for block in catalogue.blocks])
    return {
        "starts": [block.start for block in catalogue.blocks],
        "sizes": [block.size for block in catalogue.blocks],
        "packed_sizes": [len(block.packed) for block in catalogue.blocks],
        "bare": [int(block.is_bare) for block in catalogue.blocks],
        "packed": writer.array(np.frombuffer(packed, np.uint8)),
        "offsets": writer.array(np.frombuffer(offsets or b"", np.int64)[: len(ids) + 1]),
        "text": writer.array(np.frombuffer(text or b"", np.uint8)),
        "runs": [[writer.array(run.hashes), writer.array(run.numbers)] for run in catalogue.runs],
    }


def _read_catalogue(reader: _IndexReader, entry: dict[str, Any]) -> Catalogue:
    """All blocks from three arrays: nothing is copied, and blocks are unpacked when they are read."""
    starts, sizes = entry["starts"], entry["sizes"]
    offsets, text = reader.array(entry["offsets"]), reader.array(entry["text"])
    packed = reader.array(entry["packed"]).data
    count = max(0, len(offsets) - 1)
    ids = pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text)) if count else None
    blocks, place = [], 0
    ends = [*starts[1:], count][: len(starts)]
    for start, end, size, length, bare in zip(starts, ends, sizes, entry["packed_sizes"], entry["bare"], strict=True):
        assert ids is not None  # a block has ids
        blocks.append(Block(start, ids.slice(start, end - start), packed[place : place + length], size, bool(bare)))
        place += length
    runs = [IdHashRun(reader.array(hashes), reader.array(numbers)) for hashes, numbers in entry["runs"]]
    return Catalogue(blocks, runs)


class _IndexWriter:
    def __init__(self, file: Any) -> None:
        self._file = file
        self._file.write(_MAGIC)

    def arrays(self, arrays: dict[str, AnyArray]) -> dict[str, Any]:
        return {name: self.array(array) for name, array in arrays.items()}

    def array(self, array: AnyArray) -> list[Any]:
        array = np.ascontiguousarray(array)
        # Aligned, because arrays are used in place in the mapped file.
        self._file.write(b"\0" * (-self._file.tell() % _ALIGNMENT))
        start = self._file.tell()
        raw = array.view(np.uint8).data if array.size else b""
        self._file.write(raw)
        return [start, array.dtype.str, list(array.shape), zlib.crc32(raw)]

    def finish(self, directory: dict[str, Any]) -> None:
        raw = json.dumps(directory, separators=(",", ":")).encode()
        start = self._file.tell()
        self._file.write(raw)
        self._file.write(_FOOTER.pack(start, len(raw), zlib.crc32(raw), b"", _MAGIC))


class _IndexReader:
    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < len(_MAGIC) + _FOOTER.size:
                    raise self._refusal("is too short to be a saved matcher")
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError as error:
            raise IndexFileNotFound(str(path), f"cannot be opened: {error.strerror}") from error
        except OSError as error:
            raise self._refusal(f"cannot be opened: {error.strerror or error}") from error
        if self._map[: len(_MAGIC)] != _MAGIC:
            ours = self._map[:5] == _MAGIC[:5]
            raise self._refusal(
                "was saved by another version of Palio; save it again" if ours else "is no saved matcher"
            )
        self.directory = self._read_directory(size)

    def _read_directory(self, size: int) -> dict[str, Any]:
        start, length, checksum, _, magic = _FOOTER.unpack(self._map[size - _FOOTER.size :])
        if magic != _MAGIC or start + length + _FOOTER.size != size:
            raise self._refusal("is cut short; save it again")
        raw = self._map[start : start + length]
        if zlib.crc32(raw) != checksum:
            raise self._refusal("is damaged: the directory's checksum is wrong")
        directory: dict[str, Any] = json.loads(raw)
        return directory

    def _refusal(self, reason: str) -> IndexFileError:
        return IndexFileError(str(self._path), reason)

    def arrays(self, entries: dict[str, list[Any]]) -> dict[str, AnyArray]:
        return {name: self.array(entry) for name, entry in entries.items()}

    def array(self, entry: list[Any]) -> AnyArray:
        start, kind, shape, checksum = entry
        dtype = np.dtype(kind)
        count = int(np.prod(shape, dtype=np.int64))
        raw = memoryview(self._map)[start : start + count * dtype.itemsize]
        if zlib.crc32(raw) != checksum:
            raise self._refusal("is damaged: an array's checksum is wrong")
        return np.frombuffer(raw, dtype, count).reshape(shape)

"""Input files: format and compression by name, opening, decompression and progress.

The name decides: `flights.csv.xz` is CSV inside xz; `-` is standard input, whose format must be given. Every failure,
such as a missing file or a truncated compressed stream, is an `InputError` that names the file and, where there is one,
the remedy. Files are read in pieces, never whole; `position` is the number of bytes read so far of the file as it is
stored, compressed or not.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import stat
import sys
import zlib
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from palio.errors import InputError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STANDARD_INPUT = "-"
FORMATS = ("jsonl", "json", "csv", "parquet", "xml")
COMPRESSIONS = ("gz", "xz", "zst")
_BUFFER_BYTES = 1 << 20


class FileKind(NamedTuple):
    """The format of a file, and its compression if it has one."""

    format: str
    compression: str | None


def kind_of(path: str | Path, format: str | None = None) -> FileKind:
    """The kind of a file by its name, or by `format` (`csv`, `jsonl.gz`) where that is given."""
    name = format or ("" if str(path) == STANDARD_INPUT else Path(path).name)
    parts = name.lower().lstrip(".").split(".")
    compression = parts.pop() if parts[-1] in COMPRESSIONS else None
    file_format = "jsonl" if parts and parts[-1] == "ndjson" else parts[-1] if parts else ""
    if file_format in FORMATS and (format is None or len(parts) == 1):
        return FileKind(file_format, compression)
    known = f"{', '.join(FORMATS)}, each also with {', '.join('.' + each for each in COMPRESSIONS)}"
    if format is not None:
        raise InputError(_shown_name(path), f"there is no format {format!r}; known are {known}")
    if str(path) == STANDARD_INPUT:
        raise InputError(_shown_name(path), f"say what it holds with --format: {known}")
    raise InputError(str(path), f"its name does not say what it holds; say it with --format: {known}")


class InputFile:
    """A file open for reading: its bytes, decompressed, and how far they have been read."""

    def __init__(self, path: str | Path, compression: str | None) -> None:
        self.name = _shown_name(path)
        self._file = _open(path)
        self.size = _size_of(self._file) if str(path) != STANDARD_INPUT else None
        # Events from a pipe are matched when they come, not when a batch is full.
        self.live = self.size is None
        self._counted = _Counted(self._file)
        plain = io.BufferedReader(self._counted, _BUFFER_BYTES)
        # An empty file is no compressed stream, but nothing is wrong with it either.
        content = plain if compression is None or self.size == 0 else _DECOMPRESS[compression](plain)
        guarded = _Guarded(content, self.name, compression)
        self.stream: io.BufferedReader[Any] = io.BufferedReader(guarded, _BUFFER_BYTES)

    @property
    def position(self) -> int:
        """Bytes of the file taken so far."""
        return self._counted.count

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._file is not getattr(sys.stdin, "buffer", None):
            self._file.close()

    def __enter__(self) -> InputFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_exists(path: str | Path) -> None:
    """Refuse a missing file, before an error about the format in its name would hide that."""
    if str(path) != STANDARD_INPUT and "://" not in str(path) and not Path(path).exists():
        raise InputError(str(path), _explain(path, FileNotFoundError()))


def _open(path: str | Path) -> BinaryIO:
    if str(path) == STANDARD_INPUT:
        return sys.stdin.buffer
    if "://" in str(path):
        return _open_address(str(path))
    try:
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise InputError(str(path), _explain(path, error)) from None


def _open_address(address: str) -> BinaryIO:
    """A file of an object store, or of any other file system that Arrow knows."""
    import pyarrow as pa
    from pyarrow.fs import FileSystem

    try:
        system, path = FileSystem.from_uri(address)
        file: BinaryIO = system.open_input_file(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(address, f"it cannot be opened: {error}") from None
    return file


def _size_of(file: Any) -> int | None:
    """The bytes of a file; None for a pipe or a device, which has no size."""
    if hasattr(file, "size"):  # one of Arrow's
        return int(file.size())
    status = os.fstat(file.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


class _Counted(io.RawIOBase):
    """A file that counts the bytes read from it."""

    def __init__(self, file: Any) -> None:
        self.count = 0
        # Standard input is buffered: readinto1 returns the bytes that have come, without waiting for more.
        self._read: Callable[[Any], int | None] = getattr(file, "readinto1", file.readinto)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        count = self._read(buffer)
        self.count += count or 0
        return count


class _Guarded(io.RawIOBase):
    """A stream whose failures are `InputError`s."""

    def __init__(self, stream: Any, name: str, compression: str | None) -> None:
        self._stream = stream
        self._name = name
        self._compression = compression

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        try:
            read = getattr(self._stream, "read1", self._stream.read)
            data: bytes = read(len(view))
        except InputError:
            raise
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            raise InputError(self._name, self._reason(error)) from None
        view[: len(data)] = data
        return len(data)

    def _reason(self, error: Exception) -> str:
        if self._compression is None:
            return f"reading failed: {error}"
        if isinstance(error, EOFError) or "runcated" in str(error):
            return f"the .{self._compression} file is cut short; fetch it again"
        return f"not a .{self._compression} file, or a damaged one: {error}"


def _open_zst(file: Any) -> Any:
    # pyarrow is there anyway, and brings zstd; Python itself has it only since 3.14.
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")


def _open_gz(file: Any) -> Any:
    return gzip.GzipFile(fileobj=file)


_DECOMPRESS: dict[str, Callable[[Any], Any]] = {"gz": _open_gz, "xz": lzma.LZMAFile, "zst": _open_zst}


def _shown_name(path: str | Path) -> str:
    return "standard input" if str(path) == STANDARD_INPUT else str(path)


def _explain(path: str | Path, error: OSError) -> str:
    """The reason why a file cannot be opened, with a remedy."""
    path = Path(path)
    if isinstance(error, FileNotFoundError):
        near = _similar_name(path)
        return f"there is no such file{f'; there is {near}' if near else ''}"
    if isinstance(error, IsADirectoryError):
        return "this is a folder; name a file in it"
    if isinstance(error, PermissionError):
        return "you are not allowed to read it; see its permissions with ls -l"
    return f"it cannot be opened: {error.strerror or error}"


def _similar_name(path: Path) -> str | None:
    try:
        names = [entry.name for entry in os.scandir(path.parent)][:10_000]
    except OSError:
        return None
    near = get_close_matches(path.name, names, n=1, cutoff=0.75)
    return str(path.parent / near[0]) if near else None

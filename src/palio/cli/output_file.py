"""Output files that appear when they are complete, also after an interrupt.

A file is written beside its place and moved there at the end: a reader never sees half of it, and a failed run does not
destroy an old file. An interrupt (Ctrl-C) is deferred while a piece is being written, because half a row, or half a
compressed block, could not be repaired; the file then ends after that piece, and is whole.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import secrets
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from palio.errors import InputError, PalioError
from palio.files.input_file import kind_of

STANDARD_OUTPUT = "-"


class OutputError(PalioError):
    """An output that cannot be written; names the file and the reason."""

    def __init__(self, target: str, reason: str) -> None:
        self.target = target
        self.reason = reason
        super().__init__(f"{target}: {reason}")


class OutputFile:
    """A file to be written, or standard output; write bytes to `stream`."""

    def __init__(self, path: str | Path | None, compression: str | None, *, mode: int = 0o666) -> None:
        """`mode` are the permissions of a new file, less those that the process's mask takes away."""
        self._compression = compression
        if path is None or str(path) == STANDARD_OUTPUT:
            self.name = "standard output"
            self._path = self._draft = None
            self._file: Any = sys.stdout.buffer
        else:
            self.name = str(path)
            with self.failures():
                self._path, self._draft, self._file = _open_draft(Path(path), mode)
        self.stream: Any = self._file if compression is None else _COMPRESS[compression](self._file)

    def flush(self) -> None:
        """Flush standard output for its reader; a file is visible at its end only."""
        if self._path is None and self._compression is None:
            self._file.flush()

    def finish(self) -> None:
        """Complete the file and move it to its path."""
        with self.failures():
            # The compressed stream first: its last block and checksum are written when it is closed.
            if self.stream is not self._file:
                self.stream.close()
            # Standard output stays open: it belongs to the process, and a summary may follow.
            if self._file is sys.stdout.buffer:
                self._file.flush()
                return
            # Closed before it is moved: a full disk may show only when the last buffer is written.
            self._file.close()
            if self._draft is not None and self._path is not None:
                os.replace(self._draft, self._path)
                self._draft = None

    def discard(self) -> None:
        """Remove the draft; what went to standard output cannot be taken back."""
        if self._file is not sys.stdout.buffer:
            for stream in (self.stream, self._file):
                # It is discarded because something failed, and that is what the caller is to see.
                with suppress(OSError, ValueError):
                    stream.close()
        if self._draft is not None:
            with suppress(OSError):
                self._draft.unlink()
            self._draft = None

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Turn an OSError into `OutputError`, except BrokenPipeError: the reader has gone."""
        try:
            yield
        except BrokenPipeError:
            raise  # `main` ends quietly then, with an exit code of its own
        except OSError as error:
            raise OutputError(self.name, _reason_of(error)) from None


def _open_draft(path: Path, mode: int) -> tuple[Path | None, Path | None, io.BufferedWriter]:
    """The final path, the path of the draft, and the draft; None twice for a device, which is written directly."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            return None, None, open(path, "wb")
    # A symbolic link stays; the file that it points to is replaced.
    place = path.resolve()
    # In the same folder, because a rename is atomic only within a file system; hidden, and with a random part, so
    # that two runs with one output do not write into each other's draft.
    draft = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    # With its mode from the start; closed by finish or discard.
    file = os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb")
    with suppress(OSError):
        # The new file keeps the permissions of the one that it replaces.
        os.chmod(draft, stat.S_IMODE(place.stat().st_mode))
    return place, draft, file


@contextmanager
def defer_interrupt() -> Iterator[None]:
    """Defer an interrupt until the end of the block."""
    before = signal.getsignal(signal.SIGINT)
    # Only the main thread is interrupted, and a handler that was not installed from Python cannot be restored.
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    # A handler only takes note: nothing may be raised between two bytes of a piece.
    deferred: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: deferred.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if deferred:  # however often Ctrl-C was pressed, it is one interrupt
            before(*deferred[0])


def _compress_gz(file: Any) -> Any:
    # Without a time stamp: equal results are equal bytes.
    return gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0)


def _compress_xz(file: Any) -> Any:
    return lzma.LZMAFile(file, "wb", preset=3)


def _compress_zst(file: Any) -> Any:
    import pyarrow as pa

    return pa.CompressedOutputStream(pa.PythonFile(_UnclosableFile(file), mode="w"), "zstd")


class _UnclosableFile(io.RawIOBase):
    """A file that a library may write to but not close: it is still to be moved, or is standard output."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        written: int = self._file.write(data)
        return written

    def flush(self) -> None:
        # Python flushes it when it is closed or collected, by when the file itself may be closed.
        if not self._file.closed:
            self._file.flush()


_COMPRESS: dict[str, Callable[[Any], Any]] = {"gz": _compress_gz, "xz": _compress_xz, "zst": _compress_zst}


def _reason_of(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "its folder does not exist; make it with mkdir -p"
    if isinstance(error, IsADirectoryError | NotADirectoryError):
        return "there is a folder of this name; give the name of a file"
    if isinstance(error, PermissionError):
        return "you are not allowed to write there"
    return f"it cannot be written: {error.strerror or error}"


@contextmanager
def open_json_lines(path: str | None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that writes one object per line; the file is completed at the end, also after Ctrl-C."""
    compression = None if path is None or path == STANDARD_OUTPUT else _compression(path)
    target = OutputFile(path, compression)

    def write(record: dict[str, Any]) -> None:
        with defer_interrupt(), target.failures():
            target.stream.write(json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
            target.flush()

    try:
        yield write
    except KeyboardInterrupt:
        target.finish()
        raise
    except BaseException:
        target.discard()
        raise
    target.finish()


def _compression(path: str) -> str | None:
    try:
        kind = kind_of(path)
    except InputError:
        kind = None
    if kind is None or kind.format != "jsonl":
        raise OutputError(path, "let its name end in .jsonl, or .jsonl.gz, .jsonl.xz or .jsonl.zst")
    return kind.compression

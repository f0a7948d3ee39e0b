"""Where do results go, and what is there if writing ends early?

A file appears under its name only when it is complete: it is written beside its place and moved there at
the end, so that whoever reads it never sees half of it, and an old file is not lost to a failed run. An
interrupt (Ctrl-C) is held back while a piece is being written, because half a row, or half a compressed
block, could not be mended afterwards; the file then ends after that piece, and is whole.
"""

from __future__ import annotations

import gzip
import io
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

from palio.errors import PalioError

STANDARD_OUTPUT = "-"


class OutputError(PalioError):
    """Results that cannot be written; names the file and the reason."""

    def __init__(self, target: str, reason: str) -> None:
        self.target = target
        self.reason = reason
        super().__init__(f"{target}: {reason}")


class Target:
    """A file to be written, or standard output: bytes go into `stream`."""

    def __init__(self, path: str | Path | None, compression: str | None) -> None:
        self._compression = compression
        if path is None or str(path) == STANDARD_OUTPUT:
            self.name = "standard output"
            self._place = self._draft = None
            self._file: Any = sys.stdout.buffer
        else:
            self.name = str(path)
            with self.failures():
                self._place, self._draft, self._file = _open_draft(Path(path))
        self.stream: Any = self._file if compression is None else _COMPRESS[compression](self._file)

    def flush(self) -> None:
        """Let a reader of standard output see what there is; a file is seen at its end."""
        if self._place is None and self._compression is None:
            self._file.flush()

    def finish(self) -> None:
        """Complete the file and put it in its place."""
        with self.failures():
            if self.stream is not self._file:
                self.stream.close()
            if self._file is sys.stdout.buffer:
                self._file.flush()
                return
            self._file.close()
            if self._draft is not None and self._place is not None:
                os.replace(self._draft, self._place)
                self._draft = None

    def discard(self) -> None:
        """Leave everything as it was; what went to standard output has gone."""
        if self._file is not sys.stdout.buffer:
            for stream in (self.stream, self._file):
                with suppress(OSError, ValueError):
                    stream.close()
        if self._draft is not None:
            with suppress(OSError):
                self._draft.unlink()
            self._draft = None

    @contextmanager
    def failures(self) -> Iterator[None]:
        """What the system refuses is an `OutputError`; a reader that went away stays a BrokenPipeError."""
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(self.name, _explain(error)) from None


def _open_draft(path: Path) -> tuple[Path | None, Path | None, io.BufferedWriter]:
    """The place a file belongs, the place it is written at, and the file; a device is written to directly."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            return None, None, open(path, "wb")
    # A link stays a link; what it points to is replaced.
    place = path.resolve()
    draft = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    file = open(draft, "xb")  # noqa: SIM115 - closed by finish or discard
    with suppress(OSError):
        os.chmod(draft, stat.S_IMODE(place.stat().st_mode))
    return place, draft, file


@contextmanager
def undisturbed() -> Iterator[None]:
    """Hold an interrupt back until this piece of work is done."""
    before = signal.getsignal(signal.SIGINT)
    # Only the main thread is ever interrupted, and a handler that is not Python's cannot be put back.
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    held: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: held.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held:
            before(*held[0])


def _compress_gz(file: Any) -> Any:
    # Without the time: the same results are the same bytes.
    return gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0)


def _compress_xz(file: Any) -> Any:
    return lzma.LZMAFile(file, "wb", preset=3)


def _compress_zst(file: Any) -> Any:
    import pyarrow as pa

    return pa.CompressedOutputStream(pa.PythonFile(_KeptOpen(file), mode="w"), "zstd")


class _KeptOpen(io.RawIOBase):
    """A file that others may write to but not close: it still has to be moved, or is standard output."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        written: int = self._file.write(data)
        return written

    def flush(self) -> None:
        if not self._file.closed:
            self._file.flush()


_COMPRESS: dict[str, Callable[[Any], Any]] = {"gz": _compress_gz, "xz": _compress_xz, "zst": _compress_zst}


def _explain(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "its folder does not exist; make it with mkdir -p"
    if isinstance(error, IsADirectoryError | NotADirectoryError):
        return "there is a folder of this name; give the name of a file"
    if isinstance(error, PermissionError):
        return "you are not allowed to write there"
    return f"it cannot be written: {error.strerror or error}"

"""Parquet reader.

The index of a Parquet file is at its end, so the reader needs a file with random access. A pipe, or a file that is
compressed once more, is therefore first copied to a temporary file, not to memory.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from palio.errors import InputError
from palio.files.input_file import InputFile


class ParquetRows:
    """The record batches of a Parquet file, and how much of it they are."""

    def __init__(self, source: InputFile, path: str, compression: str | None, batch_size: int) -> None:
        self._source = source
        self._batch_size = batch_size
        self._rows = 0
        self._spool: Any = None
        try:
            if compression is not None or source.size is None:
                self._spool = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object
                shutil.copyfileobj(source.stream, self._spool, 1 << 20)
                self._spool.seek(0)
            self._file = pyarrow.parquet.ParquetFile(self._spool or path)
        except BaseException as error:  # also an interrupt must not leave the temporary file open
            self._close_spool()
            if isinstance(error, pa.ArrowException | OSError):
                raise self._fault(error) from None
            raise

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._file.iter_batches(batch_size=self._batch_size):
                self._rows += batch.num_rows
                yield batch
        except (pa.ArrowException, OSError) as error:
            raise self._fault(error) from None

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows one by one, as Python objects; the file is closed after the last."""
        try:
            for batch in self.batches():
                yield from batch.to_pylist()
        except UnicodeDecodeError as error:
            raise self._fault(error) from None
        finally:
            self.close()

    @property
    def position(self) -> int | None:
        """Bytes read so far, by the share of rows: parts of a Parquet file are not read in one order."""
        total = self._file.metadata.num_rows
        return None if self._source.size is None else self._source.size * self._rows // max(total, 1)

    def close(self) -> None:
        self._file.close()
        self._close_spool()

    def _close_spool(self) -> None:
        if self._spool is not None:
            self._spool.close()

    def _fault(self, error: Exception) -> InputError:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        return InputError(self._source.name, f"not a Parquet file, or a damaged one: {message}")

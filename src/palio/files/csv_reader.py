"""CSV reader with inferred column types.

pyarrow splits the file into rows and fields, as text. The types are inferred here, from the first 4 MiB: a column whose
values all look like integers has integers, and so on through numbers, booleans, dates and timestamps to text. To leave
types to pyarrow was rejected: it is faster by a third, but a single `n/a` in a later block ends the whole file with an
error. Here it costs that row, reported by its line and its value.

An empty field is a null in every column; a quoted empty field is an empty string in a column of text. `NA`,
`N/A`, `null`, `NULL` and `\\N` are nulls in all columns but those of text, where they are text (a country's
code, say).
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from palio.errors import InputError
from palio.events.values import MAX_DECIMAL_DIGITS

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SAMPLE_BYTES = 4 << 20
# pyarrow reads a block at a time, and cannot read a row that is longer than a block.
_BLOCK_BYTES = 4 << 20
# Stands for bytes that are not UTF-8; no text has it, because it is not a character.
_NOT_UTF8 = "\ufdd0"
NULL_TEXTS = ["", "NA", "N/A", "null", "NULL", "\\N"]
CODE_PATTERN = r"^[+-]?0\d"  # 01234 is a code, of which a number would lose the zero
INTEGER_PATTERN = rf"^-?\d{{1,{MAX_DECIMAL_DIGITS}}}$"
_MISFIT = {
    "int64": "an integer",
    "double": "a number",
    "bool": "true or false",
    "date32[day]": "a date",
    f"decimal128({MAX_DECIMAL_DIGITS}, 0)": "an integer",
    "string": "UTF-8 text",
}

Report: TypeAlias = Callable[[int, str], None]
Rows: TypeAlias = tuple[list[int] | range, pa.RecordBatch]


def read_typed(stream: io.BufferedReader[Any], name: str, report: Report) -> Iterator[Rows]:
    """Record batches with a type for each column, and the numbers of their rows, counted from 1."""
    text, sample = _open_text(stream, name)
    return _read(text, name, _infer_types(sample, name), report)


def read_text(stream: io.BufferedReader[Any], name: str, report: Report) -> Iterator[Rows]:
    """Record batches with all columns as text, and the numbers of their rows."""
    text, sample = _open_text(stream, name)
    return _read(text, name, dict.fromkeys(_infer_types(sample, name), pa.string()), report)


def _read(text: _Utf8, name: str, types: dict[str, pa.DataType], report: Report) -> Iterator[Rows]:
    if not types:
        return
    broken: list[pyarrow.csv.InvalidRow] = []
    counter = _RowCounter(broken, report)
    # Buffered, because pyarrow takes the end of a short read for the end of a block.
    file = io.BufferedReader(text, _BLOCK_BYTES)
    try:
        for fields in _open(file, types, broken):
            numbers = counter.count(fields.num_rows)
            yield _convert(fields, numbers, types, report, text.damaged)
        counter.finish()
    except pa.ArrowException as error:
        raise InputError(name, _explain(error)) from None


def _open(file: io.BufferedReader[Any], types: dict[str, pa.DataType], broken: list[Any]) -> Iterator[pa.RecordBatch]:
    """The fields of the file as text, nulls where they are empty; rows of another length go to `broken`."""

    def skip(row: Any) -> str:
        broken.append(row)
        return "skip"

    return iter(
        pyarrow.csv.open_csv(
            file,
            # Threads would lose the numbers of broken rows.
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(types, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    )


class _RowCounter:
    """Numbers the rows of a file; rows of another length, which pyarrow skips, are counted and reported as well."""

    def __init__(self, broken: list[Any], report: Report) -> None:
        self._broken = broken
        self._report = report
        self._next = 1

    def count(self, rows: int) -> list[int] | range:
        """The numbers of the next good rows."""
        if not self._broken:
            self._next += rows
            return range(self._next - rows, self._next)
        numbers: list[int] = []
        while len(numbers) < rows:
            if not self._pass_broken():
                numbers.append(self._next)
                self._next += 1
        return numbers

    def finish(self) -> None:
        while self._pass_broken():
            pass

    def _pass_broken(self) -> bool:
        # pyarrow counts the header as row 1.
        if not self._broken or self._broken[0].number != self._next + 1:
            return False
        row = self._broken.pop(0)
        self._next += 1
        fields = f"{row.actual_columns} field{'s' if row.actual_columns != 1 else ''}"
        self._report(line_of(self._next - 1), f"{fields} where the header has {row.expected_columns}")
        return True


def line_of(number: int) -> int:
    """The line of a row by its number: the header is line 1, and each row is taken to be one line long."""
    return number + 1


def _convert(
    fields: pa.RecordBatch,
    numbers: list[int] | range,
    types: dict[str, pa.DataType],
    report: Report,
    damaged: bool,
) -> Rows:
    """Fields with their types, without the rows that have a value of another type."""
    columns: list[Any] = []
    misfits: dict[int, str] = {}
    for column, (name, kind) in zip(fields.columns, types.items(), strict=True):
        converted = _cast(column, kind, damaged)
        if converted is None:
            # A cast fails as a whole and names no row, so the misfits are searched for and the others cast again.
            wrong = _misfits(column, kind, damaged)
            for row in wrong:
                shown = column[row].as_py()[:100].replace(_NOT_UTF8, "\N{REPLACEMENT CHARACTER}")
                what = _MISFIT.get(str(kind), "a timestamp")
                misfits.setdefault(row, f"column {name}: {shown!r} is not {what}, as the first rows have there")
            fitting = pa.array([row not in wrong for row in range(len(column))])
            converted = _cast(pc.if_else(fitting, column, None), kind, damaged)
        columns.append(converted)
    batch = pa.RecordBatch.from_arrays(columns, names=list(types))
    if not misfits:
        return numbers, batch
    for row, reason in sorted(misfits.items()):
        report(line_of(numbers[row]), reason)
    kept = [row for row in range(len(numbers)) if row not in misfits]
    return [numbers[row] for row in kept], batch.take(pa.array(kept, pa.int64()))


def _cast(column: Any, kind: pa.DataType, damaged: bool) -> Any:
    """A column of text as one of a type, or None if some value does not fit it."""
    if pa.types.is_string(kind):
        return None if damaged and pc.any(pc.match_substring(column, _NOT_UTF8)).as_py() else column
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        pass
    # Trimmed only after the plain cast failed: most columns do not need it, and it takes as long again.
    text = pc.utf8_trim_whitespace(column)
    text = pc.if_else(pc.is_in(text, pa.array(NULL_TEXTS)), None, text)
    try:
        if pa.types.is_timestamp(kind):
            # More digits than microseconds have are read, and cut.
            exact = text.cast(pa.timestamp("ns", kind.tz))
            return pc.floor_temporal(exact, unit="microsecond").cast(kind)
        return text.cast(kind)
    except pa.ArrowInvalid:
        return None


def _misfits(column: Any, kind: pa.DataType, damaged: bool, offset: int = 0) -> set[int]:
    """The rows whose values do not fit a type, found by halving: a few misfits cost a few casts each."""
    if _cast(column, kind, damaged) is not None:
        return set()
    if len(column) == 1:
        return {offset}
    half = len(column) // 2
    left = _misfits(column[:half], kind, damaged, offset)
    return left | _misfits(column[half:], kind, damaged, offset + half)


def _infer_types(sample: bytes, name: str) -> dict[str, pa.DataType]:
    """The type of each column by name; none for a file without a header."""
    if not sample.removeprefix(b"\xef\xbb\xbf").strip():
        return {}
    if len(sample) < SAMPLE_BYTES:
        whole = sample + b"\n"
    else:
        whole = sample[: sample.rfind(b"\n") + 1]  # without the last line, which the sample cuts off
        if not whole:
            raise InputError(name, f"its first line is longer than {SAMPLE_BYTES:,} bytes; is it CSV?", 1)
    try:
        # Twice: pyarrow's inference of types, and the texts it saw, by which codes and long integers are recognised.
        table = _parse(whole, {}, NULL_TEXTS)
        names = table.schema.names
        texts = _parse(whole, dict.fromkeys(names, pa.string()), [""])
    except pa.ArrowException as error:
        raise InputError(name, _explain(error)) from None
    if any(_NOT_UTF8 in column for column in names):
        raise InputError(name, "its header is not UTF-8", 1)
    repeated = sorted({column for column in names if names.count(column) > 1})
    if repeated:
        raise InputError(name, f"the header has the column {repeated[0]!r} twice", 1)
    return {
        column: _type_of(field.type, texts.column(i))
        for i, (column, field) in enumerate(zip(names, table.schema, strict=True))
    }


def _parse(sample: bytes, types: dict[str, pa.DataType], nulls: list[str]) -> Any:
    return pyarrow.csv.read_csv(
        io.BytesIO(sample),
        read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=len(sample) + 1),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda row: "skip"),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types, null_values=nulls, strings_can_be_null=bool(types)
        ),
    )


def _type_of(inferred: pa.DataType, texts: Any) -> pa.DataType:
    """The type an event can hold for what pyarrow found in a column."""
    if _is_number(inferred) and pc.any(pc.match_substring_regex(texts, CODE_PATTERN)).as_py():
        return pa.string()
    if pa.types.is_timestamp(inferred):
        return pa.timestamp("us", "UTC" if inferred.tz else None)
    if pa.types.is_floating(inferred):
        # Integers beyond 64 bits are floats to pyarrow; as decimals they keep their digits.
        digits = pc.all(pc.match_substring_regex(texts, INTEGER_PATTERN)).as_py()
        return pa.decimal128(MAX_DECIMAL_DIGITS, 0) if digits else inferred
    kept = (pa.types.is_int64, pa.types.is_boolean, pa.types.is_date32)
    return inferred if any(test(inferred) for test in kept) else pa.string()


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _open_text(stream: io.BufferedReader[Any], name: str) -> tuple[_Utf8, bytes]:
    """The text of a stream, and a first part of it to look at; the text begins with it still."""
    if stream.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(name, "this is UTF-16; convert it with: iconv -f UTF-16 -t UTF-8")
    text = _Utf8(stream)
    sample = b""
    while len(sample) < SAMPLE_BYTES and (chunk := text.read(SAMPLE_BYTES - len(sample))):
        sample += chunk
    # A file that is a header and no line break is one without rows, not one without a header.
    text.put_back(sample if b"\n" in sample else sample + b"\n")
    return text, sample


class _Utf8(io.RawIOBase):
    """A stream that is UTF-8 throughout: invalid bytes are replaced by a marker, and `damaged` is set.

    pyarrow itself reports the row of an invalid byte, but cannot go on if that row has the wrong length as well.
    """

    def __init__(self, stream: io.BufferedReader[Any]) -> None:
        self.damaged = False
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._ready = memoryview(b"")

    def put_back(self, data: bytes) -> None:
        self._ready = memoryview(data + bytes(self._ready))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        chunk = b"more"
        # A chunk may be the middle of one character and give nothing yet; to return 0 would mean the end.
        while not self._ready and chunk:
            chunk = self._stream.read1(len(view))
            self._ready = memoryview(self._clean(chunk))
        count = min(len(view), len(self._ready))
        view[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _clean(self, chunk: bytes) -> bytes:
        # Most chunks are ASCII and need no decoding, unless a character began in the chunk before.
        if chunk.isascii() and chunk and not self._decoder.getstate()[0]:
            return chunk
        text = self._decoder.decode(chunk, final=not chunk)
        try:
            return text.encode()
        except UnicodeEncodeError:
            self.damaged = True
            return re.sub("[\udc80-\udcff]", _NOT_UTF8, text).encode()


def _explain(error: Exception) -> str:
    message = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "straddling" in message:
        return f"a row of more than {_BLOCK_BYTES:,} bytes; is there a quote that is never closed?"
    return f"not CSV: {message.removeprefix('CSV parse error: ')}"

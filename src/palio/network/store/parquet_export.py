"""Export of the event log to Parquet: a column for each attribute, and one for the identity of the event.

The log is read twice in chunks: once for the column types, which a single event may widen, and once for the values.
Memory is that of one chunk. A column has the narrowest type that holds all its values exactly: integers and floats meet
in a double, as in comparisons, integers and decimals in a decimal. An attribute with one value here and several there
is a list. Values without a common type become text: strings as they are, everything else as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from palio.errors import InvalidArgument
from palio.events.json import write_json
from palio.events.values import MAX_DECIMAL_DIGITS
from palio.network.store.interface import Log, LogEntry
from palio.routing import codec

IDENTITY_COLUMN: Final = "_palio"
_CHUNK_EVENTS: Final = 1_000
_CHUNKS_PER_ROW_GROUP: Final = 32
_IDENTITY_TYPE: Final = pa.struct(
    [
        ("offset", pa.int64()),
        ("logged", pa.timestamp("us", "UTC")),
        ("publisher", pa.string()),
        ("id", pa.string()),
        ("source", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
    ]
)


def read_chunks(log: Log, start: int, stop: int) -> Iterator[list[LogEntry]]:
    """The entries of a log between two offsets, in chunks."""
    while start < stop:
        chunk = log.read(start, min(_CHUNK_EVENTS, stop - start))
        if not chunk:
            return
        yield chunk
        start = chunk[-1].offset + 1


def export_parquet(
    log: Log, where: Path | BinaryIO, start: int | None = None, stop: int | None = None, identity: str = IDENTITY_COLUMN
) -> int:
    """Write the events of a log, and return their number; `ExpiredOffset` where some expire meanwhile.

    `identity` is the name of the column for offset, times, publisher, id and source.
    """
    oldest, after = log.bounds()
    first = oldest if start is None else start
    last = after if stop is None else min(stop, after)
    # A Parquet file has its schema before its values, so that all types must be known before the first is written.
    columns = ColumnTypes()
    for chunk in read_chunks(log, first, last):
        for entry in chunk:
            columns.widen(_content(entry))
    fields = columns.fields()
    if identity in {field.name for field in fields}:
        raise InvalidArgument(f"events have an attribute {identity!r}; give the identity column another name")
    schema = pa.schema([pa.field(identity, _IDENTITY_TYPE), *fields])
    written = 0
    with pq.ParquetWriter(where, schema, compression="zstd") as writer:
        chunks: list[pa.RecordBatch] = []
        for chunk in read_chunks(log, first, last):
            chunks.append(_record_batch(chunk, columns, schema))
            written += len(chunk)
            if len(chunks) == _CHUNKS_PER_ROW_GROUP:
                writer.write_table(pa.Table.from_batches(chunks))
                chunks = []
        if chunks:
            writer.write_table(pa.Table.from_batches(chunks))
    return written


def _record_batch(chunk: list[LogEntry], columns: ColumnTypes, schema: pa.Schema) -> pa.RecordBatch:
    identities = pa.array([_identity(entry) for entry in chunk], _IDENTITY_TYPE)
    contents = [_content(entry) for entry in chunk]
    return pa.RecordBatch.from_arrays([identities, *columns.arrays(contents)], schema=schema)


def _content(entry: LogEntry) -> dict[str, Any]:
    return codec.decode_event(entry.event.body).to_dict()


def _identity(entry: LogEntry) -> dict[str, Any]:
    event = codec.decode_event(entry.event.body)
    return {
        "offset": entry.offset,
        "logged": datetime.fromtimestamp(entry.time, UTC),
        "publisher": entry.publisher,
        "id": event.id,
        "source": event.source,
        "time": event.time,
    }


_INTEGER_DIGITS: Final = 19


class StructKind(dict[str, "Kind"]):
    """Kind of an object: the kinds of its members."""


class ListKind:
    """Kind of a list: the kind of its elements."""

    __slots__ = ("element",)

    def __init__(self, element: Kind) -> None:
        self.element = element


class DecimalKind:
    """Kind of decimals: digits before and after the point."""

    __slots__ = ("after", "before")

    def __init__(self, before: int, after: int) -> None:
        self.before = before
        self.after = after


Kind: TypeAlias = "type | StructKind | ListKind | DecimalKind | None"  # None where no value was seen


class ColumnTypes:
    """Kinds of the attributes of all events seen."""

    def __init__(self) -> None:
        self._kinds = StructKind()

    def widen(self, content: Mapping[str, Any]) -> None:
        """Widen the kinds to hold the values of an object."""
        _widen_members(self._kinds, content)

    def fields(self) -> list[pa.Field]:
        return [pa.field(name, _arrow_type(kind)) for name, kind in self._kinds.items()]

    def arrays(self, rows: list[dict[str, Any]]) -> Iterable[pa.Array]:
        """The columns of some of these objects."""
        for name, kind in self._kinds.items():
            yield pa.array([_coerce(row.get(name), kind) for row in rows], _arrow_type(kind))


def _widen_members(known: StructKind, content: Mapping[str, Any]) -> None:
    for name, value in content.items():
        kind = known.get(name)
        if type(value) is kind:  # the usual case, without merging
            continue
        known[name] = _merge(kind, _kind_of(value)) if name in known else _kind_of(value)


def _kind_of(value: Any) -> Kind:
    if value is None:
        return None
    if isinstance(value, dict):
        struct = StructKind()
        _widen_members(struct, value)
        return struct
    if isinstance(value, list | tuple):
        element: Kind = None
        for one in value:
            element = _merge(element, _kind_of(one))
        return ListKind(element)
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)  # an event has no other decimals
        after = max(0, -exponent)
        return DecimalKind(max(0, len(digits) + exponent), after)
    return type(value)


def _merge(one: Kind, other: Kind) -> Kind:
    if one is None or one is other:
        return other
    if other is None:
        return one
    if isinstance(one, ListKind) or isinstance(other, ListKind):
        elements = [each.element if isinstance(each, ListKind) else each for each in (one, other)]
        return ListKind(_merge(*elements))
    if isinstance(one, StructKind) and isinstance(other, StructKind):
        both = StructKind(one)
        for name, kind in other.items():
            both[name] = _merge(both[name], kind) if name in both else kind
        return both
    if isinstance(one, StructKind) or isinstance(other, StructKind):
        return str
    return _merge_numbers(one, other)


def _merge_numbers(one: type | DecimalKind, other: type | DecimalKind) -> Kind:
    if {one, other} == {int, float}:
        return float
    # A decimal of 19 digits holds every integer of 64 bits; more than 38 digits in all have no Arrow type here.
    exact = [DecimalKind(_INTEGER_DIGITS, 0) if each is int else each for each in (one, other)]
    if all(isinstance(each, DecimalKind) for each in exact):
        before = max(each.before for each in exact if isinstance(each, DecimalKind))
        after = max(each.after for each in exact if isinstance(each, DecimalKind))
        return DecimalKind(before, after) if before + after <= MAX_DECIMAL_DIGITS else str
    return str


def _arrow_type(kind: Kind) -> pa.DataType:
    if isinstance(kind, StructKind):
        return pa.struct([(name, _arrow_type(member)) for name, member in kind.items()])
    if isinstance(kind, ListKind):
        return pa.list_(_arrow_type(kind.element))
    if isinstance(kind, DecimalKind):
        return pa.decimal128(max(1, kind.before + kind.after), kind.after)
    return _SCALARS[kind]


def _coerce(value: Any, kind: Kind) -> Any:
    """Convert a value to the kind of its column."""
    if value is None or type(value) is kind:
        return value
    if isinstance(kind, ListKind):
        several = value if isinstance(value, list | tuple) else [value]
        return [_coerce(one, kind.element) for one in several]
    if isinstance(kind, StructKind):
        return {name: _coerce(value.get(name), member) for name, member in kind.items()}
    if isinstance(kind, DecimalKind):
        return Decimal(value)
    if kind is float:
        return float(value)
    if isinstance(value, str):  # among others
        return value
    text = write_json(value)
    return text.strip('"') if isinstance(value, date | bytes) else text


_SCALARS: Final[dict[Any, pa.DataType]] = {
    None: pa.string(),  # few readers know Parquet's null type
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    date: pa.date32(),
    datetime: pa.timestamp("us", "UTC"),
    bytes: pa.binary(),
}

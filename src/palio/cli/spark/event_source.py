"""Event sources of commands: files, tables, NATS streams and brokers, in batch or streaming.

CSV columns get the types that `palio match` infers (`palio.files.csv_reader`). Spark's own inference turns a column of
numbers into strings as soon as a cell says `NA`, so that `dep_delay > 60` silently never matches, and turns codes such
as `01234` into numbers. So cells are read as strings, and one pass over all of them decides the types.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from palio.errors import InputError
from palio.events.values import MAX_DECIMAL_DIGITS
from palio.files.csv_reader import CODE_PATTERN, INTEGER_PATTERN, NULL_TEXTS
from palio.filters.filter import Filter
from palio.spark.documents import read_documents
from palio.spark.projection import column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from palio.spark.streaming.backfill import Handover


FORMATS: Final = ("parquet", "json", "csv", "orc", "delta", "xml")
_ENDINGS: Final = ".jsonl, .ndjson, .json, .csv, .parquet, .orc or .xml"
UNREADABLE: Final = "_corrupt_record"
MESSAGE: Final = "message"
PAYLOAD: Final = "data"

# Quotes within quotes are doubled (RFC 4180 §2); Spark's default is a backslash.
CSV_OPTIONS: Final = {"header": "true", "escape": '"'}
TEXT: Final = "string"
_BIG_INTEGER: Final = f"decimal({MAX_DECIMAL_DIGITS},0)"  # more digits than 64 bits hold
# Candidate types of CSV columns, the narrowest first, with the Arrow types of which one has to hold all cells.
_CANDIDATES: Final[dict[str, tuple[pa.DataType, ...]]] = {
    "bigint": (pa.int64(),),
    _BIG_INTEGER: (pa.decimal128(MAX_DECIMAL_DIGITS, 0),),
    "double": (pa.float64(),),
    "boolean": (pa.bool_(),),
    "date": (pa.date32(),),
    "timestamp": (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("ns", "UTC")),
}
_NUMBERS: Final = ("bigint", _BIG_INTEGER, "double")
_EXCLUSION_SCHEMA: Final = "place int, excluded string"


def format_of(events: str) -> str | None:
    """The format of files, by their suffix or those in their folder; None for the name of a table."""
    found = _by_ending(events.rstrip("/*"))
    if found is not None:
        return found
    folder = Path(events)
    if events and folder.is_dir():
        return _format_in(folder)
    if "/" in events or "*" in events:
        raise InputError(events, f"its name does not say what it holds; say it with --format: {', '.join(FORMATS)}")
    return None


def _by_ending(name: str) -> str | None:
    name = name.lower()
    for compression in (".gz", ".zst", ".bz2", ".xz"):
        name = name.removesuffix(compression)
    ending = name.rpartition(".")[2]
    if ending in ("jsonl", "ndjson", "json"):
        return "json"
    return ending if ending in FORMATS else None


def _format_in(folder: Path) -> str:
    """The format of the files below a folder; Spark ignores names that begin with _ or a dot."""
    if (folder / "_delta_log").is_dir():
        return "delta"
    formats = {
        _by_ending(path.name)
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)
    }
    found = sorted(each for each in formats if each is not None)
    if len(found) == 1:
        return found[0]
    if found:
        reason = f"the files in it are {' and '.join(found)}"
    else:
        reason = f"there is no file in it whose name ends in {_ENDINGS}"
    raise InputError(str(folder), f"{reason}; say what to read with --format: {', '.join(FORMATS)}")


def read_events(spark: SparkSession, events: str, format: str | None, columns: str | None = None) -> DataFrame:
    """Events of files or of a table; `columns` is their schema in SQL, by default inferred."""
    found = format or format_of(events)
    if found is None:
        if columns is not None:
            raise InputError("--schema", f"the table {events} says itself what columns it has")
        return _load(events, lambda: spark.table(events))
    if found == "xml":
        if columns is not None:
            raise InputError("--schema", "XML files have the columns path and xml")
        return _load(events, lambda: read_documents(spark, events))
    reader = spark.read.format(found).options(**CSV_OPTIONS) if found == "csv" else spark.read.format(found)
    if columns is not None:
        reader = reader.schema(_named_columns(spark, columns))
    rows = _load(events, lambda: reader.load(events))
    return typed(rows, column_types(rows)) if found == "csv" and columns is None else rows


@dataclass(frozen=True)
class Source:
    """A source that can be streamed, and read again in batch up to a handover."""

    address: str
    format: str | None = None
    columns: str | None = None
    """Schema in SQL; by default inferred from the files."""
    files_per_batch: int | None = None
    keeps_unreadable: bool = False
    """Keep an unreadable record as a text in the column `_corrupt_record`."""

    broker: Mapping[str, str] = field(default_factory=dict)
    """Options of brokers beside their address: `where`, `token`, `authority`."""

    def __post_init__(self) -> None:
        if "where" in self.broker and (self._messages is None or self._messages.format != "palio"):
            from palio.spark.storage import redact

            raise InputError("--where", f"{redact(self.address)} is read whole; only brokers, palio://…, can be asked")

    @cached_property
    def _messages(self) -> Messages | None:
        """The messages at the address; None where it names files."""
        return Messages.at(self.address, self.broker)

    @property
    def json(self) -> tuple[str, ...]:
        """Columns that hold JSON: the payload of messages without a schema."""
        return (PAYLOAD,) if self._messages is not None and self.columns is None else ()

    @property
    def key(self) -> tuple[str, ...]:
        """Columns that identify an event, where the source has them."""
        return () if self._messages is None else (MESSAGE,)

    def follow(self, spark: SparkSession) -> DataFrame:
        """The events as a stream."""
        if self._messages is not None:
            return self._payload(spark, self._messages.load(spark, spark.readStream))
        options: dict[str, Any] = {} if self.files_per_batch is None else {"maxFilesPerTrigger": self.files_per_batch}
        schema = self._schema(spark)
        reader = spark.readStream.format(self._file_format).options(**self._options, **options)
        return self._read(schema, lambda written: reader.schema(written).load(self.address))

    def before(self, spark: SparkSession, point: Handover) -> DataFrame:
        """The events before a handover, in batch."""
        if self._messages is not None:
            until = point.offsets[0] if point.offsets is not None else None
            if until is None:  # nothing was read before
                return self._payload(spark, self._messages.load(spark, spark.read)).limit(0)
            # Offsets of the handover are those of the next events, so `until` excludes them.
            reader = spark.read.option("until", json.dumps(until))
            return self._payload(spark, self._messages.load(spark, reader))
        schema, files = self._schema(spark), point.files()
        if not files:
            return spark.createDataFrame([], schema)
        reader = spark.read.options(**self._options)
        return self._read(schema, lambda written: reader.schema(written).load(files, self._file_format))

    def _read(self, schema: StructType, load: Callable[[StructType], DataFrame]) -> DataFrame:
        """Events of files with a schema; CSV cells without an explicit one are converted by our rules."""
        if self._file_format != "csv" or self.columns is not None:
            return _load(self.address, lambda: load(schema))
        types = {field.name: field.dataType.simpleString() for field in schema if field.name != UNREADABLE}
        texts = _load(self.address, lambda: load(_texts(schema)))
        return typed(texts, types, UNREADABLE if UNREADABLE in schema.names else None)

    @property
    def _file_format(self) -> str:
        found = self.format or format_of(self.address)
        if found is None:
            raise InputError(
                self.address,
                "there is no folder of this name, and a table is no stream; events are a folder of files, "
                "'events/*.jsonl', nats://… or palio://…",
            )
        if found == "xml":
            raise InputError(self.address, "XML files are matched in batch, by palio spark match, and not as a stream")
        return found

    @property
    def _options(self) -> dict[str, Any]:
        return CSV_OPTIONS if self._file_format == "csv" else {}

    def _schema(self, spark: SparkSession) -> StructType:
        """The schema of the events, which a stream needs before the first event."""
        format = self._file_format
        if self.columns is not None:
            schema = _named_columns(spark, self.columns)
        else:
            try:
                schema = read_events(spark, self.address, format).schema
            except InputError as error:
                advice = "or say what columns events have: --schema 'id long, price double'"
                raise InputError(self.address, f"{error.reason}; {advice}") from None
        return self._with_unreadable(schema) if format in ("json", "csv") else schema

    def _with_unreadable(self, schema: StructType) -> StructType:
        if not self.keeps_unreadable or UNREADABLE in schema.names:
            return schema
        return schema.add(UNREADABLE, "string")

    def _payload(self, spark: SparkSession, messages: DataFrame) -> DataFrame:
        """Messages with their JSON payload expanded to columns, beside the `message` itself."""
        from pyspark.sql import functions as sql

        if self.columns is None:
            return messages
        schema = self._with_unreadable(_named_columns(spark, self.columns))
        if MESSAGE in schema.names:
            raise InputError("--schema", f"{MESSAGE} is what is said about a message; call that column otherwise")
        event = sql.from_json(PAYLOAD, schema, {"columnNameOfCorruptRecord": UNREADABLE})
        members = [sql.col("event")[name].alias(name) for name in schema.names]
        if UNREADABLE in schema.names:
            # An empty text is no JSON, but Spark does not mark it as corrupt.
            blank = sql.when(sql.col("event").isNull(), sql.coalesce(PAYLOAD, sql.lit("")))
            unreadable = sql.coalesce(sql.col("event")[UNREADABLE], blank).alias(UNREADABLE)
            members[schema.names.index(UNREADABLE)] = unreadable
        return messages.select(MESSAGE, PAYLOAD, event.alias("event")).select(MESSAGE, *members)


def _texts(schema: StructType) -> StructType:
    """The schema with all columns as strings."""
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(name, StringType()) for name in schema.names])


def _named_columns(spark: SparkSession, columns: str) -> StructType:
    from pyspark.errors import ParseException

    try:
        schema: StructType = spark.createDataFrame([], columns).schema
    except ParseException as error:
        raise InputError("--schema", f"Spark cannot read {columns!r}: {_first_line(error)}") from None
    return schema


def _load(events: str, load: Callable[[], DataFrame]) -> DataFrame:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import AnalysisException

    try:
        found = load()
    except (AnalysisException, Py4JJavaError) as error:  # the second for an unknown format
        reason = _first_line(error)
        if "COLUMN_ALREADY_EXISTS" in reason:
            reason += " Where names differ only in case, this tells them apart: --conf spark.sql.caseSensitive=true"
        raise InputError(events, f"Spark cannot read it: {reason}") from None
    return found


def _first_line(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    return str(error if java is None else java.getMessage()).strip().splitlines()[0]


@dataclass(frozen=True)
class Messages:
    """Messages of a server: a Spark data source with its options."""

    format: str
    options: Mapping[str, str]
    about: tuple[str, ...]
    """Columns with metadata; together they identify a message."""
    payload: str

    @classmethod
    def at(cls, address: str, broker: Mapping[str, str]) -> Messages | None:
        """The messages at an address of NATS or of brokers, for which `broker` has further options."""
        from palio.spark.connections import (
            BROKER_SCHEMES,
            NATS_SCHEMES,
            Brokers,
            read_broker_address,
            read_nats_address,
        )
        from palio.spark.sources import broker as palio
        from palio.spark.sources import nats
        from palio.spark.sources.offset_reader import check_options

        if address.startswith(NATS_SCHEMES):
            options, stream = read_nats_address(address, "a stream of JetStream")
            check_options("nats", options, nats.OPTIONS)
            about = ("stream", "subject", "sequence", "time", "headers")
            return cls("nats", {"stream": stream, **options}, about, "data")
        if address.startswith(BROKER_SCHEMES):
            options = {**broker, **read_broker_address(address)}
            check_options("palio", options, palio.OPTIONS)
            Brokers.from_options(options)  # mistakes are reported here, before Spark starts
            Filter.parse(options.get("where", "true"))
            return cls("palio", options, ("node", "offset", "logged", "id", "source", "time"), "event")
        return None

    def load(self, spark: SparkSession, reader: Any) -> DataFrame:
        """Load the messages: their metadata in `message`, their payload as a text in `data`."""
        from pyspark.sql import functions as sql

        from palio.spark.sources.broker import PalioSource
        from palio.spark.sources.nats import NatsSource

        for source in (NatsSource, PalioSource):
            spark.dataSource.register(source)
        messages: DataFrame = reader.format(self.format).options(**self.options).load()
        payload = sql.col(self.payload).cast("string")
        return messages.select(sql.struct(*self.about).alias(MESSAGE), payload.alias(PAYLOAD))


def column_types(texts: DataFrame) -> dict[str, str]:
    """Infer the types of columns of strings, in one pass over all cells."""
    excluded = texts.mapInArrow(exclusions, _EXCLUSION_SCHEMA).distinct().collect()
    return types_left(texts.columns, {(row.place, row.excluded) for row in excluded})


def types_left(names: Sequence[str], excluded: set[tuple[int, str]]) -> dict[str, str]:
    """The narrowest candidate that is not excluded; a string where there is none, or no cell."""
    seen = {place for place, _ in excluded}
    left = [[kind for kind in _CANDIDATES if (place, kind) not in excluded] for place in range(len(names))]
    return {name: left[place][0] if place in seen and left[place] else TEXT for place, name in enumerate(names)}


def exclusions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Candidates excluded by some cell of a column; any cell at all excludes the pseudo-type `nothing`."""
    found: dict[tuple[int, str], None] = {}
    for batch in batches:
        for place, cells in enumerate(batch.columns):
            texts = pc.utf8_trim_whitespace(cells)
            texts = pc.if_else(pc.is_in(texts, pa.array(NULL_TEXTS, texts.type)), None, texts).drop_null()
            if not len(texts):
                continue
            found[place, "nothing"] = None
            # A code such as 01234 would lose its zero as a number.
            codes = pc.any(pc.match_substring_regex(cells, CODE_PATTERN)).as_py()
            digits = pc.all(pc.match_substring_regex(cells, INTEGER_PATTERN)).as_py()
            for kind in _CANDIDATES:
                unlike = (codes and kind in _NUMBERS) or (kind == _BIG_INTEGER and not digits)
                if (place, kind) not in found and (unlike or not _fits(texts, kind)):
                    found[place, kind] = None
    rows = [{"place": place, "excluded": kind} for place, kind in found]
    yield pa.RecordBatch.from_pylist(rows, pa.schema([("place", pa.int32()), ("excluded", pa.string())]))


def _fits(texts: pa.Array, kind: str) -> bool:
    for type in _CANDIDATES[kind]:
        try:
            texts.cast(type)
        except pa.ArrowInvalid:
            continue
        return True
    return False


def typed(texts: DataFrame, types: Mapping[str, str], unreadable: str | None = None) -> DataFrame:
    """Convert cells of strings to the types of their columns.

    A cell of another type becomes NULL; its record is kept as it was in the column `unreadable`, where there is one.
    """
    from pyspark.sql import functions as sql

    columns = [_typed(name, types[name]).alias(name) for name in types]
    if unreadable is None:
        return texts.select(*columns)
    # A cell that was not missing and became NULL did not fit its type.
    misfits = [_trimmed(name).isNotNull() & _typed(name, kind).isNull() for name, kind in types.items() if kind != TEXT]
    record = sql.to_csv(sql.struct(*map(column, types)))
    wrong = sql.when(sql.array_contains(sql.array(*misfits), sql.lit(True)), record) if misfits else sql.lit(None)
    return texts.select(*columns, sql.coalesce(column(unreadable), wrong).alias(unreadable))


def _typed(name: str, kind: str) -> Column:
    return column(name) if kind == TEXT else _trimmed(name).try_cast(kind)


def _trimmed(name: str) -> Column:
    """A trimmed cell; NULL for the usual notations of a missing value."""
    from pyspark.sql import functions as sql

    cell = sql.trim(column(name))
    return sql.when(~cell.isin(NULL_TEXTS), cell)

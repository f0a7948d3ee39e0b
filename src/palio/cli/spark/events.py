"""Events by what a command is told of them: files, tables, messages of NATS or of brokers; at once, or as they come."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from palio.cli.spark.csv_columns import CSV, column_types, typed
from palio.cli.spark.messages import MESSAGE, PAYLOAD, Messages
from palio.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from palio.spark.streaming.backfill import Handover

FORMATS: Final = ("parquet", "json", "csv", "orc", "delta")
UNREADABLE: Final = "_corrupt_record"


def format_of(events: str) -> str | None:
    """What files hold, by the end of their name or of the names in their folder; None for the name of a table."""
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
    """What the files below a folder hold; names that begin with _ or . are not Spark's to read."""
    if (folder / "_delta_log").is_dir():
        return "delta"
    formats = set()
    for path in folder.rglob("*"):
        if path.is_file() and not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts):
            formats.add(_by_ending(path.name))
    found = sorted(each for each in formats if each is not None)
    if len(found) == 1:
        return found[0]
    told = f"the files in it are {' and '.join(found)}" if found else "no name of a file in it says what it holds"
    raise InputError(str(folder), f"{told}; say what to read with --format: {', '.join(FORMATS)}")


def read_events(spark: SparkSession, events: str, format: str | None, columns: str | None = None) -> DataFrame:
    """The events of files, by the end of their name, or of a table; `columns` as SQL writes them, else as found."""
    found = format or format_of(events)
    if found is None:
        if columns is not None:
            raise InputError("--schema", f"the table {events} says itself what columns it has")
        return _load(events, lambda: spark.table(events))
    reader = spark.read.format(found).options(**CSV) if found == "csv" else spark.read.format(found)
    if columns is not None:
        reader = reader.schema(_named_columns(spark, columns))
    rows = _load(events, lambda: reader.load(events))
    return typed(rows, column_types(rows)) if found == "csv" and columns is None else rows


@dataclass(frozen=True)
class Source:
    """Events that come one after the other, and of which those up to a point can be read again."""

    address: str
    format: str | None = None
    columns: str | None = None
    """Names and types of the events' columns, as SQL writes them; else those of the files that are there."""
    files_per_batch: int | None = None
    keeps_unreadable: bool = False
    """Whether a record that is no event is kept, as a text in the column `_corrupt_record`."""

    broker: Mapping[str, str] = field(default_factory=dict)
    """What brokers are told beside their address: `where`, `token`, `authority`."""

    def __post_init__(self) -> None:
        if "where" in self.broker and (self._messages is None or self._messages.format != "palio"):
            from palio.spark.places import public

            raise InputError("--where", f"{public(self.address)} is read whole; only brokers, palio://…, can be asked")

    @cached_property
    def _messages(self) -> Messages | None:
        """The messages that the events are, where they are none of files."""
        return Messages.at(self.address, self.broker)

    @property
    def json(self) -> tuple[str, ...]:
        """The columns whose texts hold JSON: the payload of messages, where nobody says what is in it."""
        return (PAYLOAD,) if self._messages is not None and self.columns is None else ()

    @property
    def key(self) -> tuple[str, ...]:
        """What tells one event from another, where the source itself knows."""
        return () if self._messages is None else (MESSAGE,)

    def follow(self, spark: SparkSession) -> DataFrame:
        """The events as they come."""
        if self._messages is not None:
            return self._payload(spark, self._messages.load(spark, spark.readStream))
        options: dict[str, Any] = {} if self.files_per_batch is None else {"maxFilesPerTrigger": self.files_per_batch}
        schema = self._schema(spark)
        reader = spark.readStream.format(self._file_format).options(**self._options, **options)
        return self._read(schema, lambda written: reader.schema(written).load(self.address))

    def before(self, spark: SparkSession, point: Handover) -> DataFrame:
        """The events before a point at which a stream has stood."""
        if self._messages is not None:
            until = point.offsets[0] if point.offsets is not None else None
            if until is None:  # nothing was read before
                return self._payload(spark, self._messages.load(spark, spark.read)).limit(0)
            reader = spark.read.option("until", json.dumps(until))
            return self._payload(spark, self._messages.load(spark, reader))
        schema, files = self._schema(spark), point.files()
        if not files:
            return spark.createDataFrame([], schema)
        reader = spark.read.options(**self._options)
        return self._read(schema, lambda written: reader.schema(written).load(files, self._file_format))

    def _read(self, schema: StructType, load: Callable[[StructType], DataFrame]) -> DataFrame:
        """Events of files with these columns."""
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
        return found

    @property
    def _options(self) -> dict[str, Any]:
        return CSV if self._file_format == "csv" else {}

    def _schema(self, spark: SparkSession) -> StructType:
        """The events' columns: a stream has to know them before the first event."""
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
        """Messages whose payload is JSON: its members as columns, and beside them the `message` itself."""
        from pyspark.sql import functions as sql

        if self.columns is None:
            return messages
        schema = self._with_unreadable(_named_columns(spark, self.columns))
        if MESSAGE in schema.names:
            raise InputError("--schema", f"{MESSAGE} is what is said about a message; call that column otherwise")
        event = sql.from_json(PAYLOAD, schema, {"columnNameOfCorruptRecord": UNREADABLE})
        members = [sql.col("event")[name].alias(name) for name in schema.names]
        if UNREADABLE in schema.names:
            # A text of nothing is no JSON, and yet Spark does not call it unreadable.
            blank = sql.when(sql.col("event").isNull(), sql.coalesce(PAYLOAD, sql.lit("")))
            unreadable = sql.coalesce(sql.col("event")[UNREADABLE], blank).alias(UNREADABLE)
            members[schema.names.index(UNREADABLE)] = unreadable
        return messages.select(MESSAGE, PAYLOAD, event.alias("event")).select(MESSAGE, *members)


def _texts(schema: StructType) -> StructType:
    """The same columns, all of them texts."""
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
    except (AnalysisException, Py4JJavaError) as error:  # the second where the kind of source is not known
        told = _first_line(error)
        if "COLUMN_ALREADY_EXISTS" in told:
            told += " Where names differ only in case, this tells them apart: --conf spark.sql.caseSensitive=true"
        raise InputError(events, f"Spark cannot read it: {told}") from None
    return found


def _first_line(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    return str(error if java is None else java.getMessage()).strip().splitlines()[0]

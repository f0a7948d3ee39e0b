"""Of what types are the columns of CSV files on Spark? Of those that `palio match` finds in them.

Spark's own inference makes a column of numbers one of texts as soon as a cell says `NA`, and nothing compares with a
text: whoever asks for `dep_delay > 60` would never hear of anything, without a word. And it makes numbers of codes,
`01234`, of which no text remains. So cells are read as texts, one pass looks at all of them, and the rules are those of
`palio.files.csv_text`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from palio.files.csv_text import CODE, DIGITS, NULLS
from palio.spark.columns import column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Quotes within quotes are doubled (RFC 4180 §2), as everybody but Spark has it.
CSV: Final = {"header": "true", "escape": '"'}
TEXT: Final = "string"
# What cells may be, the narrowest first, and the types of Arrow of which one has to hold all of them.
_KINDS: Final[dict[str, tuple[pa.DataType, ...]]] = {
    "bigint": (pa.int64(),),
    "decimal(38,0)": (pa.decimal128(38, 0),),
    "double": (pa.float64(),),
    "boolean": (pa.bool_(),),
    "date": (pa.date32(),),
    "timestamp": (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("ns", "UTC")),
}
_WHOLE: Final = "decimal(38,0)"  # of more digits than 64 bits hold
_NUMBERS: Final = ("bigint", _WHOLE, "double")
_ANSWER: Final = "place int, excluded string"


def column_types(texts: DataFrame) -> dict[str, str]:
    """The type of each column whose cells are given as texts; one pass over all of them."""
    told = texts.mapInArrow(exclusions, _ANSWER).distinct().collect()
    return types_left(texts.columns, {(row.place, row.excluded) for row in told})


def types_left(names: Sequence[str], excluded: set[tuple[int, str]]) -> dict[str, str]:
    """The narrowest type that columns may have after what is excluded; texts where there is no cell, or no type."""
    seen = {place for place, _ in excluded}
    left = [[kind for kind in _KINDS if (place, kind) not in excluded] for place in range(len(names))]
    return {name: left[place][0] if place in seen and left[place] else TEXT for place, name in enumerate(names)}


def exclusions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What the columns cannot be by some of their cells; of a column with any cell at least that it is not nothing."""
    found: dict[tuple[int, str], None] = {}
    for batch in batches:
        for place, cells in enumerate(batch.columns):
            texts = pc.utf8_trim_whitespace(cells)
            texts = pc.if_else(pc.is_in(texts, pa.array(NULLS, texts.type)), None, texts).drop_null()
            if not len(texts):
                continue
            found[place, "nothing"] = None
            codes = pc.any(pc.match_substring_regex(cells, CODE)).as_py()
            digits = pc.all(pc.match_substring_regex(cells, DIGITS)).as_py()
            for kind in _KINDS:
                unlike = (codes and kind in _NUMBERS) or (kind == _WHOLE and not digits)
                if (place, kind) not in found and (unlike or not _fits(texts, kind)):
                    found[place, kind] = None
    rows = [{"place": place, "excluded": kind} for place, kind in found]
    yield pa.RecordBatch.from_pylist(rows, pa.schema([("place", pa.int32()), ("excluded", pa.string())]))


def _fits(texts: pa.Array, kind: str) -> bool:
    for type in _KINDS[kind]:
        try:
            texts.cast(type)
        except pa.ArrowInvalid:
            continue
        return True
    return False


def typed(texts: DataFrame, types: Mapping[str, str], unreadable: str | None = None) -> DataFrame:
    """Cells that are given as texts, each of the type of its column.

    One that is not of that type is null; where `unreadable` names a column, its record is there as it was.
    """
    from pyspark.sql import functions as sql

    columns = [_typed(name, types[name]).alias(name) for name in types]
    if unreadable is None:
        return texts.select(*columns)
    misfits = [_told(name).isNotNull() & _typed(name, kind).isNull() for name, kind in types.items() if kind != TEXT]
    record = sql.to_csv(sql.struct(*map(column, types)))
    wrong = sql.when(sql.array_contains(sql.array(*misfits), sql.lit(True)), record) if misfits else sql.lit(None)
    return texts.select(*columns, sql.coalesce(column(unreadable), wrong).alias(unreadable))


def _typed(name: str, kind: str) -> Column:
    return column(name) if kind == TEXT else _told(name).try_cast(kind)


def _told(name: str) -> Column:
    """A cell; null where it says in one of the usual ways that there is nothing."""
    from pyspark.sql import functions as sql

    cell = sql.trim(column(name))
    return sql.when(~cell.isin(NULLS), cell)

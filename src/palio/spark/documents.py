"""XML files as events: one row for each file, with its path and its text.

Files are read as bytes and decoded as XML says: by the byte order mark, by the declaration, or as UTF-8. A file that is
no XML stays a row, whose text no XPath subscription matches, as in any column; one in an unknown encoding has no text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from palio.errors import PipelineError
from palio.events.values import XML_ATTRIBUTE
from palio.events.xml import decode_document
from palio.spark.workers import choose_worker_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATH_COLUMN: Final = "path"
_COLUMNS: Final = f"{PATH_COLUMN} string, {XML_ATTRIBUTE} string"
_BATCH_FILES: Final = 64


def read_documents(spark: SparkSession, paths: Any) -> DataFrame:
    """The XML files of a folder, or those that a pattern such as `'archive/*.xml'` names, in `path` and `xml`.

    In a folder, at any depth, files whose names end in `.xml` are read.
    """
    if not isinstance(paths, str) or not paths:
        raise PipelineError(f"documents are read from a folder or a pattern such as 'archive/*.xml', not {paths!r}")
    choose_worker_python(spark)
    reader = spark.read.format("binaryFile")
    if not paths.endswith(".xml"):
        reader = reader.option("pathGlobFilter", "*.xml").option("recursiveFileLookup", "true")
    return reader.load(paths).select(PATH_COLUMN, "content").mapInArrow(_decode, _COLUMNS)


def _decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        # A few files at a time: their texts are held beside their bytes.
        for start in range(0, batch.num_rows, _BATCH_FILES):
            files = batch.slice(start, _BATCH_FILES)
            texts = [_text(content.as_py()) for content in files.column("content")]
            yield pa.RecordBatch.from_arrays(
                [files.column(PATH_COLUMN), pa.array(texts, pa.string())], names=[PATH_COLUMN, XML_ATTRIBUTE]
            )


def _text(content: bytes) -> str | None:
    try:
        return decode_document(content)
    except LookupError:
        return None

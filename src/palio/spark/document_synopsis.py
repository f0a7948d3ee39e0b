"""Synopsis of a column of XML documents, built by all executors at once.

Each partition makes a synopsis of its documents, and the driver adds these up: what travels is a text of some hundred
kilobytes for each partition, whatever it holds. Texts that are no documents are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from palio.errors import DocumentError, PipelineError
from palio.events.values import XML_ATTRIBUTE
from palio.spark.match_job import check_events
from palio.spark.workers import choose_worker_python
from palio.xml.document_parser import parse_document
from palio.xml.synopsis import MAX_NODES, DocumentSynopsis

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMNS: Final = "synopsis string"


def synopsis(events: DataFrame, xml: str = XML_ATTRIBUTE, *, max_nodes: int = MAX_NODES) -> DocumentSynopsis:
    """How many documents of a column have each path; `xml` names the column.

    Costs a pass over the documents, which parses each. The result estimates XPath subscriptions (`selectivity`), is
    given to `estimate`, and is kept as text (`to_json`).
    """
    check_events(events)
    if xml not in events.columns:
        raise PipelineError(f"xml names a column of XML text; there is no {xml!r}, but {', '.join(events.columns)}")
    choose_worker_python(events.sparkSession)
    whole = DocumentSynopsis(max_nodes)
    limit = max_nodes

    def summarise(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = DocumentSynopsis(limit)
        for batch in batches:
            for text in batch.column(0):
                _add(part, text.as_py())
        yield pa.RecordBatch.from_pydict({"synopsis": [part.to_json()]})

    for row in events.select(events[xml].cast("string").alias(XML_ATTRIBUTE)).mapInArrow(summarise, _COLUMNS).collect():
        whole.merge(DocumentSynopsis.from_json(row["synopsis"]))
    return whole


def _add(synopsis: DocumentSynopsis, text: str | None) -> None:
    if text is None:
        return
    try:
        synopsis.add(parse_document(text))
    except DocumentError:
        return

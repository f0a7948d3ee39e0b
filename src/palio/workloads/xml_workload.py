"""XML workload: documents and XPath subscriptions made from one schema, in bulk.

Each row is a function of its number, so `palio.spark.generate` makes any number of them on all executors. Patterns may
therefore repeat: that a pattern is new cannot be told from its number alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from palio.events.values import XML_ATTRIBUTE
from palio.workloads.generated import SUBSCRIPTIONS, WorkloadError
from palio.workloads.xml_documents import XmlDocuments
from palio.workloads.xpath_patterns import XPathPatterns

_COLUMNS: Final = pa.schema([(XML_ATTRIBUTE, pa.string())])


@dataclass(frozen=True)
class XmlWorkload:
    """Documents and patterns as the events and subscriptions of a generated workload."""

    documents: XmlDocuments
    patterns: XPathPatterns

    def __post_init__(self) -> None:
        if self.documents.seed != self.patterns.seed:
            raise WorkloadError("documents and patterns of one workload have one seed")

    @property
    def seed(self) -> int:
        return self.documents.seed

    @property
    def schema(self) -> pa.Schema:
        """One column, the text of the document."""
        return _COLUMNS

    def subscriptions(self, count: int, start: int = 0) -> pa.Table:
        """`id`, the number as text, and `where`, which asks the documents."""
        rows = np.arange(start, start + count)
        texts = [f"xpath_boolean({XML_ATTRIBUTE}, '{self.patterns.pattern(row)}')" for row in rows.tolist()]
        return pa.table([pa.array(rows).cast(pa.string()), pa.array(texts, pa.string())], schema=SUBSCRIPTIONS)

    def events(self, count: int, start: int = 0) -> pa.RecordBatch:
        texts = [self.documents.document(row) for row in range(start, start + count)]
        return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], schema=_COLUMNS)

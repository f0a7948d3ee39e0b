"""Grants over batches of events: which rows a grant admits, and whose sources a batch names.

The columns of a batch have one value in each row (`events.batches`), so that every element of an attribute matches a
grant where the value does. The grant is a matcher of one subscription: it takes columns as the index of a broker does.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from palio.errors import NotPermitted
from palio.events.batches import EventBatch
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.network.security.authorization import ANY_SOURCE, Principal, check_source

_SOURCE = "source"


class ColumnGrant:
    """The rows of batches that a grant admits."""

    __slots__ = ("_matcher",)

    def __init__(self, grant: Filter) -> None:
        self._matcher = None if grant == Filter.everything else Matcher(background=False)
        if self._matcher is not None:
            self._matcher.add("grant", grant)

    def admitted(self, columns: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """For each row whether the grant admits it."""
        if self._matcher is None:
            return np.ones(columns.num_rows, np.bool_)
        admitted = np.zeros(columns.num_rows, np.bool_)
        admitted[self._matcher.match_columns(columns)[0]] = True
        return admitted


def batch_published_by(principal: Principal, batch: EventBatch, grant: ColumnGrant) -> EventBatch:
    """The batch with the source of its publisher where events have none; NotPermitted where the principal may not
    publish one of them. As `authorization.published_by`, for all events of a batch."""
    admitted = grant.admitted(batch.columns)
    if not admitted.all():
        reason = f"its grant does not match event {int(np.argmin(admitted)) + 1:,} of the batch"
        raise NotPermitted(principal.name, "publish that event", reason)
    if ANY_SOURCE in principal.sources:
        return batch
    for column in (batch.sources, _column(batch.columns, _SOURCE)):
        if column is not None:
            for source in column.unique().to_pylist():
                if source is not None:
                    check_source(principal, source)
    if batch.sources is not None and not batch.sources.null_count:
        return batch
    return batch.said_by(principal.name)


def _column(columns: pa.RecordBatch, name: str) -> pa.Array | None:
    place = columns.schema.get_field_index(name)
    return None if place < 0 else columns.column(place)

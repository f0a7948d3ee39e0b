"""Index of a long DataFrame of subscriptions, built by the workers.

Rows are distributed by id, so that all rows with one id meet in one task, and keep their order there: of several with
one id the first one counts, as everywhere. A task reads its rows and builds an index of them. The driver concatenates
the files of the tasks (`matching.index_concatenation`). It never holds the subscriptions: beside the mapped file it has
their ids and compressed texts for the time of the concatenation, some tens of bytes each.

The tasks of a local session write their files to the driver's folder. From a cluster, which may share no disk, and
through Connect they come in pieces, as rows of a DataFrame, and the driver writes them to its disk as they arrive; that
costs a tenth of the CPU time, most of it after the last task has built its index. All rows are shuffled before the
driver fetches them, because `toLocalIterator` runs one partition after the other, and only what precedes a shuffle in
parallel.

There are few tasks: every task makes a segment, and every segment costs each event a look-up. The driver indexes a
short DataFrame itself, because starting a job, its Python workers and their kernels takes longer.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from palio.matching.index_concatenation import concatenate
from palio.matching.matcher import Matcher
from palio.spark.record_batches import with_plan_name
from palio.spark.shared_index import is_local
from palio.spark.subscriptions import Refused, Wants, collect_batches
from palio.spark.workers import choose_worker_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from palio.spark.implicit_casts import ImplicitCasts

MAX_DRIVER_SUBSCRIPTIONS: Final = 200_000  # below, starting a job takes longer than indexing
SUBSCRIPTIONS_PER_TASK: Final = 500_000
_MIN_TASKS: Final = 2
_PIECE_BYTES: Final = 1 << 20  # of a file, in one row; a server of Connect refuses messages beyond 128 MB
_FETCHES_PER_TASK: Final = 2  # parts in which the driver's JVM holds the rows of a task, one at a time
_ROW: Final = "palio row"
_SCHEMA: Final = "part int, place long, content binary, id string, reason string, subscribers long"
_ARROW_SCHEMA: Final = pa.schema(
    [
        ("part", pa.int32()),
        ("place", pa.int64()),  # of a piece in its file, or of a refused row among others
        ("content", pa.binary()),
        ("id", pa.string()),
        ("reason", pa.string()),
        ("subscribers", pa.int64()),
    ]
)


def build_index(rows: DataFrame, count: int, timezone: str, language: str, casts: ImplicitCasts | None = None) -> Wants:
    """Index the rows of a DataFrame of `count` subscriptions on the workers.

    Costs the driver the copying of the index; the refused ones come by task, those of a task in the order of the rows.
    """
    from pyspark.sql import functions as sql

    choose_worker_python(rows.sparkSession)
    tasks = max(_MIN_TASKS, ceil(count / SUBSCRIPTIONS_PER_TASK))
    by_id = rows.withColumn(_ROW, sql.monotonically_increasing_id()).repartition(tasks, "id")
    ordered = by_id.sortWithinPartitions(_ROW).drop(_ROW)
    with tempfile.TemporaryDirectory(prefix="palio-index-") as name:
        folder = Path(name)
        shared = folder if is_local(rows.sparkSession) else None
        build = partial(palio_build_index, timezone, language, casts, shared)
        built = ordered.mapInArrow(with_plan_name(build, palio_build_index.__name__), _SCHEMA)
        fetched = built.repartition(_FETCHES_PER_TASK * tasks, "part", "place")
        refused: list[tuple[int, int, Refused]] = []
        parts: set[int] = set()
        subscribers = 0
        for row in fetched.toLocalIterator(prefetchPartitions=True):
            if row.content is not None:
                _write_at(_part_file(folder, row.part), row.place, row.content)
            elif row.subscribers is not None:
                parts.add(row.part)
                subscribers += row.subscribers
            else:
                refused.append((row.part, row.place, Refused(row.id, row.reason)))
        whole = folder / "whole.palio"
        concatenate(whole, [_part_file(folder, part) for part in sorted(parts)])
        # Mapped, and kept by the mapping alone when the folder is removed.
        matcher = Matcher.open(whole)
    refused.sort(key=lambda each: each[:2])
    return Wants(matcher, tuple(each for *_, each in refused), IndexedSubscribers(matcher, subscribers), casts=casts)


def _part_file(folder: Path, part: int) -> Path:
    return folder / f"{part}.palio"


def _write_at(path: Path, place: int, content: bytes) -> None:
    with path.open("r+b" if path.exists() else "wb") as file:
        file.seek(place)
        file.write(content)


def palio_build_index(
    timezone: str,
    language: str,
    casts: ImplicitCasts | None,
    shared: Path | None,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The refused rows of a partition, and the index of the others: in pieces, or in the shared folder."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None  # of the task that runs this
    part = context.partitionId()
    wants = collect_batches(batches, timezone, language, casts)
    yield _result([{"part": part, "subscribers": len(wants.subscribers)}])
    refused = enumerate(wants.refused)
    yield _result([{"part": part, "place": at, "id": each.id, "reason": each.reason} for at, each in refused])
    if shared is not None:
        wants.matcher.save(_part_file(shared, part))
        return
    with tempfile.TemporaryDirectory(prefix="palio-index-") as name:
        path = _part_file(Path(name), part)
        wants.matcher.save(path)
        del wants  # the rows of the partition, of no use any more
        with path.open("rb") as file:
            place = 0
            while content := file.read(_PIECE_BYTES):
                yield _result([{"part": part, "place": place, "content": content}])
                place += len(content)


def _result(rows: list[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, _ARROW_SCHEMA)


class IndexedSubscribers(Mapping[str, str]):
    """The subscribers of an index by the ids of their subscriptions, looked up in it."""

    def __init__(self, matcher: Matcher, count: int) -> None:
        self._matcher = matcher
        self._count = count

    def __getitem__(self, id: str) -> str:
        found = self._matcher[id].subscriber if id in self._matcher else None
        if found is None:
            raise KeyError(id)
        return found

    def __iter__(self) -> Iterator[str]:
        named = zip(self._matcher.numbered_ids().to_pylist(), self._matcher.numbered_subscribers(), strict=True)
        return (id for id, subscriber in named if subscriber.is_valid)

    def __len__(self) -> int:
        return self._count

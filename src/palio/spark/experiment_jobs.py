"""Jobs for experiments: workload generation (`generate`) and parameter sweeps (`sweep`).

A row of a workload is a function of its number and the seed. Tasks make their ranges independently: a seed gives the
same rows for any number of partitions, and no row passes through the driver.

A sweep evaluates a function over a grid of parameters and seeds, one task for each point. The task writes the result of
its point once and whole, under a digest of the parameters. A sweep that was stopped resumes; a widened grid runs only
its new points; concurrent sweeps do not disturb each other. A failed point leaves nothing behind and is tried again by
the next run.

The digest covers parameters and seed, not the function: a digest of its code would miss the functions that it calls and
would react to irrelevant edits. A changed function needs a folder of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa

from palio.errors import InvalidArgument, PipelineError
from palio.spark.storage import StorageFolder
from palio.spark.workers import choose_worker_python
from palio.workloads.generated import SUBSCRIPTIONS, Generated, workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Kind = Literal["events", "subscriptions"]
NUMBER: Final = "number"
SEED: Final = "seed"
_POINTS: Final = "points"
_MAX_NAMED_FAILURES: Final = 3
_ANSWER: Final = pa.schema([("number", pa.int64()), ("reason", pa.string())])

Point = dict[str, Any]
Result = Mapping[str, Any] | Sequence[Mapping[str, Any]]


def generate(
    spark: SparkSession,
    name: str | Generated,
    kind: Kind,
    count: int,
    *,
    start: int = 0,
    partitions: int | None = None,
    **parameters: Any,
) -> DataFrame:
    """The events or subscriptions of a workload, by its name and parameters, from number `start` on.

    Events have their number in a column `number` before those of the workload. Subscriptions have `id`, their number
    as text, and `where`.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    if kind not in ("events", "subscriptions"):
        raise InvalidArgument(f"a workload has 'events' and 'subscriptions', not {kind!r}")
    if count < 0 or start < 0:
        raise InvalidArgument("the rows of a workload are counted from 0 on")
    made = workload(name, **parameters) if isinstance(name, str) else name
    schema = pa.schema([(NUMBER, pa.int64()), *made.schema]) if kind == "events" else SUBSCRIPTIONS

    def palio_generate(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for first, size in _consecutive_runs(batch.column(0).to_numpy()):
                yield from _rows(made, kind, first, size, schema)

    choose_worker_python(spark)
    numbers = spark.range(start, start + count, 1, partitions)
    return numbers.mapInArrow(palio_generate, from_arrow_schema(schema))


def _consecutive_runs(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[tuple[int, int]]:
    """The first number and the length of each run of consecutive numbers."""
    if not len(numbers):
        return
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    for run in np.split(numbers, breaks):
        yield int(run[0]), len(run)


def _rows(made: Generated, kind: Kind, first: int, size: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if kind == "subscriptions":
        yield from made.subscriptions(size, first).to_batches()
        return
    events = made.events(size, first)
    numbers = pa.array(np.arange(first, first + size))
    yield pa.RecordBatch.from_arrays([numbers, *events.columns], schema=schema)


@dataclass(frozen=True)
class Sweep:
    """Result of a sweep: all points, those that ran now, and the failed ones with their reasons."""

    points: int
    ran: int
    failed: tuple[tuple[Point, str], ...]
    path: str


def grid_points(grid: Mapping[str, Sequence[Any]], seeds: int | Sequence[int] = 1) -> list[Point]:
    """All points of a grid with each seed, in the order of the grid."""
    if SEED in grid:
        raise InvalidArgument("a grid has no parameter `seed`; say which seeds with seeds=…")
    chosen = range(seeds) if isinstance(seeds, int) else seeds
    return [
        {**dict(zip(grid, values, strict=True)), SEED: seed} for values in product(*grid.values()) for seed in chosen
    ]


def sweep(
    spark: SparkSession,
    function: Callable[..., Result],
    grid: Mapping[str, Sequence[Any]],
    path: str | Path,
    *,
    seeds: int | Sequence[int] = 1,
    on_error: str = "fail",
) -> DataFrame:
    """Evaluate `function(**parameters, seed=…)` at every point; a table of parameters, seed and results.

    A result is a mapping, or several of them for several rows; all are stored in `path`. Parameters and results must
    be JSON values. Points of an earlier run are not computed again, even where the function has changed. After all
    points have run, failures are raised, or with `on_error="skip"` left out.
    """
    if on_error not in ("fail", "skip"):
        raise PipelineError(f"on_error is 'fail' or 'skip', not {on_error!r}")
    points = grid_points(grid, seeds)
    done = run_points(spark, function, points, path)
    if done.failed and on_error == "fail":
        reasons = "; ".join(f"{point}: {reason}" for point, reason in done.failed[:_MAX_NAMED_FAILURES])
        more = f"; and {len(done.failed) - _MAX_NAMED_FAILURES} more" if len(done.failed) > _MAX_NAMED_FAILURES else ""
        raise PipelineError(
            f"{len(done.failed)} of {len(points)} points failed; what the others gave is kept. {reasons}{more}"
        )
    return results(spark, points, path)


def run_points(
    spark: SparkSession, function: Callable[..., Result], points: Sequence[Point], path: str | Path
) -> Sweep:
    """Compute the points that have no result yet."""
    folder = StorageFolder(path)
    known = set(folder.names(_POINTS))
    names = [_name(point) for point in points]
    missing = [point for point, name in zip(points, names, strict=True) if name not in known]
    if not missing:
        return Sweep(len(points), 0, (), str(path))

    def palio_sweep(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                reason = _run_point(function, missing[number], folder)
                yield pa.RecordBatch.from_pydict({"number": [number], "reason": [reason]}, _ANSWER)

    choose_worker_python(spark)
    # A partition for each point: a slow one holds up no other.
    each_alone = spark.range(0, len(missing), 1, len(missing))
    answers = each_alone.mapInArrow(palio_sweep, "number long, reason string").toArrow().to_pylist()
    failed = tuple((missing[each["number"]], each["reason"]) for each in answers if each["reason"] is not None)
    return Sweep(len(points), len(missing) - len(failed), failed, str(path))


def _run_point(function: Callable[..., Result], point: Point, folder: StorageFolder) -> str | None:
    """Compute a point and store its result; the reason where it failed."""
    try:
        found = function(**point)
        rows = [dict(found)] if isinstance(found, Mapping) else [dict(each) for each in found]
        for row in rows:
            taken = next((name for name in row if name in point), None)
            if taken is not None:
                raise ValueError(f"a result has the name of the parameter {taken!r}")
        text = json.dumps([{**point, **row} for row in rows], allow_nan=True)
    except Exception as error:  # the function is the user's: only its point fails
        return f"{type(error).__name__}: {error}"
    # Where a concurrent sweep was faster, its result stays.
    folder.create(f"{_POINTS}/{_name(point)}", text.encode())
    return None


def results(spark: SparkSession, points: Sequence[Point], path: str | Path) -> DataFrame:
    """The stored results of points as a table, in their order."""
    folder = StorageFolder(path)
    known = set(folder.names(_POINTS))
    rows: list[dict[str, Any]] = []
    for name in map(_name, points):
        if name in known:
            rows += _read_point(folder, f"{_POINTS}/{name}")
    if not rows:
        raise PipelineError(f"{path}: there is no result yet")
    columns = _aligned(rows)
    return spark.createDataFrame(pa.table({name: _column(name, values) for name, values in columns.items()}))


def _read_point(folder: StorageFolder, name: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(folder.read(name))
    except ValueError as error:
        reason = f"is damaged ({error}); remove it, and the point is computed again"
        raise PipelineError(f"{folder.redacted_address(name)} {reason}") from None
    return list(found)


def _column(name: str, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        kinds = sorted({type(value).__name__ for value in values if value is not None})
        reason = " and ".join(kinds) if len(kinds) > 1 else str(error)
        raise PipelineError(f"the results called {name!r} make no column: {reason}") from None


def _aligned(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Columns of equal length: missing results are NULL, integers among floats become floats."""
    columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    for name, values in columns.items():
        if any(type(value) is float for value in values):
            columns[name] = [float(value) if type(value) is int else value for value in values]
    return columns


def _name(point: Point) -> str:
    """The file name of a point: a digest of its parameters, independent of their order."""
    try:
        text = json.dumps(point, sort_keys=True)
    except TypeError as error:
        raise InvalidArgument(f"a parameter of a sweep is what JSON can say: {error}") from None
    return f"{blake2b(text.encode(), digest_size=16).hexdigest()}.json"

"""`sweep`: a function over a grid of parameters and seeds, each point a task of its own.

What a point gave is written by its task, once and whole, under the digest of what it was asked; so a sweep that was
stopped goes on where it was, one that is widened runs only what is new, and two that run at once do not disturb each
other. A point that fails leaves nothing behind and is tried again the next time; the others are not stopped by it.

What was asked is the parameters and the seed, not the function: a function that was changed is given a folder of its
own by whoever changed it. A digest of its code would not see what it calls, and would see what does not matter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from palio.errors import InvalidArgument, PipelineError
from palio.spark.places import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEED: Final = "seed"
_POINTS: Final = "points"
_MOST_NAMED: Final = 3

Point = dict[str, Any]
Result = Mapping[str, Any] | Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Sweep:
    """What came of a sweep: how many of its points ran now, how many were known, and those that failed, with why."""

    points: int
    ran: int
    failed: tuple[tuple[Point, str], ...]
    path: str


def points_of(grid: Mapping[str, Sequence[Any]], seeds: int | Sequence[int] = 1) -> list[Point]:
    """All points of a grid, for each seed; in an order that only the grid decides."""
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
    """What `function(**parameters, seed=…)` gives at every point, as a table: parameters, seed and results.

    A result is a mapping, or several of them for several rows; all are kept in `path`. Parameters and results are what
    JSON can say. Points that are known from an earlier run are not computed again, whatever the function is by now.
    When all others are done, those that failed are raised, or with `on_error="skip"` left out.
    """
    if on_error not in ("fail", "skip"):
        raise PipelineError(f"on_error is 'fail' or 'skip', not {on_error!r}")
    points = points_of(grid, seeds)
    done = run_points(spark, function, points, path)
    if done.failed and on_error == "fail":
        told = "; ".join(f"{point}: {reason}" for point, reason in done.failed[:_MOST_NAMED])
        more = f"; and {len(done.failed) - _MOST_NAMED} more" if len(done.failed) > _MOST_NAMED else ""
        raise PipelineError(
            f"{len(done.failed)} of {len(points)} points failed; what the others gave is kept. {told}{more}"
        )
    return results(spark, points, path)


def run_points(
    spark: SparkSession, function: Callable[..., Result], points: Sequence[Point], path: str | Path
) -> Sweep:
    """Compute the points that are not known yet."""
    place = Place(path)
    known = set(place.names(_POINTS))
    names = [_name(point) for point in points]
    missing = [point for point, name in zip(points, names, strict=True) if name not in known]
    if not missing:
        return Sweep(len(points), 0, (), str(path))

    def palio_sweep(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                reason = _run(function, missing[number], place)
                yield pa.RecordBatch.from_pydict({"number": [number], "reason": [reason]}, _ANSWER)

    each_alone = spark.range(0, len(missing), 1, len(missing))
    answers = each_alone.mapInArrow(palio_sweep, "number long, reason string").toArrow().to_pylist()
    failed = tuple((missing[each["number"]], each["reason"]) for each in answers if each["reason"] is not None)
    return Sweep(len(points), len(missing) - len(failed), failed, str(path))


_ANSWER: Final = pa.schema([("number", pa.int64()), ("reason", pa.string())])


def _run(function: Callable[..., Result], point: Point, place: Place) -> str | None:
    """Compute a point and keep what it gave; the reason where it gave nothing."""
    try:
        found = function(**point)
        rows = [dict(found)] if isinstance(found, Mapping) else [dict(each) for each in found]
        for row in rows:
            taken = next((name for name in row if name in point), None)
            if taken is not None:
                raise ValueError(f"a result has the name of the parameter {taken!r}")
        text = json.dumps([{**point, **row} for row in rows], allow_nan=True)
    except Exception as error:  # of a function that anybody wrote: the point fails, and the others go on
        return f"{type(error).__name__}: {error}"
    place.create(f"{_POINTS}/{_name(point)}", text.encode())
    return None


def results(spark: SparkSession, points: Sequence[Point], path: str | Path) -> DataFrame:
    """What is known of these points, as a table, in their order."""
    place = Place(path)
    known = set(place.names(_POINTS))
    rows: list[dict[str, Any]] = []
    for name in map(_name, points):
        if name in known:
            rows += _kept(place, f"{_POINTS}/{name}")
    if not rows:
        raise PipelineError(f"{path}: there is no result yet")
    columns = _aligned(rows)
    return spark.createDataFrame(pa.table({name: _column(name, values) for name, values in columns.items()}))


def _kept(place: Place, name: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(place.read(name))
    except ValueError as error:
        reason = f"is damaged ({error}); remove it, and the point is computed again"
        raise PipelineError(f"{place.shown(name)} {reason}") from None
    return list(found)


def _column(name: str, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        kinds = sorted({type(value).__name__ for value in values if value is not None})
        reason = " and ".join(kinds) if len(kinds) > 1 else str(error)
        raise PipelineError(f"the results called {name!r} make no column: {reason}") from None


def _aligned(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Columns of the same length: what a point did not tell is NULL, a number among floats a float."""
    columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    for name, values in columns.items():
        if any(type(value) is float for value in values):
            columns[name] = [float(value) if type(value) is int else value for value in values]
    return columns


def _name(point: Point) -> str:
    """The file of a point: a digest of its parameters, whatever their order."""
    try:
        text = json.dumps(point, sort_keys=True)
    except TypeError as error:
        raise InvalidArgument(f"a parameter of a sweep is what JSON can say: {error}") from None
    return f"{blake2b(text.encode(), digest_size=16).hexdigest()}.json"

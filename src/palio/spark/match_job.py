"""Match job: `match` joins the rows of a DataFrame with the subscriptions that match them.

`physical_plan` chooses one of two plans. The broadcast plan is here, the rendezvous plan in `rendezvous.shuffle_plan`.

Broadcast: the index of all subscriptions is one file that every worker maps (`shared_index`). Rows travel to Python in
Arrow batches, in one of two ways. Where the kept columns are read by subscriptions anyway, or are few and small, whole
rows pass through Python. Otherwise only the columns that subscriptions read leave the JVM, and Spark keeps the rest of
each row beside them until the result comes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from palio.errors import InvalidSubscription, PipelineError
from palio.events.names import join_path, list_first
from palio.events.values import XML_ATTRIBUTE
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from palio.spark.argument_checks import check_names, kind_of, warn_caller
from palio.spark.attributes import MAX_INSPECTED_SUBSCRIPTIONS, MAX_NAMED, find_name, is_case_sensitive, quoted
from palio.spark.deferred_frame import defer
from palio.spark.implicit_casts import ImplicitCasts, warn_about_type_conflicts
from palio.spark.physical_plan import (
    Plan,
    Rendezvous,
    check_plan,
    gather_for_plan,
    index_memory_bytes,
    must_be_read,
    plan_rendezvous,
    tasks_per_executor,
)
from palio.spark.projection import (
    Projection,
    column,
    column_zones,
    leaf_paths,
    matcher_zones,
    project_attributes,
    select_by_place,
    session_zone,
)
from palio.spark.record_batches import (
    BatchMatcher,
    MatchPairs,
    OutputColumns,
    active_match_counter,
    as_arrow_udf,
    counted,
    group_into_lists,
    with_plan_name,
)
from palio.spark.rendezvous.shuffle_plan import JoinSides, check_kept_types, join_by_rendezvous
from palio.spark.shared_index import SharedIndex
from palio.spark.subscription_columns import check_chosen, id_type
from palio.spark.subscription_frame import SubscriptionFrame, choose_columns, index_bytes
from palio.spark.subscriptions import OnError, Wants, check_on_error, is_table
from palio.spark.workers import choose_worker_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField


SUBSCRIPTION_COLUMN: Final = "subscription_id"
SUBSCRIPTIONS_COLUMN: Final = "subscription_ids"
SUBSCRIBER_COLUMN: Final = "subscriber"
MISSING_COLUMN_WARNING: Final = "the events have no column for"
"""Beginning of the warning, for filters."""
# Measured: two columns of numbers cost less to pass through Python than to be kept beside it.
_MAX_COPIED_COLUMNS: Final = 2


def match(
    events: DataFrame,
    subscriptions: Any,
    *,
    per_event: bool = False,
    numbers: bool = False,
    columns: Sequence[str] | None = None,
    subscription_columns: Sequence[str] = (),
    json: Sequence[str] = (),
    xml: str | None = None,
    on_error: OnError = "quarantine",
    plan: Plan = "auto",
    memory: int | str | None = None,
) -> DataFrame:
    """Matches of events and subscriptions: the events' columns and `subscription_id` (and `subscriber`, if any).

    `events` is any DataFrame, streaming ones too. `subscriptions` is a file or folder, a table, a DataFrame with the
    columns `id` and `where` (and `language`, `subscriber`), a saved index (`.palio`), a `SubscriptionLog` (then its
    latest version), a `Matcher`, or `Wants`, which says what was refused. With `per_event` there is one row for each
    event, matched or not, with an array of ids in `subscription_ids`. `numbers` gives the subscriptions' numbers in
    place of their ids. `columns` are those of the events' columns that are kept, by default all;
    `subscription_columns` are further columns of the subscriptions that each match has (`["priority"]`), by default
    none; `json` names columns whose texts hold JSON objects, and `xml` the column that XPath subscriptions ask about,
    `xml` unless given. Numeric ids of a DataFrame and chosen columns have the types that they have there.

    `plan` is "broadcast" (one index, on every executor), "rendezvous" (the index in buckets, events and subscriptions
    meet in a shuffle; a `Rendezvous` has its options) or, by default, whichever fits: broadcast where the index takes
    at most `memory` on an executor, half of `spark.executor.memory` unless given. `explain()` shows the plan.

    The call runs no Spark job and reads no row. Subscriptions that have to be read are read and indexed when the result
    is used first, be it for its columns; those in memory and a saved index are taken as they are now. Costs 10 to 30 µs
    for each subscription, then or now.
    """
    check_events(events)
    check_chosen(subscription_columns, per_event)
    if xml is not None:
        columns = events.columns if columns is None else columns
        events = with_document(events, xml)
    spark = events.sparkSession
    choose_worker_python(spark)
    check_plan(plan)
    check_on_error(on_error)
    kept = kept_columns(events, columns)
    _check_column_names(events, kept, [SUBSCRIPTIONS_COLUMN if per_event else SUBSCRIPTION_COLUMN])
    check_names("json", json)
    if json:
        project_attributes(events, (), json)  # refuses columns that hold no JSON
    request = MatchRequest(
        events,
        kept,
        tuple(json),
        per_event,
        numbers,
        tuple(subscription_columns),
        on_error,
        _plan_for_stream(events, plan),
        index_memory_bytes(spark, memory),
    )
    if isinstance(subscriptions, str) and is_table(spark, subscriptions):
        subscriptions = spark.table(subscriptions)
    if must_be_read(spark, subscriptions, subscription_columns):
        return defer(spark, partial(_match, request, subscriptions))
    return _match(request, subscriptions)


@dataclass(frozen=True)
class MatchRequest:
    """The arguments of `match` other than the subscriptions, checked."""

    events: DataFrame
    kept: tuple[str, ...]
    json: tuple[str, ...]
    per_event: bool
    numbers: bool
    subscription_columns: tuple[str, ...]
    on_error: OnError
    plan: Plan
    memory: int


def _match(request: MatchRequest, subscriptions: Any) -> DataFrame:
    """Read the subscriptions, and plan the job."""
    events, kept, per_event = request.events, request.kept, request.per_event
    spark = events.sparkSession
    casts = ImplicitCasts.of(events)
    gathered = gather_for_plan(
        spark, subscriptions, request.plan, request.memory, request.on_error, casts, request.subscription_columns
    )
    output = _output_columns(spark, gathered, per_event, request.numbers, request.subscription_columns)
    _check_column_names(events, kept, output.names)
    wants = gathered.matcher if isinstance(gathered, Wants) else gathered
    projection = project_for(events, wants, request.json)
    warn_about_missing_columns(projection.absent, wants)
    warn_about_type_conflicts(_applied_casts(casts, gathered))
    if isinstance(gathered, Wants):
        return _broadcast(events, gathered, kept, projection, output, per_event)
    _check_rendezvous(request, gathered, output)
    # It samples both sides.
    return defer(spark, partial(_rendezvous, request, gathered, projection, output))


def with_document(events: DataFrame, column: Any) -> DataFrame:
    """The events with a column of XML text under the name by which XPath subscriptions ask for it."""
    if not isinstance(column, str) or column not in events.columns:
        raise PipelineError(f"xml names a column of XML text; there is no {column!r}, but {', '.join(events.columns)}")
    if column == XML_ATTRIBUTE:
        return events
    if XML_ATTRIBUTE in events.columns:
        raise PipelineError(f"xml names {column}, but there is a column {XML_ATTRIBUTE} too; drop or rename one")
    return events.withColumn(XML_ATTRIBUTE, events[column])


def _applied_casts(casts: ImplicitCasts, gathered: Wants | SubscriptionFrame) -> ImplicitCasts:
    """The casts with the conflicts of types that were seen when they were put into the conditions."""
    if isinstance(gathered, Wants):
        return gathered.casts or casts  # perhaps of an earlier call with the same subscriptions
    if not casts.conflicts:
        for each in gathered.sample:  # the casts were applied by workers: again here, for some
            casts.apply_to(each)
    return casts


def check_events(events: Any) -> None:
    """Refuse events that are no DataFrame, with the call that makes them one."""
    if hasattr(events, "sparkSession"):
        return
    given = f"{events!r}" if isinstance(events, str | Path) else f"a {kind_of(events)}"
    raise PipelineError(f"events are a DataFrame of Spark, not {given}: {_frame_call(events)}")


def _frame_call(events: Any) -> str:
    """The call that reads a table or a path, by its name alone: formats and schemas are for the caller to choose."""
    if not isinstance(events, str | Path):
        return "spark.createDataFrame(…)"
    name = str(events)
    suffixes = Path(name).suffixes
    if {".json", ".jsonl", ".ndjson"}.intersection(suffixes):
        return f"spark.read.json({name!r})"
    if ".csv" in suffixes:
        return f"spark.read.csv({name!r}, header=True, inferSchema=True)"
    is_path = isinstance(events, Path) or "/" in name or ".parquet" in suffixes
    return f"spark.read.parquet({name!r})" if is_path else f"spark.table({name!r})"


def _output_columns(
    spark: SparkSession,
    gathered: Wants | SubscriptionFrame,
    per_event: bool,
    numbers: bool,
    subscription_columns: Sequence[str],
) -> OutputColumns:
    name = SUBSCRIPTIONS_COLUMN if per_event else SUBSCRIPTION_COLUMN
    renumbered = None
    if isinstance(gathered, Wants):
        has_subscribers, renumbered = bool(gathered.subscribers), gathered.numbers
        chosen = choose_columns(gathered, subscription_columns, is_case_sensitive(spark))
    else:
        has_subscribers, chosen = gathered.has_subscribers, gathered.chosen
    subscriber = SUBSCRIBER_COLUMN if has_subscribers and not per_event else None
    return OutputColumns(name, numbers, subscriber, id_type(gathered.schema), chosen, renumbered)


def _plan_for_stream(events: DataFrame, plan: Plan) -> Plan:
    """Restrict a stream to broadcast: Spark can sort a batch within partitions, but not a stream."""
    if not events.isStreaming or plan == "broadcast":
        return plan
    if plan == "auto":
        return "broadcast"
    raise PipelineError("a stream cannot be matched by rendezvous; match each batch of it, in foreachBatch")


def _check_rendezvous(request: MatchRequest, subscriptions: SubscriptionFrame, output: OutputColumns) -> None:
    if output.numbers and not subscriptions.numbered:
        raise PipelineError(
            "only an index of all subscriptions numbers them, and the rendezvous plan has none; take their ids, or "
            "gather them first: Wants.read(spark, subscriptions)"
        )
    check_kept_types(request.events, request.kept)


def _rendezvous(
    request: MatchRequest, subscriptions: SubscriptionFrame, projection: Projection, output: OutputColumns
) -> DataFrame:
    events, kept = request.events, request.kept
    options = request.plan if isinstance(request.plan, Rendezvous) else Rendezvous()
    # Each concurrent task of an executor holds the index of one bucket, so the memory is shared between them.
    choice = plan_rendezvous(
        events, projection, subscriptions, options, request.memory // tasks_per_executor(events.sparkSession)
    )
    sides = JoinSides(events, projection, kept, subscriptions, choice)
    fields = [events.schema[name] for name in kept] + _result_fields(output, request.per_event)
    return join_by_rendezvous(sides, output, fields, request.per_event)


def _broadcast(
    events: DataFrame,
    wants: Wants,
    kept: tuple[str, ...],
    projection: Projection,
    output: OutputColumns,
    per_event: bool,
) -> DataFrame:
    index = wants.index or SharedIndex.publish(events.sparkSession, wants.matcher)
    task = BroadcastTask(
        BatchMatcher(index, projection.json, active_match_counter()), projection.attributes, kept, output
    )
    size = f"[{counted(len(wants.matcher), 'subscription')}, {_in_bytes(index_bytes(wants.matcher))}]"
    if _passes_whole_rows(events, projection, kept):
        return _match_whole_rows(events, projection, task, per_event, size)
    return _match_beside_rows(events, projection, task, per_event, size)


def _in_bytes(size: int) -> str:
    """A size as `explain()` shows it, at least 1 KB."""
    for unit in ("KB", "MB"):
        size = ceil(size / 1000)
        if size < 1000:
            return f"{max(1, size)} {unit}"
    return f"{size / 1000:,.1f} GB"


def project_for(events: DataFrame, wants: Matcher | SubscriptionFrame, json: Sequence[str]) -> Projection:
    """The projection of events onto the attributes that subscriptions read."""
    attributes = set(wants.attributes)
    if wants.reads_whole_events:
        columns = [((field.name,), field.dataType) for field in events.schema.fields]
        attributes.update(map(join_path, leaf_paths(columns)))
    zone = column_zones(
        lambda: wants.zones if isinstance(wants, SubscriptionFrame) else matcher_zones(wants),
        session_zone(events.sparkSession),
    )
    return project_attributes(events, attributes, json, zone)


def kept_columns(events: DataFrame, columns: Sequence[str] | None) -> tuple[str, ...]:
    """The columns that the session finds by these names; all where `columns` is None."""
    if columns is None:
        return tuple(events.columns)
    check_names("columns", columns)
    case_sensitive = is_case_sensitive(events.sparkSession)
    found: list[str] = []
    for each in columns:
        name = find_name(events.schema, each, case_sensitive)
        if name is None:
            raise PipelineError(f"there is no column {each} to keep; there are {', '.join(events.columns)}")
        if name in found:
            raise PipelineError(f"the column {name} cannot be kept twice")
        found.append(name)
    return tuple(found)


def _check_column_names(events: DataFrame, kept: Sequence[str], added: Sequence[str]) -> None:
    twice = [name for name in kept if events.columns.count(name) > 1]
    if twice:
        raise PipelineError(f"the events have two columns {twice[0]}; rename one, or say with columns= what to keep")
    # Without regard to case: by default Spark could not tell such columns apart afterwards.
    taken = [name for name in added if name.lower() in {each.lower() for each in kept}]
    if taken:
        raise PipelineError(
            f"the events have a column {taken[0]} already, where the answer goes; rename it, or do not keep it"
        )


def _passes_whole_rows(events: DataFrame, projection: Projection, kept: Sequence[str]) -> bool:
    from pyspark.sql.types import BooleanType, DateType, NumericType, TimestampType

    if events.isStreaming:
        return True
    # An attribute may be spelled in another case than its column, or with quotes.
    read = {*projection.attributes, *(each for each in projection.columns if isinstance(each, str))}
    others = [events.schema[name] for name in kept if read.isdisjoint((name, quoted(name)))]
    small = (BooleanType, DateType, NumericType, TimestampType)
    return len(others) <= _MAX_COPIED_COLUMNS and all(isinstance(field.dataType, small) for field in others)


def _match_whole_rows(
    events: DataFrame, projection: Projection, task: BroadcastTask, per_event: bool, size: str
) -> DataFrame:
    """Pass whole rows through Python: one pass, and no row has to be reassembled."""
    from pyspark.sql.types import StructType

    read = projection.all_columns
    places = {each: place for place, each in enumerate(read) if isinstance(each, str)}
    # A kept column that a condition reads as it is passes once.
    others = [name for name in map(quoted, task.kept) if name not in places]
    places |= {name: place for place, name in enumerate(others, len(read))}
    task = replace(task, kept_places=tuple(places[quoted(name)] for name in task.kept))
    fields = [events.schema[name] for name in task.kept] + _result_fields(task.output, per_event)
    run = palio_broadcast_lists if per_event else palio_broadcast_pairs
    return select_by_place(events, [*read, *others]).mapInArrow(
        with_plan_name(partial(run, task), run.__name__ + size), StructType(fields)
    )


def _match_beside_rows(
    events: DataFrame, projection: Projection, task: BroadcastTask, per_event: bool, size: str
) -> DataFrame:
    """Pass only the projection through Python; Spark holds the rest of each row until the result comes back."""
    from pyspark.sql import functions as sql

    answer = _match_function(task, per_event, size)(*projection.all_columns)
    kept = events.select(*(column(name) for name in task.kept), answer.alias(task.output.name))
    if per_event:
        return kept
    plain = [column(name) for name in task.kept]
    if len(task.output.names) == 1:
        return kept.select(*plain, sql.explode(task.output.name).alias(task.output.name))
    pairs = kept.select(*plain, sql.explode(task.output.name).alias("palio found"))
    found = (column("palio found").getField(name).alias(name) for name in task.output.names)
    return pairs.select(*plain, *found)


def _match_function(task: BroadcastTask, per_event: bool, size: str) -> Any:
    """UDF from the projection to the list of matching subscriptions."""
    from pyspark.sql.types import ArrayType, StructType

    fields = _result_fields(task.output, per_event=False)
    element: DataType = fields[0].dataType if len(fields) == 1 else StructType(fields)
    names = [*task.attributes, *task.matcher.json]

    def palio_broadcast(*columns: pa.Array) -> pa.Array:
        batch = pa.RecordBatch.from_arrays(list(columns), names)
        rows, numbers = task.matcher.match(batch)
        found = task.output.columns(task.matcher, numbers)
        values = found[0] if len(found) == 1 else pa.StructArray.from_arrays(found, task.output.names)
        return group_into_lists(rows, values, batch.num_rows)

    palio_broadcast.__name__ = palio_broadcast.__qualname__ = palio_broadcast.__name__ + size
    # Spark evaluates a deterministic UDF twice here: once more to see whether there is anything to explode.
    return as_arrow_udf(palio_broadcast, ArrayType(element, containsNull=False)).asNondeterministic()


@dataclass(frozen=True)
class BroadcastTask:
    """Work of a task: match the first columns of a batch, the projection, and keep some of all."""

    matcher: BatchMatcher
    attributes: tuple[str, ...]
    kept: tuple[str, ...]
    output: OutputColumns
    kept_places: tuple[int, ...] = ()
    """The places of the kept columns in a batch, where whole rows pass."""

    def match(self, batch: pa.RecordBatch) -> MatchPairs:
        names = [*self.attributes, *self.matcher.json]
        return self.matcher.match(pa.RecordBatch.from_arrays(batch.columns[: len(names)], names))

    def keep(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([batch.column(place) for place in self.kept_places], list(self.kept))


def palio_broadcast_lists(task: BroadcastTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row for each event: the kept columns and the list of subscriptions."""
    for batch in batches:
        rows, numbers = task.match(batch)
        (found,) = task.output.columns(task.matcher, numbers)[:1]
        columns = [*task.keep(batch).columns, group_into_lists(rows, found, batch.num_rows)]
        yield pa.RecordBatch.from_arrays(columns, [*task.kept, task.output.name])


def palio_broadcast_pairs(task: BroadcastTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row for each match: the kept columns and the subscription."""
    for batch in batches:
        rows, numbers = task.match(batch)
        found = task.output.columns(task.matcher, numbers)
        taken = task.keep(batch).take(pa.array(rows))
        yield pa.RecordBatch.from_arrays([*taken.columns, *found], [*task.kept, *task.output.names])


def _result_fields(output: OutputColumns, per_event: bool) -> list[StructField]:
    """Fields of the columns that matching adds."""
    from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField

    element: DataType = IntegerType() if output.numbers else output.id_type or StringType()
    if per_event:
        return [StructField(output.name, ArrayType(element, containsNull=False))]
    owner = [] if output.subscriber is None else [StructField(output.subscriber, StringType())]
    # Never NULL, so that Spark need not look: of a job that passes batches and keeps a number, that is 3 % of its time.
    return [StructField(output.name, element, nullable=False), *owner, *output.chosen]


def warn_about_missing_columns(
    absent: Sequence[str], wants: Matcher | SubscriptionFrame, beginning: str = MISSING_COLUMN_WARNING
) -> None:
    """Warn of attributes without a column."""
    if absent:
        warn_caller(missing_columns_message(absent, wants, beginning))


def missing_columns_message(
    absent: Sequence[str], wants: Matcher | SubscriptionFrame, beginning: str = MISSING_COLUMN_WARNING
) -> str:
    """Attributes without a column, perhaps mistyped, and some subscriptions that read them."""
    by_name = _readers_of(absent, wants)
    shown = [f"{name} ({', '.join(ids)})" if (ids := by_name[name]) else name for name in absent]
    return f"{beginning} {list_first(shown, MAX_NAMED)}: NULL to every condition"


def _readers_of(absent: Sequence[str], wants: Matcher | SubscriptionFrame) -> dict[str, list[str]]:
    subscriptions: Iterable[Subscription] = (
        wants.sample if isinstance(wants, SubscriptionFrame) else map(wants.__getitem__, wants)
    )
    found: dict[str, list[str]] = {name: [] for name in absent}
    for each in islice(subscriptions, MAX_INSPECTED_SUBSCRIPTIONS):
        try:
            names = each.filter.attributes.intersection(found)
        except InvalidSubscription:  # refused, and reported with the refused ones
            continue
        for name in names:
            if len(found[name]) < MAX_NAMED:
                found[name].append(each.id)
    return found

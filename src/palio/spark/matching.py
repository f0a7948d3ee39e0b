"""`match`: who wants which row of a DataFrame, many subscriptions at once.

Two plans, see `planning`: broadcast here, and `rendezvous` where the index does not fit an executor.

Broadcast. The index of all subscriptions is one file that every worker maps (`shared_index`); rows travel to
Python in Arrow batches, in one of two ways. Where all that is kept of an event is looked at anyway, or is little,
batches go through Python whole. Else only what subscriptions look at leaves the JVM, and Spark keeps the rest of each
row beside it until the answer comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from palio.errors import PipelineError
from palio.events.names import join_path
from palio.matching.matcher import Matcher
from palio.spark.attributes import find_name, is_case_sensitive
from palio.spark.columns import Needed, all_paths, column, needed_columns
from palio.spark.counting import matches_counter
from palio.spark.missing import warn_of
from palio.spark.planning import Plan, gather, index_memory
from palio.spark.rendezvous.plan import Sides, check_kept, rendezvous
from palio.spark.rendezvous.rows import SubscriptionRows
from palio.spark.rendezvous.sampling import Rendezvous, choose_for, slots
from palio.spark.shared_index import SharedIndex
from palio.spark.wants import OnError, Wants
from palio.spark.worker import Finder, Output, Task, lists, named, palio_broadcast_lists, palio_broadcast_pairs
from palio.spark.zones import reading_zone, zones_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructField

SUBSCRIPTION: Final = "subscription_id"
SUBSCRIPTIONS: Final = "subscription_ids"
SUBSCRIBER: Final = "subscriber"
_FEW: Final = 2  # columns of numbers that cost less to pass through Python than to be kept beside it


def match(
    events: DataFrame,
    subscriptions: Any,
    *,
    per_event: bool = False,
    numbers: bool = False,
    columns: Sequence[str] | None = None,
    json: Sequence[str] = (),
    on_error: OnError = "quarantine",
    plan: Plan = "auto",
    memory: int | str | None = None,
) -> DataFrame:
    """Who wants which event: the events' columns and `subscription_id` (and `subscriber`, where there are any).

    `events` is any DataFrame, streaming ones too. `subscriptions` is a file or folder, a table, a DataFrame with the
    columns `id` and `where` (and `language`, `subscriber`), a saved index (`.palio`), a `Matcher`, or `Wants`, which
    says what was refused. With `per_event` there is one row for each event, wanted or not, with an array of ids in
    `subscription_ids`. `numbers` gives the subscriptions' numbers in place of their ids. `columns` are those of the
    events' columns that are kept, by default all; `json` names columns whose texts hold JSON objects.

    `plan` is "broadcast" (one index, on every executor), "rendezvous" (the index in buckets, events and subscriptions
    meet in a shuffle; a `Rendezvous` says how) or, by default, whichever fits: broadcast where the index takes at most
    `memory` on an executor, half of what `spark.executor.memory` says unless given. `explain()` shows which it is.
    """
    spark = events.sparkSession
    room = index_memory(spark, memory)
    # A stream cannot be sorted; a batch of it can.
    gathered = gather(spark, subscriptions, _plan(events, plan), room, on_error)
    kept = kept_columns(events, columns)
    name = SUBSCRIPTIONS if per_event else SUBSCRIPTION
    told = gathered.subscribers if isinstance(gathered, Wants) else gathered.has_subscribers
    output = Output(name, numbers, SUBSCRIBER if told and not per_event else None)
    _check_names(events, kept, output.names)
    wants = gathered.matcher if isinstance(gathered, Wants) else gathered
    needed = needed_for(events, wants, json)
    warn_of(needed.absent, wants)
    if isinstance(gathered, Wants):
        return _broadcast(events, gathered, kept, needed, output, per_event)
    return _rendezvous(events, gathered, kept, needed, output, per_event, plan, room)


def _plan(events: DataFrame, plan: Plan) -> Plan:
    if not events.isStreaming or plan == "broadcast":
        return plan
    if plan == "auto":
        return "broadcast"
    raise PipelineError("a stream cannot be matched by rendezvous; match each batch of it, in foreachBatch")


def _rendezvous(
    events: DataFrame,
    subscriptions: SubscriptionRows,
    kept: tuple[str, ...],
    needed: Needed,
    output: Output,
    per_event: bool,
    plan: Plan,
    memory: int,
) -> DataFrame:
    if output.numbers and not subscriptions.numbered:
        raise PipelineError(
            "only an index of all subscriptions numbers them, and the rendezvous plan has none; take their ids, or "
            "gather them first: Wants.read(spark, subscriptions)"
        )
    check_kept(events, kept)
    options = plan if isinstance(plan, Rendezvous) else Rendezvous()
    choice = choose_for(events, needed, subscriptions, options, memory // slots(events.sparkSession))
    sides = Sides(events, needed, kept, subscriptions, choice)
    fields = [events.schema[name] for name in kept] + _added(output, per_event)
    return rendezvous(sides, output, fields, per_event)


def _broadcast(
    events: DataFrame, wants: Wants, kept: tuple[str, ...], needed: Needed, output: Output, per_event: bool
) -> DataFrame:
    index = wants.index or SharedIndex.publish(events.sparkSession, wants.matcher)
    finder = Finder(index, needed.json, matches_counter())
    task = Task(finder, needed.attributes, kept, output)
    if _goes_through_python(events, needed, kept):
        return _through_python(events, needed, task, per_event)
    return _beside_python(events, needed, task, per_event)


def needed_for(events: DataFrame, wants: Matcher | SubscriptionRows, json: Sequence[str]) -> Needed:
    """The columns that subscriptions look at."""
    attributes = set(wants.attributes)
    if wants.reads_whole_events:
        columns = [((field.name,), field.dataType) for field in events.schema.fields]
        attributes.update(map(join_path, all_paths(columns)))
    session = str(events.sparkSession.conf.get("spark.sql.session.timeZone"))
    zone = reading_zone(lambda: wants.zones if isinstance(wants, SubscriptionRows) else zones_of(wants), session)
    return needed_columns(events, attributes, json, zone)


def kept_columns(events: DataFrame, columns: Sequence[str] | None) -> tuple[str, ...]:
    """The columns that the session finds by these names; all where none are named."""
    if columns is None:
        return tuple(events.columns)
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


def _check_names(events: DataFrame, kept: Sequence[str], added: Sequence[str]) -> None:
    twice = [name for name in kept if events.columns.count(name) > 1]
    if twice:
        raise PipelineError(f"the events have two columns {twice[0]}; rename one, or say with columns= what to keep")
    taken = [name for name in added if name.lower() in {each.lower() for each in kept}]
    if taken:
        raise PipelineError(
            f"the events have a column {taken[0]} already, where the answer goes; rename it, or do not keep it"
        )


def _goes_through_python(events: DataFrame, needed: Needed, kept: Sequence[str]) -> bool:
    from pyspark.sql.types import BooleanType, DateType, NumericType, TimestampType

    if events.isStreaming:
        return True
    others = [events.schema[name] for name in kept if name not in needed.attributes]
    small = (BooleanType, DateType, NumericType, TimestampType)
    return len(others) <= _FEW and all(isinstance(field.dataType, small) for field in others)


def _through_python(events: DataFrame, needed: Needed, task: Task, per_event: bool) -> DataFrame:
    """Whole batches through Python: one pass, and no row is put together again."""
    from pyspark.sql.types import StructType

    # By place, not by name: Spark would look for a name with a dot inside a column.
    columns = [*needed.all_columns, *map(column, task.kept)]
    handed = events.select(*(each.alias(f"c{place}") for place, each in enumerate(columns)))
    fields = [events.schema[name] for name in task.kept] + _added(task.output, per_event)
    run = palio_broadcast_lists if per_event else palio_broadcast_pairs
    return handed.mapInArrow(named(partial(run, task), run.__name__), StructType(fields))


def _beside_python(events: DataFrame, needed: Needed, task: Task, per_event: bool) -> DataFrame:
    """Only what is looked at leaves the JVM; the rest of each row waits there for the answer."""
    from pyspark.sql import functions as sql

    answer = _answers(task, per_event)(*needed.all_columns)
    kept = events.select(*(column(name) for name in task.kept), answer.alias(task.output.name))
    if per_event:
        return kept
    plain = [column(name) for name in task.kept]
    if task.output.subscriber is None:
        return kept.select(*plain, sql.explode(task.output.name).alias(task.output.name))
    pairs = kept.select(*plain, sql.explode(task.output.name).alias("palio found"))
    return pairs.select(*plain, *(sql.col(f"`palio found`.{name}").alias(name) for name in task.output.names))


def _answers(task: Task, per_event: bool) -> Any:
    """The function of columns that gives those who want each row."""
    import pyarrow as pa
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
    from pyspark.sql.types import ArrayType, StructType

    fields = _added(task.output, per_event=False)
    element: DataType = fields[0].dataType if len(fields) == 1 else StructType(fields)
    names = [*task.attributes, *task.finder.json]

    def palio_broadcast(*columns: pa.Array) -> pa.Array:
        batch = pa.RecordBatch.from_arrays(list(columns), names)
        rows, numbers = task.finder.find(batch)
        found = task.output.columns(task.finder, numbers)
        values = found[0] if len(found) == 1 else pa.StructArray.from_arrays(found, task.output.names)
        return lists(rows, values, batch.num_rows)

    # Spark looks at the types themselves, not at their names.
    palio_broadcast.__annotations__ = {"columns": pa.Array, "return": pa.Array}
    # Called deterministic, it would be computed twice: once to see whether there is anything to explode.
    return arrow_udf(palio_broadcast, ArrayType(element)).asNondeterministic()


def _added(output: Output, per_event: bool) -> list[StructField]:
    """The columns that the answer adds."""
    from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField

    who: DataType = IntegerType() if output.numbers else StringType()
    if per_event:
        return [StructField(output.name, ArrayType(who))]
    fields = [StructField(output.name, who)]
    return fields if output.subscriber is None else [*fields, StructField(output.subscriber, StringType())]

"""Checks of subscriptions before a job: unusable ones, missing columns, and types that do not go together.

A column of strings that is compared with numbers or dates is reported: SQL conditions cast it, as Spark does, and those
in other languages never match it. So are SQL conditions that Spark itself refuses by the types of columns.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from palio.cli import terminal
from palio.errors import InvalidSubscription, PipelineError
from palio.events.names import list_first
from palio.filters.explanation import excludes_text
from palio.filters.tree import Leaf, leaves
from palio.spark.attributes import MAX_INSPECTED_SUBSCRIPTIONS, MAX_NAMED, is_case_sensitive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from palio.matching.subscription import Subscription
    from palio.spark.subscriptions import Wants


_MAX_SHOWN_REFUSALS: Final = 5
_MAX_SHOWN_COLUMNS: Final = 8


def gather(spark: SparkSession, source: str, language: str, *, strict: bool = False) -> Wants:
    """Read subscriptions and report the unusable ones; `strict` fails instead."""
    from palio.spark.subscriptions import Wants

    with _without_log():  # refused ones are shown below
        wants = Wants.read(spark, source, on_error="fail" if strict else "quarantine", language=language)
    console = terminal.messages()
    for each in wants.refused[:_MAX_SHOWN_REFUSALS]:
        terminal.fault(console, source, "left out", each.id, each.reason)
    if len(wants.refused) > _MAX_SHOWN_REFUSALS:
        console.print(f"… and {len(wants.refused) - _MAX_SHOWN_REFUSALS:,} more", style="quiet")
    if not len(wants.matcher):
        raise PipelineError(f"{source}: there is no subscription in it that can be used")
    return wants


def refused_as_dicts(wants: Wants) -> list[dict[str, Any]]:
    """The refused subscriptions, for JSON."""
    return [{"id": each.id, "reason": each.reason} for each in wants.refused]


def refused_facts(wants: Wants) -> Iterator[tuple[str, str]]:
    """The line of the summary about refused subscriptions."""
    if wants.refused:
        yield "left out", terminal.plural(len(wants.refused), "subscription")


def absent_facts(attributes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The line of the summary about attributes without a column."""
    if attributes:
        yield "no column", f"{list_first(attributes, _MAX_SHOWN_COLUMNS)}: NULL for every event"


@contextmanager
def _without_log() -> Iterator[None]:
    log = logging.getLogger("palio.spark")
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = False


class TypeMismatch(NamedTuple):
    """A column of strings that subscriptions compare with another kind of value."""

    column: str
    type: str
    compared_with: str
    subscriptions: tuple[str, ...]
    is_cast: bool

    def as_dict(self) -> dict[str, Any]:
        return self._asdict()


def find_type_mismatches(events: DataFrame, subscriptions: Iterable[Subscription]) -> tuple[TypeMismatch, ...]:
    """String columns that some of the first subscriptions compare with numbers, dates and the like."""
    exact = is_case_sensitive(events.sparkSession)
    texts = {
        field.name if exact else field.name.lower(): field
        for field in events.schema.fields
        if field.dataType.typeName() in ("string", "char", "varchar")
    }
    found: dict[tuple[str, str, bool], dict[str, None]] = {}
    for each in islice(subscriptions, MAX_INSPECTED_SUBSCRIPTIONS):
        try:
            conditions = list(leaves(each.filter.tree))
        except InvalidSubscription:  # reported with the refused ones
            continue
        for leaf in conditions:
            name = leaf.attribute if isinstance(leaf, Leaf) else ""
            field = texts.get(name if exact else name.lower())
            if field is not None and isinstance(leaf, Leaf) and (kinds := excludes_text(leaf.values)):
                found.setdefault((field.name, kinds, each.language == "sql"), {})[each.id] = None
    types = {field.name: field.dataType.simpleString() for field in texts.values()}
    return tuple(
        TypeMismatch(name, types[name], kinds, tuple(ids), is_cast)
        for (name, kinds, is_cast), ids in sorted(found.items())
    )


def find_type_conflicts(events: DataFrame, subscriptions: Iterable[Subscription]) -> dict[str, str]:
    """Those of the first conditions that Spark refuses by the types of columns, with the reason."""
    from palio.spark.implicit_casts import ImplicitCasts

    casts = ImplicitCasts.of(events)
    for each in islice(subscriptions, MAX_INSPECTED_SUBSCRIPTIONS):
        casts.apply_to(each)
    return casts.conflicts


def type_conflict_facts(conflicts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Lines of the summary about conditions that Spark refuses by the types of columns."""
    for condition, reason in islice(conflicts.items(), MAX_NAMED):
        yield "types", f"Spark refuses {condition} ({reason}); NULL here: write CAST(… AS …)"
    if len(conflicts) > MAX_NAMED:
        yield "types", f"{len(conflicts) - MAX_NAMED:,} more conditions are refused by Spark"


def type_mismatch_facts(mismatches: Sequence[TypeMismatch]) -> Iterator[tuple[str, str]]:
    """Lines of the summary about type mismatches."""
    for each in mismatches:
        named = list_first(each.subscriptions, MAX_NAMED)
        mismatch = f"{each.column} is {each.type}, and compared with {each.compared_with} by {named}"
        if each.is_cast:
            yield "cast", f"{mismatch}, as Spark does; NULL where a value is none of them"
        else:
            yield "never equal", f"{mismatch}; say what it is: --schema"

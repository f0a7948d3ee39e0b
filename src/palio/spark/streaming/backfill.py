"""`backfill`: what a new subscription would have been told before it was there, up to where the stream took it over.

A subscription is live from the first batch on that is matched with a version that has it. Events of earlier batches are
the past; Spark has written down where its sources stood when that batch began, and this is the point of handover. It is
found without stopping the stream or waiting for it. Say version 7 has the subscription, and batch 12 is the last that
Spark has planned: if batch 12 has its version, and it is 7 or later, the journal knows since which batch 7 is in use.
If it has an earlier one, the point is batch 13: what Spark plans after this moment asks for its version after this
moment too. If batch 12 has no version yet, it is given one here and now, as the stream itself would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from palio.errors import PipelineError, UnknownSubscription
from palio.spark.log import SubscriptionLog
from palio.spark.places import absolute
from palio.spark.sinks.sink import Batch, Sink, Taken
from palio.spark.streaming.journal import Journal, Mark, numbered
from palio.spark.streaming.stream import matches_of, observe
from palio.spark.wants import Wants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Handover:
    """The point up to which a backfill goes, and from which on the stream does the rest."""

    subscriptions: tuple[str, ...]
    version: int
    """The version of the log with which they are matched."""
    batch: int
    """The first batch of the stream that has them."""
    offsets: list[Any] | None
    """Where each source of the stream stood before that batch; None before the first."""
    checkpoint: str
    time: datetime

    @property
    def key(self) -> str:
        """The same for the same subscriptions, however often they are asked for."""
        return blake2b(msgspec.json.encode([self.version, *self.subscriptions]), digest_size=8).hexdigest()

    def files(self, source: int = 0) -> list[str]:
        """The files that a stream of files had read before, from Spark's own record of them."""
        offset = None if self.offsets is None else self.offsets[source]
        if offset is None:
            return []
        last = offset.get("logOffset") if isinstance(offset, dict) else None
        if not isinstance(last, int):
            raise PipelineError(f"source {source} of {self.checkpoint} does not read files; its offset is {offset!r}")
        journal, found = Journal(self.checkpoint), dict[str, None]()
        for name in journal.files(f"sources/{source}"):
            for line in journal.file(f"sources/{source}/{name}").splitlines()[1:]:
                entry = msgspec.json.decode(line)
                if entry["batchId"] <= last:
                    found[unquote(entry["path"])] = None  # as Spark wants it back
        return list(found)


@dataclass(frozen=True)
class Backfilled:
    """What came of a backfill."""

    handover: Handover
    events: int | None
    matches: int | None
    """None where it had been done before, or where the sink does not tell."""
    batch: Batch
    """As what the sink was given the matches."""


def backfill(
    archive: Callable[[Handover], DataFrame],
    subscriptions: SubscriptionLog | str | Path,
    sink: Sink,
    ids: Sequence[str],
    *,
    checkpoint: str | Path,
    columns: Sequence[str] | None = None,
    json: Sequence[str] = (),
) -> Backfilled:
    """Match the past with new subscriptions, by their ids, up to where a stream has taken them over.

    `archive` gives the events before the handover: `lambda point: spark.read.parquet(*point.files())` for a stream of
    files, `lambda point: spark.read.format("nats")….option("until", json.dumps(point.offsets[0])).load()` for NATS.
    The log, the sink, the checkpoint and the options are those of the stream, which may run meanwhile or not. An id
    must not have been live in the stream before. Asked again, also after being killed, it does the same again, with all
    that were asked for together, and the sink takes it once.
    """
    log = subscriptions if isinstance(subscriptions, SubscriptionLog) else SubscriptionLog(subscriptions)
    journal = Journal(absolute(checkpoint))
    point = hand_over(journal, log, ids)
    events = archive(point)
    if events.isStreaming:
        raise PipelineError("an archive is read once, by spark.read, not spark.readStream")
    now = log.at(point.version)
    wants = Wants.gather([now[id] for id in point.subscriptions], on_error="fail")
    observed, counts = observe(events, None)
    batch = Batch(f"{journal.stream}-backfill-{point.key}", 0, point.version, point.time)
    taken = sink(matches_of(observed, wants, columns, json), batch)
    if not isinstance(taken, Taken):
        return Backfilled(point, None, None, batch)
    return Backfilled(point, counts().get("events"), taken.matches, batch)


def hand_over(journal: Journal, log: SubscriptionLog, ids: Sequence[str]) -> Handover:
    """The point at which a stream takes over subscriptions; written down when it is first asked for."""
    if isinstance(ids, str) or not ids:
        raise PipelineError(f"name the subscriptions to backfill as a list of ids, not {ids!r}")
    journal.check_log(log)
    journal.check_plan()
    version = _version_of(log, ids)
    while True:
        known = journal.records("backfills", Handover)
        point = _handed_over(known, version, set(ids))
        if point is not None:
            return point
        made = _point(journal, log, version, tuple(sorted(set(ids))))
        _check_new(journal, log, made)
        # The number after those that were looked at: of two who ask at the same time, one finds it taken, and looks.
        journal.keep(numbered("backfills", len(known)), made)


def _handed_over(known: Sequence[Handover], version: int, ids: set[str]) -> Handover | None:
    """The point for subscriptions that were asked for before, in whatever company; None where none of them was."""
    for point in known:
        before = ids.intersection(point.subscriptions)
        if before and before != ids:
            raise PipelineError(
                f"subscription {min(before)!r} was backfilled before, and what it was told then would be told again; "
                f"ask for the others without it: {', '.join(sorted(ids - before))}"
            )
        if before and version > point.version:
            raise PipelineError(
                f"subscription {min(before)!r} was backfilled as it was in version {point.version:,}, and may have "
                "changed since; what it was told then would be told again: add the new condition under another id"
            )
        if before:
            return point
    return None


def _version_of(log: SubscriptionLog, ids: Sequence[str]) -> int:
    """The latest version that added or changed one of these."""
    latest = log.version
    now = log.at(latest)
    for id in ids:
        if id not in now:
            raise UnknownSubscription(id)
    for version in reversed(list(log.versions(log.oldest, latest))):
        if any(change.id in ids for change in version.changes):
            return version.number
    return log.oldest


def _point(journal: Journal, log: SubscriptionLog, version: int, ids: tuple[str, ...]) -> Handover:
    # In this order: a batch that is planned after this look asks for its version after it, too.
    planned = journal.planned()
    if planned is not None:
        journal.choose(planned, log)
    mark = next((mark for mark in journal.marks() if mark.version >= version), None)
    if mark is None:
        batch = 0 if planned is None else planned + 1
        mark = Mark(version, batch, journal.offsets_before(batch))
    return Handover(ids, version, mark.batch, mark.offsets, journal.checkpoint, datetime.now(UTC))


def _check_new(journal: Journal, log: SubscriptionLog, point: Handover) -> None:
    """Whether the stream has not told anybody about these before the handover, as far as the log goes back."""
    used = {mark.version for mark in journal.marks() if mark.batch < point.batch}
    state = log.at(log.oldest)
    if used and min(used) < state.version and any(id in state for id in point.subscriptions):
        raise PipelineError(
            f"{log.path} was compacted, and does not tell any more whether these subscriptions are new; backfill them "
            "sooner, or add them under other ids"
        )
    for version in (None, *log.versions(state.version, point.version - 1)):
        if version is not None:
            state.apply(version)
        for id in point.subscriptions:
            if state.version in used and id in state:
                raise PipelineError(
                    f"subscription {id!r} was live before batch {point.batch:,}, and what it was told then would be "
                    "told again; add the new condition under another id"
                )

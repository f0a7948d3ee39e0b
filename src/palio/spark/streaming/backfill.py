"""Backfill: matches of a new subscription with past events, up to its handover to the stream.

A subscription is live from the first batch that is matched with a version that has it. Events of earlier batches are
the past; Spark has recorded where its sources stood when that batch began, and this is the point of handover. It is
found without stopping the stream or waiting for it. Say version 7 has the subscription, and batch 12 is the last that
Spark has planned. If batch 12 has version 7 or a later one, the journal records since which batch 7 is in use. If it
has an earlier one, the point is batch 13: a batch that Spark plans after this moment also reads its version after this
moment. If batch 12 has no version yet, it is assigned one here, as the stream itself would.
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
from palio.spark.sinks.sink import Batch, Sink, Taken
from palio.spark.storage import absolute
from palio.spark.streaming.commit_journal import Journal, VersionStart, numbered
from palio.spark.streaming.stream import matches_of, observe
from palio.spark.subscription_log import SubscriptionLog
from palio.spark.subscriptions import Wants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Handover:
    """End of a backfill, from which the stream matches the subscriptions."""

    subscriptions: tuple[str, ...]
    version: int
    """Version of the log that they are matched with."""
    batch: int
    """First batch of the stream that has them."""
    offsets: list[Any] | None
    """Offset of each source before that batch; None before the first."""
    checkpoint: str
    time: datetime

    @property
    def key(self) -> str:
        """Identity of the backfill: equal for equal subscriptions and version."""
        return blake2b(msgspec.json.encode([self.version, *self.subscriptions]), digest_size=8).hexdigest()

    def files(self, source: int = 0) -> list[str]:
        """The files that a stream of files had read before the handover, from Spark's own record."""
        offset = None if self.offsets is None else self.offsets[source]
        if offset is None:
            return []
        last = offset.get("logOffset") if isinstance(offset, dict) else None
        if not isinstance(last, int):
            raise PipelineError(f"source {source} of {self.checkpoint} does not read files; its offset is {offset!r}")
        journal, found = Journal(self.checkpoint), dict[str, None]()
        for name in journal.list_files(f"sources/{source}"):
            for line in journal.read_file(f"sources/{source}/{name}").splitlines()[1:]:
                entry = msgspec.json.decode(line)
                if entry["batchId"] <= last:
                    found[unquote(entry["path"])] = None  # Spark records them escaped, and reads them unescaped
        return list(found)


@dataclass(frozen=True)
class BackfillResult:
    """Result of a backfill."""

    handover: Handover
    events: int | None
    matches: int | None
    """None where it was done before, or where the sink does not count."""
    batch: Batch
    """Batch under which the sink got the matches."""


def backfill(
    archive: Callable[[Handover], DataFrame],
    subscriptions: SubscriptionLog | str | Path,
    sink: Sink,
    ids: Sequence[str],
    *,
    checkpoint: str | Path,
    columns: Sequence[str] | None = None,
    json: Sequence[str] = (),
) -> BackfillResult:
    """Match past events with new subscriptions, by their ids, up to their handover to a stream.

    `archive` gives the events before the handover: `lambda point: spark.read.parquet(*point.files())` for a stream of
    files, `lambda point: spark.read.format("nats")….option("until", json.dumps(point.offsets[0])).load()` for NATS.
    The log, the sink, the checkpoint and the options are those of the stream, which may run meanwhile or not. An id
    must not have been live in the stream before. A repeated call, also after a crash, repeats the backfill with all
    subscriptions of the first call, and the sink takes it once.
    """
    log = subscriptions if isinstance(subscriptions, SubscriptionLog) else SubscriptionLog(subscriptions)
    journal = Journal(absolute(checkpoint))
    point = find_handover(journal, log, ids)
    events = archive(point)
    if events.isStreaming:
        raise PipelineError("an archive is read once, by spark.read, not spark.readStream")
    now = log.at(point.version)
    wants = Wants.gather([now[id] for id in point.subscriptions], on_error="fail")
    observed, counts = observe(events, None)
    # A batch of its own, named by the handover: the sink recognises a repeated backfill by its key.
    batch = Batch(f"{journal.stream}-backfill-{point.key}", 0, point.version, point.time)
    taken = sink(matches_of(observed, wants, columns, json), batch)
    if not isinstance(taken, Taken) or taken.is_replay:
        return BackfillResult(point, None, None, batch)
    return BackfillResult(point, counts().get("events"), taken.matches, batch)


def find_handover(journal: Journal, log: SubscriptionLog, ids: Sequence[str]) -> Handover:
    """The handover of subscriptions to a stream; recorded by the first call."""
    if isinstance(ids, str) or not ids:
        raise PipelineError(f"name the subscriptions to backfill as a list of ids, not {ids!r}")
    journal.check_log(log)
    journal.check_plan()
    version = _version_of(log, ids)
    while True:
        known = journal.records("backfills", Handover)
        point = _known_handover(known, version, set(ids))
        if point is not None:
            return point
        made = _new_handover(journal, log, version, tuple(sorted(set(ids))))
        _check_not_live(journal, log, made)
        # The number after the known ones: of two concurrent callers one finds it taken, and reads again.
        journal.create_record(numbered("backfills", len(known)), made)


def _known_handover(known: Sequence[Handover], version: int, ids: set[str]) -> Handover | None:
    """The recorded handover of these subscriptions, alone or with others; None where there is none."""
    for point in known:
        before = ids.intersection(point.subscriptions)
        if before and before != ids:
            raise PipelineError(
                f"subscription {min(before)!r} was backfilled before, and its matches would be repeated; "
                f"ask for the others without it: {', '.join(sorted(ids - before))}"
            )
        if before and version > point.version:
            raise PipelineError(
                f"subscription {min(before)!r} was backfilled as it was in version {point.version:,}, and may have "
                "changed since; its matches would be repeated: add the new condition under another id"
            )
        if before:
            return point
    return None


def _version_of(log: SubscriptionLog, ids: Sequence[str]) -> int:
    """The latest version that added or changed one of the subscriptions."""
    latest = log.version
    now = log.at(latest)
    for id in ids:
        if id not in now:
            raise UnknownSubscription(id)
    for version in reversed(list(log.versions(log.oldest, latest))):
        if any(change.id in ids for change in version.changes):
            return version.number
    return log.oldest


def _new_handover(journal: Journal, log: SubscriptionLog, version: int, ids: tuple[str, ...]) -> Handover:
    # In this order: a batch that is planned after this read gets its version after it, too.
    planned = journal.last_planned()
    if planned is not None:
        journal.assign_version(planned, log)
    start = next((start for start in journal.version_starts() if start.version >= version), None)
    if start is None:
        batch = 0 if planned is None else planned + 1
        start = VersionStart(version, batch, journal.offsets_before(batch))
    if planned is not None and start.batch == 0:
        raise PipelineError(
            f"subscription {ids[0]!r} is live since the first batch of the stream; there are no earlier events "
            "to match it with"
        )
    return Handover(ids, version, start.batch, start.offsets, journal.checkpoint, datetime.now(UTC))


def _check_not_live(journal: Journal, log: SubscriptionLog, point: Handover) -> None:
    """Refuse subscriptions that were live in the stream before the handover, as far as the log goes back."""
    used = {start.version for start in journal.version_starts() if start.batch < point.batch}
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
                    f"subscription {id!r} was live before batch {point.batch:,}, and its matches would be repeated; "
                    "add the new condition under another id"
                )

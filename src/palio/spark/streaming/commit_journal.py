"""Commit journal of a stream: the records that make a batch exactly-once, beside Spark's own checkpoint.

    palio/stream.json               the name of the stream
    palio/begun/000000000012.json   the version of the subscriptions that batch 12 is matched with; before any output
    palio/marks/000000000007.json   the first batch with version 7 (or a later one), and the offsets of the sources then
    palio/done/000000000012.json    the result of batch 12; after all output: the commit
    palio/backfills/000000000000.json   the first backfill: its subscriptions, and its end

Every file is created once and never changed (`StorageFolder.create`), so a batch has one version, whichever process
reads it and however often.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from palio.errors import PipelineError, VersionNotKept
from palio.spark.storage import StorageFolder, join_address
from palio.spark.subscription_log import SubscriptionLog

RETAINED_BATCHES: Final = 100  # as many as Spark retains of its own records
_OFFSETS_VERSION: Final = b"v1"
_NO_OFFSET: Final = b"-"
_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class BatchStart:
    """The version of the subscriptions that a batch is matched with."""

    batch: int
    version: int
    digest: str | None
    time: datetime
    plan: str | None = None
    """Digest of Spark's own record of the planned batch; None in old journals."""


@dataclass(frozen=True, slots=True)
class VersionStart:
    """The first batch that is matched with a version, and the sources' offsets before it (None before the first)."""

    version: int
    batch: int
    offsets: list[Any] | None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Result of a batch; None stands for figures that were not counted."""

    batch: int
    version: int
    subscriptions: int
    refused: int
    """Unusable subscriptions of this version."""
    begun: datetime
    finished: datetime
    events: int | None = None
    matches: int | None = None
    dead: int = 0
    """Events that became dead letters."""
    latest: int | None = None
    """The latest event time so far, in microseconds; not later than the clock."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Durations of `index`, `sink` (with the matching) and `dead letters`."""
    totals: dict[str, int] = field(default_factory=dict)
    """Sums of `events`, `matches` and `dead` over all batches so far, as far as they were counted."""

    @property
    def duration(self) -> float:
        return (self.finished - self.begun).total_seconds()

    @property
    def events_per_second(self) -> float | None:
        taken = sum(self.seconds.values())
        return None if self.events is None or not taken else self.events / taken

    @property
    def lag(self) -> float | None:
        """Seconds from the latest event to the end of the batch, where events have a time."""
        return None if self.latest is None else self.finished.timestamp() - self.latest / 1e6


class Journal:
    """The records of one stream, in its checkpoint."""

    def __init__(self, checkpoint: str | Path) -> None:
        self.checkpoint = str(checkpoint)
        self._root = StorageFolder(checkpoint)
        self._folder = StorageFolder(join_address(self._root.address, "palio"))
        self._stream: str | None = None

    @property
    def stream(self) -> str:
        """The name of the stream, created on first use."""
        if self._stream is None:
            made = {"stream": secrets.token_hex(4), "made": datetime.now(UTC).isoformat()}
            self._folder.create("stream.json", msgspec.json.encode(made))
            # Read back: of two processes one creates the file, and both take its name.
            self._stream = str(self._read("stream.json", dict[str, str])["stream"])
        return self._stream

    # Batches

    def begin(self, batch: int, log: SubscriptionLog) -> BatchStart:
        """Start a batch: its version of the subscriptions, which the log must still have."""
        begun = self.assign_version(batch, log)
        if log.head(begun.version).digest != begun.digest:
            raise self._wrong_log(begun.version)
        return begun

    def assign_version(self, batch: int, log: SubscriptionLog) -> BatchStart:
        """The version of a batch: the recorded one, or the latest, which is recorded now.

        The log is compared before anything is written: a wrong log must leave no trace in the journal.
        """
        begun = self.begun(batch)
        self._check_same_log(log, begun or (self.begun(batch - 1) if batch else None) or self._latest_version_start())
        if begun is None:
            head = log.head(log.version)
            made = BatchStart(batch, head.version, head.digest, datetime.now(UTC), self._plan_digest(batch))
            begun = self.create_record(numbered("begun", batch), made)
        # Versions change rarely, so their records are cleaned up rarely.
        if self._record_version_start(begun) and batch % RETAINED_BATCHES == 0:
            self._remove_version_starts(log.oldest)
        return begun

    def begun(self, batch: int) -> BatchStart | None:
        return self._find(numbered("begun", batch), BatchStart)

    def is_done(self, batch: int) -> bool:
        return self._folder.has(numbered("done", batch))

    def done(self, batch: int) -> Progress | None:
        return self._find(numbered("done", batch), Progress)

    def finish(self, progress: Progress) -> None:
        """Commit a batch with its result, and remove records of old batches."""
        self._folder.create(numbered("done", progress.batch), msgspec.json.encode(progress))
        for folder in ("begun", "done"):
            for number in self._numbers(folder):
                if number <= progress.batch - RETAINED_BATCHES:
                    self._folder.remove(numbered(folder, number))

    def progress(self, batches: int) -> list[Progress]:
        """The results of the last batches, the latest last."""
        found = [self.done(number) for number in self._numbers("done")[-batches:]]
        return [each for each in found if each is not None]

    # First batches of versions

    def version_starts(self) -> list[VersionStart]:
        """The first batches of all versions, by version."""
        return self.records("marks", VersionStart)

    def _latest_version_start(self) -> VersionStart | None:
        numbers = self._numbers("marks")
        return self._find(numbered("marks", numbers[-1]), VersionStart) if numbers else None

    def _record_version_start(self, begun: BatchStart) -> bool:
        """Record a batch as the first with its version; False where there is one already."""
        name = numbered("marks", begun.version)
        if self._folder.has(name):
            return False
        mark = VersionStart(begun.version, begun.batch, self.offsets_before(begun.batch), begun.digest)
        return self._folder.create(name, msgspec.json.encode(mark))

    def _remove_version_starts(self, oldest: int) -> None:
        """Remove the records of versions that the log has compacted away, except the last.

        The last one shows a backfill that there were such versions.
        """
        for number in [each for each in self._numbers("marks") if each < oldest][:-1]:
            self._folder.remove(numbered("marks", number))

    # Consistency of log and checkpoint

    def check_log(self, log: SubscriptionLog) -> None:
        """Refuse a log that is not that of this stream, as far as digests show."""
        self._check_same_log(log, self._latest_version_start())

    def _check_same_log(self, log: SubscriptionLog, known: BatchStart | VersionStart | None) -> None:
        if known is None:
            return
        if log.version < known.version:
            raise PipelineError(
                f"{self.checkpoint} has come to version {known.version:,} of its subscription log, and {log.path} ends "
                f"with version {log.version:,}; is this another log, or one that was brought back from a copy?"
            )
        try:
            digest = log.head(known.version).digest
        except VersionNotKept:
            digest = log.at(log.oldest).digest_of(known.version)
            if digest is None:  # compacted away long ago
                return
        if digest != known.digest:
            raise self._wrong_log(known.version)

    def _wrong_log(self, version: int) -> PipelineError:
        return PipelineError(
            f"this is not the subscription log that {self.checkpoint} was made with: version {version:,} is another; "
            "name that log, or begin with a new checkpoint"
        )

    def check_plan(self) -> None:
        """Refuse to continue where Spark's own record of its batches is gone.

        Spark would then number batches from 0, and numbers that are committed here would stand for other events.
        """
        latest = max(self._numbers("begun"), default=None)
        begun = None if latest is None else self.begun(latest)
        # Read after `begun`: a running stream plans a batch before it begins it.
        planned = self.last_planned()
        if begun is None or (planned is not None and planned >= begun.batch and self._is_same_plan(begun)):
            return
        raise PipelineError(
            f"{self.checkpoint} is damaged: batch {begun.batch:,} was begun, and Spark's own record of it (offsets, "
            "commits, sources) is gone or another; bring it back from a copy, or begin with a new checkpoint, which "
            "matches all events again"
        )

    def _is_same_plan(self, begun: BatchStart) -> bool:
        return begun.plan is None or begun.plan == self._plan_digest(begun.batch)

    def _plan_digest(self, batch: int) -> str | None:
        """The digest of Spark's record of a planned batch, which includes the time and never changes."""
        try:
            return blake2b(self._root.read(f"offsets/{batch}"), digest_size=16).hexdigest()
        except FileNotFoundError:
            return None

    def last_planned(self) -> int | None:
        """The last batch that Spark has planned; it may be running."""
        numbers = [int(name) for name in self._root.names("offsets") if name.isdecimal()]
        return max(numbers, default=None)

    def offsets_before(self, batch: int) -> list[Any] | None:
        """The offset of each source before a batch, from Spark's record of the batch before."""
        if batch == 0:
            return None
        name = f"offsets/{batch - 1}"
        try:
            return read_offsets(self._root.read(name), self._root.redacted_address(name))
        except FileNotFoundError:
            raise PipelineError(
                f"{self._root.redacted_address(name)} is not there; is {self.checkpoint} the checkpoint?"
            ) from None

    # Files

    def create_record(self, name: str, record: _Record) -> _Record:
        """Create a record, unless there is one of this name; returns the existing one."""
        self._folder.create(name, msgspec.json.encode(record))
        return self._read(name, type(record))

    def records(self, folder: str, kind: type[_Record]) -> list[_Record]:
        """All records of a folder, by number."""
        return [self._read(numbered(folder, number), kind) for number in self._numbers(folder)]

    def list_files(self, folder: str) -> list[str]:
        """The files in a folder of the checkpoint."""
        return self._root.names(folder)

    def read_file(self, name: str) -> bytes:
        return self._root.read(name)

    def _find(self, name: str, kind: type[_Record]) -> _Record | None:
        try:
            return self._read(name, kind)
        except FileNotFoundError:
            return None

    def _read(self, name: str, kind: type[_Record]) -> _Record:
        try:
            return msgspec.json.decode(self._folder.read(name), type=kind)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise PipelineError(
                f"{self._folder.redacted_address(name)} is damaged ({error}); bring it back from a copy"
            ) from None

    def _numbers(self, folder: str) -> list[int]:
        stems = (name.removesuffix(".json") for name in self._folder.names(folder))
        return [int(stem) for stem in stems if stem.isdecimal()]


def progress(checkpoint: str | Path, batches: int = 1) -> list[Progress]:
    """The results of the last batches of a stream, by its checkpoint; from any process, while it runs or after."""
    return Journal(checkpoint).progress(batches)


def numbered(folder: str, number: int) -> str:
    return f"{folder}/{number:012}.json"


def read_offsets(data: bytes, address: str) -> list[Any]:
    """Decode Spark's offsets file: the offsets of the sources; None for a source without data yet."""
    lines = data.rstrip(b"\n").split(b"\n")
    if lines[0] != _OFFSETS_VERSION or len(lines) < 3:
        raise PipelineError(f"{address} is written in a form of Spark's that is not known here: {lines[0][:20]!r}")
    return [None if line == _NO_OFFSET else _decode_offset(line) for line in lines[2:]]


def _decode_offset(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return line.decode()

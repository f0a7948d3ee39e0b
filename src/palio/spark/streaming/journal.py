"""What a stream writes down beside Spark's own checkpoint, so that a batch that is run again is the same batch.

    palio/stream.json               the name of the stream
    palio/begun/000000000012.json   with which version of the subscriptions batch 12 is matched; before any output
    palio/marks/000000000007.json   with which batch version 7 (or one after it) came into use, and where events stood
    palio/done/000000000012.json    what came of batch 12; after all output
    palio/backfills/000000000000.json   the first backfill: which subscriptions, up to where

Every file is made once and never changed (`Place.create`), so a batch has one version whoever asks, however often.
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
from palio.spark.log import SubscriptionLog
from palio.spark.places import Place, inside
from palio.spark.streaming.offsets import read_offsets

KEPT_BATCHES: Final = 100  # as many as Spark keeps of its own
_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class Begun:
    """The version of the subscriptions that a batch is matched with."""

    batch: int
    version: int
    digest: str | None
    time: datetime
    plan: str | None = None
    """The digest of what Spark wrote down when it planned the batch; None in journals of the past."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The first batch that is matched with a version, and the offsets of the sources before it (none before all)."""

    version: int
    batch: int
    offsets: list[Any] | None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """What came of a batch. What nobody counted is None."""

    batch: int
    version: int
    subscriptions: int
    refused: int
    """Subscriptions of this version that cannot be used."""
    begun: datetime
    finished: datetime
    events: int | None = None
    matches: int | None = None
    dead: int = 0
    """Events that went to the dead letters."""
    latest: int | None = None
    """The latest time of an event so far, in microseconds; not later than the clock."""
    seconds: dict[str, float] = field(default_factory=dict)
    """What took how long: the `index`, the matching and the `sink`, `dead letters`."""
    totals: dict[str, int] = field(default_factory=dict)
    """`events`, `matches` and `dead` of all batches so far, as far as they were counted."""

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
        self._root = Place(checkpoint)
        self._place = Place(inside(self._root.address, "palio"))
        self._stream: str | None = None

    @property
    def stream(self) -> str:
        """The name of the stream; made when it is first asked for."""
        if self._stream is None:
            made = {"stream": secrets.token_hex(4), "made": datetime.now(UTC).isoformat()}
            self._place.create("stream.json", msgspec.json.encode(made))
            self._stream = str(self._read("stream.json", dict[str, str])["stream"])
        return self._stream

    # Batches

    def begin(self, batch: int, log: SubscriptionLog) -> Begun:
        """The version that a batch is to be matched with, which the log must still have."""
        begun = self.choose(batch, log)
        if log.head(begun.version).digest != begun.digest:
            raise self._another_log(begun.version)
        return begun

    def choose(self, batch: int, log: SubscriptionLog) -> Begun:
        """The version of a batch: the one it has, or the latest, which it has from now on.

        The log is compared before anything is written: a stranger's must leave no trace in the journal of another.
        """
        begun = self.begun(batch)
        self._compare(log, begun or (self.begun(batch - 1) if batch else None) or self._latest_mark())
        if begun is None:
            head = log.head(log.version)
            made = Begun(batch, head.version, head.digest, datetime.now(UTC), self._plan(batch))
            begun = self.keep(numbered("begun", batch), made)
        if self._mark(begun) and batch % KEPT_BATCHES == 0:
            self._forget_marks(log.oldest)
        return begun

    def begun(self, batch: int) -> Begun | None:
        return self._find(numbered("begun", batch), Begun)

    def is_done(self, batch: int) -> bool:
        return self._place.has(numbered("done", batch))

    def done(self, batch: int) -> Progress | None:
        return self._find(numbered("done", batch), Progress)

    def finish(self, progress: Progress) -> None:
        """Write down what came of a batch, and forget batches of long ago."""
        self._place.create(numbered("done", progress.batch), msgspec.json.encode(progress))
        for folder in ("begun", "done"):
            for number in self._numbers(folder):
                if number <= progress.batch - KEPT_BATCHES:
                    self._place.remove(numbered(folder, number))

    def progress(self, batches: int) -> list[Progress]:
        """What came of the last batches, the latest last."""
        found = [self.done(number) for number in self._numbers("done")[-batches:]]
        return [each for each in found if each is not None]

    # Where versions came into use

    def marks(self) -> list[Mark]:
        """All of them, by version."""
        return self.records("marks", Mark)

    def _latest_mark(self) -> Mark | None:
        numbers = self._numbers("marks")
        return self._find(numbered("marks", numbers[-1]), Mark) if numbers else None

    def _mark(self, begun: Begun) -> bool:
        """Note the first batch with a version; whether this is it."""
        name = numbered("marks", begun.version)
        if self._place.has(name):
            return False
        mark = Mark(begun.version, begun.batch, self.offsets_before(begun.batch), begun.digest)
        return self._place.create(name, msgspec.json.encode(mark))

    def _forget_marks(self, oldest: int) -> None:
        """Forget where versions came into use that the log has forgotten, but for the last of them.

        That one tells a backfill that there were any.
        """
        for number in [each for each in self._numbers("marks") if each < oldest][:-1]:
            self._place.remove(numbered("marks", number))

    # Whether what is given belongs to this checkpoint

    def check_log(self, log: SubscriptionLog) -> None:
        """Refuse a log that is not the one of this stream, as far as the journal and the log can tell."""
        self._compare(log, self._latest_mark())

    def _compare(self, log: SubscriptionLog, known: Begun | Mark | None) -> None:
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
            raise self._another_log(known.version)

    def _another_log(self, version: int) -> PipelineError:
        return PipelineError(
            f"this is not the subscription log that {self.checkpoint} was made with: version {version:,} is another; "
            "name that log, or begin with a new checkpoint"
        )

    def check_plan(self) -> None:
        """Refuse to go on where Spark's own record of its batches is gone.

        Without it Spark begins to count anew, and numbers that are known here as done would stand for other events.
        """
        latest = max(self._numbers("begun"), default=None)
        begun = None if latest is None else self.begun(latest)
        planned = self.planned()  # after that: a stream may go on meanwhile, and plans a batch before it is begun
        if begun is None or (planned is not None and planned >= begun.batch and self._is_plan_of(begun)):
            return
        raise PipelineError(
            f"{self.checkpoint} is damaged: batch {begun.batch:,} was begun, and Spark's own record of it (offsets, "
            "commits, sources) is gone or another; bring it back from a copy, or begin with a new checkpoint, which "
            "matches all events again"
        )

    def _is_plan_of(self, begun: Begun) -> bool:
        return begun.plan is None or begun.plan == self._plan(begun.batch)

    def _plan(self, batch: int) -> str | None:
        """The digest of what Spark wrote down when it planned a batch, the moment included: once, never changed."""
        try:
            return blake2b(self._root.read(f"offsets/{batch}"), digest_size=16).hexdigest()
        except FileNotFoundError:
            return None

    def planned(self) -> int | None:
        """The last batch that Spark has planned, which may be under way."""
        numbers = [int(name) for name in self._root.names("offsets") if name.isdecimal()]
        return max(numbers, default=None)

    def offsets_before(self, batch: int) -> list[Any] | None:
        """Where each source stood before a batch, as Spark wrote it down when it planned the one before."""
        if batch == 0:
            return None
        name = f"offsets/{batch - 1}"
        try:
            return read_offsets(self._root.read(name), self._root.shown(name))
        except FileNotFoundError:
            raise PipelineError(
                f"{self._root.shown(name)} is not there; is {self.checkpoint} the checkpoint?"
            ) from None

    # Files

    def keep(self, name: str, record: _Record) -> _Record:
        """Write a record down, unless there is one of this name; the one that is there."""
        self._place.create(name, msgspec.json.encode(record))
        return self._read(name, type(record))

    def records(self, folder: str, kind: type[_Record]) -> list[_Record]:
        """All records of a folder, by number."""
        return [self._read(numbered(folder, number), kind) for number in self._numbers(folder)]

    def files(self, folder: str) -> list[str]:
        """The files in a folder of the checkpoint."""
        return self._root.names(folder)

    def file(self, name: str) -> bytes:
        return self._root.read(name)

    def _find(self, name: str, kind: type[_Record]) -> _Record | None:
        try:
            return self._read(name, kind)
        except FileNotFoundError:
            return None

    def _read(self, name: str, kind: type[_Record]) -> _Record:
        try:
            return msgspec.json.decode(self._place.read(name), type=kind)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise PipelineError(f"{self._place.shown(name)} is damaged ({error}); bring it back from a copy") from None

    def _numbers(self, folder: str) -> list[int]:
        stems = (name.removesuffix(".json") for name in self._place.names(folder))
        return [int(stem) for stem in stems if stem.isdecimal()]


def progress(checkpoint: str | Path, batches: int = 1) -> list[Progress]:
    """What came of the last batches of a stream, by its checkpoint; from any process, while it runs or after."""
    return Journal(checkpoint).progress(batches)


def numbered(folder: str, number: int) -> str:
    """The name of a record."""
    return f"{folder}/{number:012}.json"

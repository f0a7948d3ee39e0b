"""A stream seen from the terminal: what came of each batch, how far behind it is, and how it comes to its end."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Final

from palio.cli import terminal
from palio.cli.spark.counting import Counts
from palio.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.progress import Progress as Shown
    from rich.progress import TaskID

    from palio.spark.sinks import Sink
    from palio.spark.streaming.journal import Journal, Progress

_LOOKED_AT_EVERY: Final = 0.2
_SECONDS_TO_FINISH: Final = 30.0
# What a batch raised is somewhere in a page that Spark makes of it.
_OUR_ERROR: Final = re.compile(r"palio\.errors\.\w+: (.+)")


@dataclass
class Followed:
    """What a stream did while it was followed."""

    batches: list[Progress] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    starting: float = 0.0
    elapsed: float = 0.0
    interrupted: bool = False

    @property
    def events(self) -> int:
        return sum(each.events or 0 for each in self.batches)

    @property
    def matches(self) -> int:
        return sum(each.matches or 0 for each in self.batches)

    @property
    def dead(self) -> int:
        return sum(each.dead for each in self.batches)

    @property
    def lag(self) -> float | None:
        return self.batches[-1].lag if self.batches else None

    @property
    def seconds(self) -> dict[str, float]:
        """What took how long in all batches; the rest of the time is Spark's own, or waiting for events."""
        found: dict[str, float] = {}
        for batch in self.batches:
            for name, taken in batch.seconds.items():
                found[name] = found.get(name, 0.0) + taken
        return found


@contextmanager
def until_interrupted() -> Iterator[threading.Event]:
    """Ctrl-C sets the event, once; a second one does as ever."""
    asked = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set() and callable(before):
            before(number, frame)
        asked.set()

    signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def follow(
    start: Callable[[], StreamingQuery],
    journal: Journal,
    sink: Sink,
    followed: Followed,
    tell: Callable[[Progress], None],
    *,
    bar_is_seen: bool,
) -> None:
    """Start a stream and follow it to its end: the end of what is there, an error, or Ctrl-C."""
    done = journal.progress(1)
    following = _Following(journal, sink, followed, tell, done[0].batch + 1 if done else 0)
    console = terminal.messages()
    with until_interrupted() as asked, terminal.progress(console, "Streaming", None, bar_is_seen) as shown:
        task = shown.add_task("", done="waiting for events")
        began = time.perf_counter()
        query = start()
        try:
            while query.isActive and not asked.wait(_LOOKED_AT_EVERY):
                following.look()
                _show(shown, task, followed)
            followed.interrupted = asked.is_set() and query.isActive
            if followed.interrupted:
                shown.update(task, done="finishing this batch; Ctrl-C again leaves it to the next run")
                following.let_finish(query)
        finally:
            query.stop()
            followed.elapsed = time.perf_counter() - began
        following.look()
        error = query.exception()
        if error is not None and not followed.interrupted:
            raise PipelineError(_reason(str(error)))


@dataclass
class _Following:
    journal: Journal
    sink: Sink
    followed: Followed
    tell: Callable[[Progress], None]
    next: int

    def look(self) -> bool:
        """Take note of the batches that were finished since; whether there was one."""
        from palio.spark.sinks import Batch

        first = self.next
        while (done := self.journal.done(self.next)) is not None:
            self.followed.batches.append(done)
            self.followed.counts.take(self.sink, Batch(self.journal.stream, done.batch, done.version, done.begun))
            self.tell(done)
            self.next += 1
        return self.next > first

    def let_finish(self, query: StreamingQuery) -> None:
        """Wait for the end of the batch under way, if there is one; killed, it would be run again."""
        end = time.monotonic() + _SECONDS_TO_FINISH
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < end:
            if self.look():
                return
            time.sleep(_LOOKED_AT_EVERY)


def _show(shown: Shown, task: TaskID, followed: Followed) -> None:
    if not followed.batches:
        return
    last = followed.batches[-1]
    speed = last.events_per_second
    said = [
        f"batch {last.batch:,}",
        f"version {last.version:,}",
        terminal.plural(followed.events, "event"),
        "" if speed is None else f"{terminal.rate(speed, 1)}/s",
        terminal.plural(followed.matches, "match", "matches"),
        "" if not followed.dead else terminal.plural(followed.dead, "dead letter"),
        "" if last.lag is None else f"lag {terminal.duration(last.lag)}",
    ]
    shown.update(task, done="  ".join(each for each in said if each))


def _reason(text: str) -> str:
    """What ended a stream, in one line."""
    ours = _OUR_ERROR.findall(text)
    return ours[-1] if ours else "the stream ended: " + text.strip().splitlines()[0]

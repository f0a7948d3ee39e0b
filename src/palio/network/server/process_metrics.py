"""Measurements of the broker process: memory, processor, open files, loop lag, confirm latency, disk, brokers away.

Everything here is bounded and cheap: a histogram has a fixed number of buckets, the lag of the event loop is a timer
that comes late, and the rest is asked of the system when somebody asks for metrics.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from bisect import bisect_left
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from palio.network.data_directory import DATABASE_FILE
from palio.network.store.interface import Log

CONFIRM_BUCKETS_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LAG_INTERVAL_SECONDS: Final = 0.25
_LAG_WINDOW: Final = 40  # measurements, ten seconds


class LatencyHistogram:
    """Counts of durations by upper bounds, and their sum."""

    __slots__ = ("_counts", "sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(CONFIRM_BUCKETS_SECONDS) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(CONFIRM_BUCKETS_SECONDS, seconds)] += 1
        self.sum += seconds

    def describe(self) -> dict[str, Any]:
        """The counts up to each bound, cumulative as Prometheus has them, their number and their sum."""
        buckets, total = {}, 0
        for bound, count in zip((*map(str, CONFIRM_BUCKETS_SECONDS), "+Inf"), self._counts, strict=True):
            total += count
            buckets[bound] = total
        return {"buckets": buckets, "sum": self.sum}


class LatencyProbe:
    """Durations of one session's confirmations: of one publication at a time, which costs next to nothing."""

    __slots__ = ("_began", "_histogram", "_number")

    def __init__(self, histogram: LatencyHistogram) -> None:
        self._histogram = histogram
        self._number = 0  # 0 while none is measured
        self._began = 0.0

    def begin(self, number: int) -> None:
        if not self._number:
            self._number, self._began = number, time.monotonic()

    def end(self, number: int) -> None:
        if number == self._number:
            self._number = 0
            self._histogram.observe(time.monotonic() - self._began)


class LoopLag:
    """How late timers come: the longest lag of the last ten seconds."""

    def __init__(self) -> None:
        self._lags = [0.0]
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._measure(), name="palio loop lag")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    @property
    def longest(self) -> float:
        return max(self._lags)

    async def _measure(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(_LAG_INTERVAL_SECONDS)
            self._lags.append(max(0.0, time.monotonic() - began - _LAG_INTERVAL_SECONDS))
            del self._lags[:-_LAG_WINDOW]


class AbsenceClock:
    """Since when brokers are away, of those that confirmed events wait for."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}

    def update(self, away: Collection[int]) -> dict[int, float]:
        """Seconds for which each broker has been away; one that came back is forgotten."""
        now = time.monotonic()
        self._since = {broker: self._since.get(broker, now) for broker in away}
        return {broker: now - since for broker, since in self._since.items()}


def describe_process(lag: float) -> dict[str, Any]:
    """Memory, processor time, open files and loop lag."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "resident_bytes": _resident_bytes(used),
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "open_files": _count_open_files(),
        "max_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "loop_lag_seconds": lag,
    }


def _resident_bytes(used: resource.struct_rusage) -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:  # without /proc the largest size so far: in bytes on macOS, in kilobytes elsewhere
        return used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return pages * os.sysconf("SC_PAGE_SIZE")


def _count_open_files() -> int:
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(folder))
        except OSError:
            continue
    return 0


def describe_disk(data: Path | None, limit: int | None) -> dict[str, Any]:
    """Bytes of the database with its WAL, their limit, and the free ones of the disk; zeros without a disk."""
    if data is None:
        return {"used": 0, "limit": 0, "free": 0}
    used = sum(_size_of(data / f"{DATABASE_FILE}{suffix}") for suffix in ("", "-wal", "-shm"))
    room = os.statvfs(data)
    return {"used": used, "limit": limit or 0, "free": room.f_bavail * room.f_frsize}


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def describe_log(log: Log, now: float) -> dict[str, Any]:
    """Events and bytes of the event log, and the age of the oldest event."""
    size = log.size()
    oldest = log.read(log.bounds()[0], 1) if size.events else []
    return {"events": size.events, "bytes": size.bytes, "age": max(0.0, now - oldest[0].time) if oldest else 0.0}

"""One index for all workers of a job: a file that each maps into memory, found by its content's digest.

The driver saves the matcher once. Where workers share the driver's disk they map that very file, and the pages of a
million subscriptions exist once on the machine; elsewhere Spark carries the file to every executor, which maps its
copy. A worker keeps what it opened from one task, job and micro-batch to the next.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import threading
import time
from collections import Counter, OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

from palio.errors import IndexFileError
from palio.matching.matcher import Matcher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_OPEN: Final = 4  # indexes that a worker keeps open
_CHUNK: Final = 1 << 20
_PREFIX: Final = "palio-spark-"
_LOCK: Final = "lock"
_SECONDS_TO_LOCK: Final = 60.0  # for a process that has made its folder, and has not come to lock it


@dataclass(frozen=True, slots=True)
class SharedIndex:
    """A saved index, as a task finds it: by the path on the driver's disk, or by the name Spark carries it under."""

    path: str
    version: str

    @classmethod
    def publish(cls, spark: SparkSession, matcher: Matcher) -> SharedIndex:
        """Save a matcher where the workers of a session can open it."""
        draft = _folder() / f"draft-{threading.get_ident()}.palio"
        matcher.save(draft)
        version = _digest(draft)
        place = _folder() / f"palio-{version}.palio"
        with _lock:
            if place.exists():
                draft.unlink()
            else:
                draft.rename(place)
            if (session := _session(spark)) not in _carried.setdefault(version, set()):
                _carry(spark, place)
                _carried[version].add(session)
                if not is_connect(spark):
                    _forget_others(session)
            _uses[version] += 1
        return cls(str(place), version)

    def release(self, spark: SparkSession) -> None:
        """Remove the file once all who published it have released it and no task needs it any more.

        Spark hands carried files to every executor that ever joins, so those stay until the session ends.
        """
        with _lock:
            _uses[self.version] -= 1
            if not _uses[self.version] and _is_local(spark):
                Path(self.path).unlink(missing_ok=True)

    @property
    def size(self) -> int:
        return Path(self.path).stat().st_size

    def open(self) -> Matcher:
        """The matcher, on a worker: opened once in its process."""
        with _lock:
            found = _opened.get(self.version)
            if found is None:
                found = _opened[self.version] = Matcher.open(self._place())
                if len(_opened) > _MOST_OPEN:
                    _opened.popitem(last=False)
            else:
                _opened.move_to_end(self.version)
            return found

    def _place(self) -> str:
        if Path(self.path).exists():
            return self.path
        from pyspark import SparkFiles

        carried = SparkFiles.get(Path(self.path).name)
        if not Path(carried).exists():
            raise IndexFileError(self.path, "has not come to this worker; was the session stopped that made it?")
        return carried


_uses: Counter[str] = Counter()
_carried: dict[str, set[str]] = {}  # the sessions that have the file of a version
_of_connect: set[str] = set()  # sessions that no application of this process ends
_opened: OrderedDict[str, Matcher] = OrderedDict()
_lock = threading.Lock()


def _forget_others(application: str) -> None:
    """Remove what only applications had that have ended: a process has one at a time, beside sessions of Connect."""
    for version, sessions in list(_carried.items()):
        if sessions.isdisjoint({application, *_of_connect}):
            (_folder() / f"palio-{version}.palio").unlink(missing_ok=True)
            del _carried[version], _uses[version]


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)  # until this process ends, however it does
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    remove_left_behind(folder.parent)
    return folder


def remove_left_behind(parent: Path) -> None:
    """Remove the folders of processes that were killed: those whose lock nobody holds."""
    for lock in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError):  # somebody else's, or removed meanwhile
            descriptor = os.open(lock, os.O_RDWR)
            try:
                is_new = time.time() - os.fstat(descriptor).st_mtime < _SECONDS_TO_LOCK
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not is_new:
                    shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(descriptor)


def _digest(path: Path) -> str:
    digest = blake2b(digest_size=12)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _carry(spark: SparkSession, place: Path) -> None:
    """Have Spark bring the file to every executor, where those may be on other machines."""
    if is_connect(spark):
        spark.addArtifacts(str(place), file=True)
        _of_connect.add(_session(spark))
        return
    if not _is_local(spark):
        spark.sparkContext.addFile(str(place))


def _session(spark: SparkSession) -> str:
    """For whom files are carried: through Connect a session, else all sessions of an application."""
    if is_connect(spark):
        return str(spark.session_id)  # type: ignore[attr-defined]
    return str(spark.sparkContext.applicationId)


def _is_local(spark: SparkSession) -> bool:
    """Whether all tasks run in the driver's own process."""
    if is_connect(spark):
        return False
    master = spark.sparkContext.master or ""
    return master == "local" or master.startswith("local[")


def is_connect(spark: SparkSession) -> bool:
    """Whether a session talks to its cluster through Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")

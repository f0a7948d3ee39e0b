"""Index file shared by all workers of a job, identified by the digest of its content.

The driver saves the matcher once. Workers on the driver's machine map that file, so the pages of a million
subscriptions exist once in memory; elsewhere Spark distributes the file to every executor, which maps its copy. A
worker keeps open indexes across tasks, jobs and micro-batches.

The driver's compiled kernels travel with it: an executor with the same processor and versions need not compile them.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import threading
import time
import zipfile
from collections import Counter, OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from palio.errors import IndexFileError
from palio.matching.columnar.kernel_readiness import KernelReadiness, readiness
from palio.matching.matcher import Matcher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAX_OPEN_INDEXES: Final = 4  # in a worker
_CHUNK_BYTES: Final = 1 << 20
_PREFIX: Final = "palio-spark-"
_LOCK: Final = "lock"
_LOCK_GRACE_SECONDS: Final = 60.0  # for a process between making its folder and locking it

_uses: Counter[str] = Counter()
_distributed: dict[str, set[str]] = {}  # scopes that have the file of a version
_scopes_with_kernels: set[tuple[str, str]] = set()  # with the names of archives
_connect_sessions: set[str] = set()  # these outlive the applications of this process
_opened: OrderedDict[str, Matcher] = OrderedDict()
_saved: WeakKeyDictionary[Matcher, tuple[int, SharedIndex]] = WeakKeyDictionary()  # at which revision, and where
# Guards all of these: the streams of a process publish and release from threads of their own.
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class SharedIndex:
    """A saved index: at a path on the driver's disk, or distributed by Spark under the file's name."""

    path: str
    version: str

    @classmethod
    def publish(cls, spark: SparkSession, matcher: Matcher) -> SharedIndex:
        """Save a matcher where the workers of a session can open it, unless it is there and has not changed since."""
        revision = matcher.revision
        with _lock:
            saved_at, saved = _saved.get(matcher, (None, None))
            if saved is not None and saved_at == revision and Path(saved.path).exists():
                saved._use_in(spark)
                return saved
        # Named by thread: several streams of a process may publish at the same time.
        draft = _folder() / f"draft-{threading.get_ident()}.palio"
        matcher.save(draft)
        version = _digest(draft)
        path = _folder() / f"palio-{version}.palio"
        index = cls(str(path), version)
        with _lock:
            if path.exists():
                draft.unlink()
            else:
                draft.rename(path)
            index._use_in(spark)
            _saved[matcher] = (revision, index)
        return index

    def _use_in(self, spark: SparkSession) -> None:
        """Count one more use of the file, and distribute it if the session has not got it; under the lock."""
        if (scope := _scope_id(spark)) not in _distributed.setdefault(self.version, set()):
            _distribute(spark, Path(self.path))
            _distributed[self.version].add(scope)
            if not is_connect(spark):
                _drop_ended_applications(scope)
        _uses[self.version] += 1

    def release(self, spark: SparkSession) -> None:
        """Drop one use of the file, and remove it after the last; no task may need it any more.

        Spark sends distributed files to every executor that joins later, so those stay until the session ends.
        """
        with _lock:
            _uses[self.version] -= 1
            # A worker that has mapped the file keeps its pages after the removal.
            if not _uses[self.version] and is_local(spark):
                Path(self.path).unlink(missing_ok=True)

    @property
    def size(self) -> int:
        return Path(self.path).stat().st_size

    def open(self) -> Matcher:
        """The matcher; a worker process opens it once."""
        with _lock:
            found = _opened.get(self.version)
            if found is None:
                _install_kernels()
                # Opened under the lock: two threads of a worker must not map the file twice.
                found = _opened[self.version] = Matcher.open(self._local_path())
                if len(_opened) > _MAX_OPEN_INDEXES:
                    _opened.popitem(last=False)
            else:
                _opened.move_to_end(self.version)
            return found

    def _local_path(self) -> str:
        if Path(self.path).exists():
            return self.path
        from pyspark import SparkFiles

        distributed = SparkFiles.get(Path(self.path).name)
        if not Path(distributed).exists():
            raise IndexFileError(self.path, "has not come to this worker; was the session stopped that made it?")
        return distributed


def _drop_ended_applications(application: str) -> None:
    """Remove the files of ended applications; a process has one at a time, beside Connect sessions."""
    for version, sessions in list(_distributed.items()):
        if sessions.isdisjoint({application, *_connect_sessions}):
            (_folder() / f"palio-{version}.palio").unlink(missing_ok=True)
            del _distributed[version], _uses[version]


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)  # held until this process ends, even when it is killed
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    remove_orphaned_folders(folder.parent)
    return folder


def remove_orphaned_folders(parent: Path) -> None:
    """Remove the folders of killed processes: those whose lock is free."""
    for lock in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError):  # of another user, or removed meanwhile
            descriptor = os.open(lock, os.O_RDWR)
            try:
                # Between `mkdtemp` and `flock` of its owner a new folder is unlocked, too.
                is_new = time.time() - os.fstat(descriptor).st_mtime < _LOCK_GRACE_SECONDS
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not is_new:
                    shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(descriptor)


def _digest(path: Path) -> str:
    digest = blake2b(digest_size=12)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _distribute(spark: SparkSession, path: Path) -> None:
    """Send the file and the compiled kernels to all executors, unless they are on this machine."""
    if is_connect(spark):
        _connect_sessions.add(_scope_id(spark))
    elif is_local(spark):
        return
    send = partial(spark.addArtifacts, file=True) if is_connect(spark) else spark.sparkContext.addFile
    send(str(path))
    for kernels in readiness.values():
        archive = _kernel_archive(kernels)
        if archive is not None and (sent := (_scope_id(spark), archive.name)) not in _scopes_with_kernels:
            send(str(archive))
            _scopes_with_kernels.add(sent)


def _kernel_archive(kernels: KernelReadiness) -> Path | None:
    path = _folder() / kernels.archive_name
    return path if path.exists() else kernels.write_archive(_folder())


def _install_kernels() -> None:
    """Take over the driver's kernels where they serve this worker and it has none."""
    from pyspark import SparkFiles, TaskContext

    if TaskContext.get() is None:
        return  # the driver itself, which also may have no Spark context to ask for files
    for kernels in readiness.values():
        with suppress(OSError, AttributeError, zipfile.BadZipFile):  # no files of Spark here, or a disk that takes none
            archive = Path(SparkFiles.get(kernels.archive_name))
            if archive.exists():
                kernels.install_archive(archive)


def _scope_id(spark: SparkSession) -> str:
    """The scope of a distributed file: a session through Connect, else an application with all its sessions."""
    if is_connect(spark):
        return str(spark.session_id)  # type: ignore[attr-defined]
    return str(spark.sparkContext.applicationId)


def is_local(spark: SparkSession) -> bool:
    """Whether all tasks run in the driver's own process."""
    if is_connect(spark):
        return False
    master = spark.sparkContext.master or ""
    return master == "local" or master.startswith("local[")


def is_connect(spark: SparkSession) -> bool:
    """Whether a session talks to its cluster through Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")

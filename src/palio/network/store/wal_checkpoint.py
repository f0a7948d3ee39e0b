"""WAL checkpoints: when and by which thread committed pages move from the write-ahead log into the database.

SQLite lets one connection copy pages from the WAL into the database while another appends to the WAL. It restarts the
WAL only when nothing of it is left to copy, which never happens while the other appends without pause. So a thread of
its own copies most of it, and when little is left the writer copies the rest itself, waiting for no more than that.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Final

from palio.errors import StoreError, StoreFull
from palio.network.store.schema import open_for_checkpoints, store_error

_CHECKPOINT_STEP_BYTES: Final = 4 * 2**20  # of WAL that are copied together while others write
_MAX_INLINE_CHECKPOINT_BYTES: Final = 2**20  # of WAL that the writer copies itself, so that the WAL restarts
_WAL_RESTART_BYTES: Final = 8 * 2**20  # of WAL after which it should restart
MAX_WAL_BYTES: Final = 64 * 2**20  # of WAL at which the writer waits for the checkpoint under way


class WalCheckpoints:
    """The checkpoint policy of one writer, whose connection restarts the WAL. Called from the writer thread only."""

    def __init__(self, path: Path, writing: sqlite3.Connection) -> None:
        self._path = path
        self._thread = CheckpointThread(path)
        self._writing = writing
        self._wal_bytes = 0  # since the WAL restarted; estimates, as all counts here
        self._uncopied_bytes = 0
        self._copying_bytes = 0  # those of the checkpoint under way

    def run(self, written_bytes: int, is_idle: bool) -> None:
        """Count what was written since the last call, and begin a checkpoint where one is due.

        Raises the error of the last checkpoint; everything is still in the WAL then.
        """
        self._wal_bytes += written_bytes
        self._uncopied_bytes += written_bytes
        if self._thread.is_busy:
            if self._wal_bytes < MAX_WAL_BYTES:
                return
            self._thread.wait()
        copied, self._copying_bytes = self._copying_bytes, 0
        self._thread.check()
        self._uncopied_bytes -= copied
        if self._wal_bytes > _WAL_RESTART_BYTES and self._uncopied_bytes <= _MAX_INLINE_CHECKPOINT_BYTES:
            # In the writer thread, where nothing is appended meanwhile: only then can the WAL restart.
            self._wal_bytes = 0 if checkpoint(self._writing) else self._wal_bytes
            self._uncopied_bytes = 0
        elif self._uncopied_bytes > (0 if is_idle else _CHECKPOINT_STEP_BYTES):
            self._copying_bytes = self._uncopied_bytes
            self._thread.begin()

    def restart(self) -> None:
        """Copy everything at once, so that the WAL restarts and takes no more room."""
        self._thread.wait()
        try:
            self._thread.check()
        except sqlite3.Error as error:
            if not isinstance(store_error(error, self._path), StoreFull):
                raise
            # What was not copied for want of room is copied now, where there is some.
        if checkpoint(self._writing):
            self._wal_bytes = self._uncopied_bytes = self._copying_bytes = 0

    def close(self) -> None:
        self._thread.close()


class CheckpointThread:
    """The thread that copies, from its construction until `close`."""

    def __init__(self, path: Path) -> None:
        self._connection = open_for_checkpoints(path)
        self._requests: SimpleQueue[bool] = SimpleQueue()
        self._idle = Event()
        self._idle.set()
        self._failure: sqlite3.Error | None = None
        self._thread = Thread(target=self._run, name="palio checkpoints", daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        return not self._idle.is_set()

    def begin(self) -> None:
        """Copy everything that is in the WAL now."""
        self._idle.clear()
        self._requests.put(True)

    def wait(self) -> None:
        """Wait for the checkpoint under way."""
        self._idle.wait()

    def check(self) -> None:
        """Raise the error of the last checkpoint, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        self._requests.put(False)
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while self._requests.get():
            try:
                checkpoint(self._connection)
            except sqlite3.Error as error:
                self._failure = error
            self._idle.set()


def truncate_wal(path: Path) -> bool:
    """Give the room of the WAL back to a full disk, if it can be copied; whether it did."""
    try:
        with closing(open_for_checkpoints(path)) as connection:
            [(was_busy, _, _)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except (sqlite3.Error, StoreError):
        return False
    return not was_busy


def checkpoint(connection: sqlite3.Connection) -> bool:
    """Copy the WAL; whether all of it was copied, so that it restarts. A reader of an old snapshot prevents that."""
    [(_, written, copied)] = connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    return bool(written == copied)

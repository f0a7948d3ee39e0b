"""Who moves what was written from the WAL to its place? A thread beside the one that writes, which goes on meanwhile.

SQLite lets one connection copy pages from the WAL into the database while another appends to the WAL. It begins the
WAL anew only when nothing of it is left to copy, which never is so while the other appends without pause; so when
little is left the writer copies that itself, and waits for no more than that.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread

from palio.network.store.schema import open_for_moving


class Mover:
    """The thread that moves, from when it is made until `close`."""

    def __init__(self, path: Path) -> None:
        self._connection = open_for_moving(path)
        self._asked: SimpleQueue[bool] = SimpleQueue()
        self._rests = Event()
        self._rests.set()
        self._failure: sqlite3.Error | None = None
        self._thread = Thread(target=self._run, name="palio store, moving", daemon=True)
        self._thread.start()

    @property
    def is_moving(self) -> bool:
        return not self._rests.is_set()

    def begin(self) -> None:
        """Move all that is in the WAL now."""
        self._rests.clear()
        self._asked.put(True)

    def wait(self) -> None:
        """Until it has moved what it was asked to."""
        self._rests.wait()

    def check(self) -> None:
        """Raise what went wrong the last time."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        self._asked.put(False)
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while self._asked.get():
            try:
                move_all(self._connection)
            except sqlite3.Error as error:
                self._failure = error
            self._rests.set()


def move_all(connection: sqlite3.Connection) -> bool:
    """Whether all is moved, so that the WAL begins anew; somebody who still reads what is old keeps it from that."""
    [(_, written, moved)] = connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    return bool(written == moved)

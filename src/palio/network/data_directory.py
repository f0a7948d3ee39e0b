"""Data directory of a broker: private to its owner, and locked by the one broker that uses it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from palio.errors import StoreError, StoreInUse
from palio.files.durable_write import fsync_path

DEFAULT_PATH: Final = Path("palio-data")


def make_private(directory: Path) -> Path:
    """Create a directory where it is missing, and remove the access of others; `StoreError` for one of another user."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.stat()
    # Its owner could read and replace tokens and events at any time, also where a superuser runs the broker.
    if found.st_uid != os.geteuid():
        raise StoreError(
            str(directory),
            f"belongs to another user (uid {found.st_uid}), who could read and change everything in it; "
            "run the broker as its owner, or change the owner",
        )
    if found.st_mode & 0o077:
        directory.chmod(0o700)
    return directory


DATABASE_FILE: Final = "broker.sqlite3"
LOCK_FILE: Final = "lock"


class DataDirectory:
    """A data directory, and the lock on it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock: int | None = None

    @property
    def database(self) -> Path:
        return self.path / DATABASE_FILE

    def acquire(self) -> None:
        """Create the directory where it is missing, and lock it; `StoreInUse` where another broker has."""
        try:
            self._make()
            lock = os.open(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(str(self.path), f"cannot keep a store here: {error.strerror}") from None
        try:
            # The lock belongs to the open file: it goes with the process, however that ends.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise StoreInUse(str(self.path)) from None
        self._lock = lock

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _make(self) -> None:
        """Create the database file too: SQLite gives its other files the mode of this one."""
        is_new = not self.path.is_dir()
        make_private(self.path)
        if is_new:
            fsync_path(self.path.parent)  # the entry of the directory itself; SQLite syncs those inside it
        os.close(os.open(self.database, os.O_RDWR | os.O_CREAT, 0o600))

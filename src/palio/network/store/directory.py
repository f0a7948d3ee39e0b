"""Where does a store live? In a directory that only its owner may read, and that one broker at a time has open."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from palio.errors import StoreError, StoreInUse
from palio.network.security.directory import make_private

DATABASE: Final = "broker.sqlite3"
_LOCK: Final = "lock"


class Directory:
    """The directory of a store."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock: int | None = None

    @property
    def database(self) -> Path:
        return self.path / DATABASE

    def hold(self) -> None:
        """Make the directory where it is not there yet, and take it; `StoreInUse` where somebody has."""
        try:
            self._make()
            lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(str(self.path), f"cannot keep a store here: {error.strerror}") from None
        try:
            # Held by the open file: it goes with the process, however that ends.
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
        """SQLite gives its other files the mode of the first."""
        is_new = not self.path.is_dir()
        make_private(self.path)
        if is_new:
            _sync(self.path.parent)
        os.close(os.open(self.database, os.O_RDWR | os.O_CREAT, 0o600))


def _sync(directory: Path) -> None:
    """A directory is safe when the one it is in says so on disk."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)

"""Disk space of a store: its bound in pages, and room in reserve for what frees space.

A store without room must still be able to remove: acknowledgements, the end of deliveries and the removal of old log
entries all write before they free. So a part of the bound is in reserve for them. On a disk that is full by itself a
small file holds the reserve: it is deleted when it is needed, and made again when there is space.

What is committed needs room twice, in the WAL and in the database, and the WAL gives none back before all of it is in
the database. A store that filled the disk with its WAL could not write anything any more, not even remove. So on a disk
with little space the WAL is copied after each commit, and nothing is committed that might not fit a second time.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Final

from palio.network.store.wal_checkpoint import MAX_WAL_BYTES

RESERVE_FILE: Final = "reserve"
_RESERVE_BYTES: Final = 512 * 1024
_MIN_RESERVE_BYTES: Final = 64 * 1024  # with less a start may fail all the same
_MAX_RESERVE_SHARE: Final = 8  # of `disk_bytes`: at most one part in so many
_MIN_FREE_BYTES: Final = 1024 * 1024  # beyond the reserve, below which a disk counts as full
_LOW_DISK_BYTES: Final = 2 * MAX_WAL_BYTES  # free ones, below which the WAL is copied after each commit
_SMALL_WRITE_BYTES: Final = 64 * 1024
_TRIM_STEP_BYTES: Final = 256 * 1024  # that are removed together on a full disk: the reserve has room for it in the WAL


class DiskSpace:
    """The space that one store may use, by the connection that writes. Used by the writer thread alone."""

    def __init__(self, connection: sqlite3.Connection, path: Path, disk_bytes: int | None) -> None:
        self._connection = connection
        self._file = path.parent / RESERVE_FILE
        self._wal = path.with_name(f"{path.name}-wal")
        [(self._page_bytes,)] = connection.execute("PRAGMA page_size")
        self._max_pages = None if disk_bytes is None else max(1, disk_bytes // self._page_bytes)
        reserve = _RESERVE_BYTES // self._page_bytes
        self._reserve_pages = 0 if self._max_pages is None else min(reserve, self._max_pages // _MAX_RESERVE_SHARE)
        self._bound(self._reserve_pages)
        self.keep_reserve()

    @contextmanager
    def reserve(self) -> Iterator[None]:
        """Use the reserve."""
        if self._max_pages is None:
            release_reserve(self._file)
            yield
            return
        self._bound(0)
        try:
            yield
        finally:
            self._bound(self._reserve_pages)

    def keep_reserve(self) -> None:
        """Make the file of the reserve where it is missing and there is space; the disk is full otherwise."""
        if self._max_pages is None and not self._file.exists() and self._free_on_disk() > 2 * _RESERVE_BYTES:
            with suppress(OSError):  # it is made again another time
                _allocate(self._file, _RESERVE_BYTES)

    def keep_room_to_open(self) -> None:
        """Make the file of the reserve of what is left of a full disk, before the store is closed: SQLite writes the
        WAL back then, and would leave nothing for the next start."""
        if self._max_pages is None and not self._file.exists():
            size = min(_RESERVE_BYTES, self._free_on_disk() // 2)
            if size >= _MIN_RESERVE_BYTES:
                with suppress(OSError):
                    _allocate(self._file, size)

    @property
    def capacity_bytes(self) -> float:
        """All that the store may use."""
        return inf if self._max_pages is None else (self._max_pages - self._reserve_pages) * self._page_bytes

    @property
    def step_bytes(self) -> int:
        """How much is freed at a time when there is no room: enough for many events, and a small part of all."""
        return _TRIM_STEP_BYTES if self._max_pages is None else max(1, self._max_pages * self._page_bytes // 16)

    @property
    def has_room(self) -> bool:
        """Whether there is room for a few events again."""
        if self._max_pages is not None:
            [(used,)] = self._connection.execute("PRAGMA page_count")
            [(free,)] = self._connection.execute("PRAGMA freelist_count")
            if (self._max_pages - self._reserve_pages - used + free) * self._page_bytes < self.step_bytes // 2:
                return False
        return self.admits(_SMALL_WRITE_BYTES)

    @property
    def is_low(self) -> bool:
        """Whether the disk has little space left."""
        return self._free_on_disk() < _LOW_DISK_BYTES

    def admits(self, bytes: int) -> bool:
        """Whether so much may be written to the WAL, all of which is copied, and then to the database."""
        free = self._free_on_disk()
        if free >= _LOW_DISK_BYTES:
            return True
        growth = self._wal_growth(bytes) + max(0, bytes - self._unused_bytes())
        return growth == 0 or growth + _MIN_FREE_BYTES <= free

    def admits_after_removal(self, bytes: int) -> bool:
        """Whether so much might be written if the database had unused pages for it."""
        growth = self._wal_growth(bytes)
        return growth == 0 or growth + _MIN_FREE_BYTES <= self._free_on_disk()

    def _wal_growth(self, bytes: int) -> int:
        try:
            size = self._wal.stat().st_size
        except OSError:
            size = 0
        return max(0, bytes - size)

    def _unused_bytes(self) -> int:
        [(pages,)] = self._connection.execute("PRAGMA freelist_count")
        unused: int = pages * self._page_bytes
        return unused

    def _bound(self, reserve: int) -> None:
        if self._max_pages is not None:
            # SQLite takes the present size where this is less.
            self._connection.execute(f"PRAGMA max_page_count = {max(1, self._max_pages - reserve)}")

    def _free_on_disk(self) -> int:
        try:
            found = os.statvfs(self._file.parent)
        except OSError:
            return 0
        return found.f_bavail * found.f_frsize


def release_reserve(file: Path) -> bool:
    """Delete the file of the reserve; whether there was one."""
    try:
        file.unlink()
    except OSError:
        return False
    return True


def _allocate(file: Path, size: int) -> None:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        file.unlink()
        raise
    finally:
        os.close(descriptor)

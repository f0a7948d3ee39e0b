"""A disk on which a writer dies at a chosen step, and whatever it wrote before stays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from palio.files import durable_write
from palio.spark import storage

# What changes something on the disk. A draft that is written but not synchronised counts as two steps.
STEPS = ("open", "fsync", "link", "unlink", "close")


class Crash(BaseException):
    """The end of the process; nothing that handles errors may hold it up."""


class CrashingDisk:
    """Stands for the module `os`: the chosen step is done, or not even begun, and then the process dies.

    A dead process removes no drafts, so every step after the crash is refused too.
    """

    def __init__(self, crash_at: int | None, *, after: bool = False) -> None:
        self.steps = 0
        self._crash_at = crash_at
        self._after = after

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self.step(real) if name in STEPS else real

    def step(self, real: Any) -> Any:
        def run(*arguments: Any, **options: Any) -> Any:
            place, self.steps = self.steps, self.steps + 1
            if self._crash_at is None or place < self._crash_at:
                return real(*arguments, **options)
            if place == self._crash_at and self._after:
                real(*arguments, **options)
            raise Crash

        return run


@contextmanager
def crashing(crash_at: int | None, *, after: bool = False) -> Iterator[CrashingDisk]:
    """Storage folders are on such a disk meanwhile."""
    disk = CrashingDisk(crash_at, after=after)

    def remove(self: storage.StorageFolder, name: str) -> None:
        disk.step(real_remove)(self, name)

    real_remove = storage.StorageFolder.remove
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "os", disk)
        patch.setattr(durable_write, "os", disk)
        patch.setattr(storage.StorageFolder, "remove", remove)
        yield disk

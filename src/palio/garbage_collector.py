"""Pause of the garbage collector, for work that makes many objects and no cycles."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class _Pauses:
    """The pauses of all threads. The first one turns the collector off, and the last one turns it on again: one that
    asked whether it is on while another one ends might leave it off for ever."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._was_enabled = False

    def begin(self) -> None:
        with self._lock:
            if not self._count:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._count += 1

    def end(self) -> None:
        with self._lock:
            if self._count == 1 and self._was_enabled:
                gc.enable()
            self._count = max(0, self._count - 1)

    def end_all(self) -> None:
        """Of a process that was forked: the other threads, and what they would end, are not in it."""
        self._lock = Lock()
        if self._count and self._was_enabled:
            gc.enable()
        self._count = 0


_pauses = _Pauses()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pauses.end_all)


@contextmanager
def paused_collector() -> Iterator[None]:
    """No garbage collection meanwhile.

    Looking through all objects takes a tenth of a second in a process that has loaded a compiler, and thousands of new
    objects make it happen. Cycles that other threads leave meanwhile wait until the end, so the work must be short.
    """
    _pauses.begin()
    try:
        yield
    finally:
        _pauses.end()

"""Pause of the garbage collector, for work that makes many objects and no cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """No garbage collection meanwhile.

    Looking through all objects takes a tenth of a second in a process that has loaded a compiler, and thousands of new
    objects make it happen. Cycles that other threads leave meanwhile wait until the end, so the work must be short.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

"""Fast start of a broker process: what the interpreter need not do before the broker serves.

It changes the whole process, so that only a command that is the process makes use of it. What it leaves out takes a
third of the start of an empty broker, and with many stored subscriptions half of it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

_UNUSED_PACKAGE: Final = "pandas"


class _UnusedPackageFinder(MetaPathFinder):
    """Refuses the import of a package, as if it were not installed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == _UNUSED_PACKAGE:
            raise ModuleNotFoundError(f"a broker makes no use of {name}", name=name)
        return None


@contextmanager
def fast_start() -> Iterator[None]:
    """A start without the import of pandas, which Arrow makes where pandas is installed (0.2 s, and 40 MB of memory),
    and without garbage collection until `freeze_garbage_collection`: everything that a start makes is kept. When the
    block ends, also by a start that fails, the process is as it was."""
    finder = _UnusedPackageFinder()
    was_enabled, thresholds = gc.isenabled(), gc.get_threshold()
    sys.meta_path.insert(0, finder)
    gc.disable()
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        if was_enabled:
            gc.enable()


def freeze_garbage_collection() -> None:
    """Exclude the objects made so far from garbage collection, and collect rarely.

    A full collection with many queued events would take longer than anything else that a broker does.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)  # most objects of a batch are freed by reference counting when it is over
    gc.enable()

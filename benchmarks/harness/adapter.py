"""Adapter to Palio: every call that the benchmarks make, in one place."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa


class Matcher(Protocol):
    """The part of `palio.Matcher` that is measured."""

    def add(self, id: str, where: str) -> None: ...
    def add_many(self, ids: Iterable[str], wheres: Iterable[str]) -> None: ...
    def remove(self, id: str) -> None: ...
    def match(self, event: dict[str, Any]) -> set[str]: ...
    def match_batch(self, batch: pa.RecordBatch) -> pa.Table: ...
    def save(self, path: str | Path) -> None: ...
    def statistics(self) -> Any: ...


def wait_for_kernels() -> None:
    """Wait until no kernel is interpreted; commits that compile on the first call have nothing to wait for."""
    try:
        from palio.matching.columnar import kernel_readiness
    except ImportError:
        return
    if hasattr(kernel_readiness, "wait_until_all_are_ready"):
        kernel_readiness.wait_until_all_are_ready()
    else:  # a commit with one group
        kernel_readiness.kernel_readiness.wait_until_ready()


def new_matcher() -> Matcher:
    import palio

    return palio.Matcher()


def open_matcher(path: str | Path) -> Matcher:
    import palio

    return palio.Matcher.open(path)


def sizes_in_bytes(matcher: Matcher) -> tuple[int, int]:
    """(the index arrays, what is kept beside them: ids, text and metadata)."""
    statistics = matcher.statistics()
    return int(statistics.index_bytes), int(statistics.beside_bytes)

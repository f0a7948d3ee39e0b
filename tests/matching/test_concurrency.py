"""Adding never stops matching, and no reader ever sees half a change."""

from __future__ import annotations

import gc
import os
import signal
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from palio.matching import compaction, segments
from palio.matching.catalogue import IdHashRun
from palio.matching.columnar.segment import Segment
from palio.matching.matcher import Matcher
from tests.matching.suite import ids_by_row, wait_for_merges


def in_threads(*works: Callable[[], None]) -> None:
    """Run functions side by side; the first failure is raised here."""
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_what_stays_is_always_found_while_others_come_and_go() -> None:
    matcher = Matcher()
    matcher.add("stays", "x >= 0")
    done = threading.Event()
    batch = pa.table({"x": [1, 2], "s": ["v1", "v2"]})

    def change() -> None:
        try:
            for round in range(4):
                ids = [f"{round}-{number}" for number in range(700)]
                for number, id in enumerate(ids):
                    matcher.add(id, f"s = 'v{number % 50}' AND x > {number % 7}")
                matcher.add_many([f"many-{id}" for id in ids], [f"x = {number}" for number in range(700)])
                for id in ids[::2]:
                    matcher.replace(id, "x < 0")
                for id in ids:
                    matcher.remove(id)
        finally:
            done.set()

    def read_one() -> None:
        while not done.is_set():
            assert "stays" in matcher.match({"x": 1, "s": "v1"})

    def read_batch() -> None:
        while not done.is_set():
            found = matcher.match_batch(batch).to_pylist()
            assert {row["row"] for row in found if row["subscription"] == "stays"} == {0, 1}

    in_threads(change, read_one, read_batch)
    matcher.merge()
    assert len(matcher) == 1 + 4 * 700
    assert matcher.statistics().segments == 1


def test_a_replaced_subscription_is_never_absent() -> None:
    matcher = Matcher()
    matcher.add("desk", "x > 0")
    done = threading.Event()

    def change() -> None:
        for number in range(1500):
            matcher.replace("desk", f"x > 0 AND y <> {number}")
        done.set()

    def read() -> None:
        event: dict[str, Any] = {"x": 5, "y": -1}
        while not done.is_set():
            assert matcher.match(event) == {"desk"}

    in_threads(change, read, read)


def test_many_threads_may_match_with_one_index() -> None:
    matcher = Matcher()
    matcher.add_many([str(n) for n in range(3000)], [f"x = {n % 100} AND y >= {n}" for n in range(3000)])
    batch = pa.table({"x": list(range(100)) * 5, "y": [2000] * 500})
    expected = matcher.match_batch(batch).num_rows

    def read() -> None:
        for _ in range(20):
            assert matcher.match_batch(batch).num_rows == expected
            assert len(matcher.match({"x": 7, "y": 2000})) == 20

    in_threads(read, read, read, read)


def test_a_merge_that_another_one_overtakes_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_MERGE_FACTOR", 2)
    begun, may_end = threading.Event(), threading.Event()
    # A merge is held up halfway, which nothing public can do.
    merged = segments._merge_segments

    def slowly(*given: Any) -> Segment:
        found = merged(*given)
        if threading.current_thread().name == "palio-merge":
            begun.set()
            assert may_end.wait(60)
        return found

    monkeypatch.setattr(segments, "_merge_segments", slowly)
    matcher = Matcher()
    matcher.add_many(["a1", "a2"], ["x = 1", "x = 2"])
    matcher.add_many(["a3", "a4"], ["x = 3", "x = 4"])
    assert begun.wait(60)
    matcher.merge()
    may_end.set()
    wait_for_merges(matcher)
    assert matcher.statistics().segments == 1
    assert matcher.match_batch([{"x": 3}]).column("subscription").to_pylist() == ["a3"]


def test_nobody_is_told_twice_while_one_thread_merges_and_others_add(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_MERGE_FACTOR", 3)
    matcher = Matcher()
    matcher.add("stays", "x = 1")
    done = threading.Event()

    def add(worker: int) -> None:
        for round in range(60):
            ids = [f"{worker}-{round}-{number}" for number in range(3)]
            matcher.add_many(ids, ["x = 1", "x = 2", "x = 1 OR y = 1"])
            matcher.remove(ids[0])

    def add_both() -> None:
        try:
            in_threads(lambda: add(1), lambda: add(2))
        finally:
            done.set()

    def merge() -> None:
        while not done.is_set():
            matcher.merge()

    def read() -> None:
        while not done.is_set():
            (found,) = ids_by_row(matcher.match_batch([{"x": 1}]), 1)  # which fails where one is there twice
            assert "stays" in found

    in_threads(add_both, merge, read)
    assert len(ids_by_row(matcher.match_batch([{"x": 1}]), 1)[0]) == 1 + 2 * 60


def test_an_id_is_found_while_the_tables_of_ids_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = Matcher()
    matcher.add_many(["a", "b"], ["x = 1", "x = 2"])
    merge, seen = IdHashRun.merge, []

    def watched(run: IdHashRun, other: IdHashRun) -> IdHashRun:
        seen.append("a" in matcher)
        return merge(run, other)

    monkeypatch.setattr(IdHashRun, "merge", watched)
    matcher.add_many(["c", "d"], ["x = 3", "x = 4"])
    assert seen == [True]


def test_a_matcher_that_nobody_uses_is_released_and_its_thread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "QUIET_SECONDS", 3_600.0)
    matcher = Matcher()
    for number in range(20):  # more than stay live: a thread waits until nothing is added
        matcher.add(str(number), f"x = {number}")
    thread, released = matcher._segments._merger, weakref.ref(matcher._segments)
    assert thread is not None
    del matcher
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()
    assert released() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_adds_and_settles_though_its_parent_was_merging() -> None:
    """The fork happens while another thread holds the lock; the threads of the parent are not there in the child."""
    matcher = Matcher({"first": "x = 1"})
    matcher.merge()  # loads the kernels, which takes locks that a fork might inherit
    matcher.match_batch([{"x": 1}])
    for thread in threading.enumerate():
        if thread.name == "palio-merge":
            thread.join()
    for number in range(20):
        matcher.add(str(number), f"x >= {number}")
    held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with matcher._segments.lock:
            held.set()
            may_end.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking a process with threads
        child = os.fork()
    if not child:
        signal.alarm(60)
        matcher.add("of the child", "x = 3")
        found = matcher.match({"x": 3})
        matcher._segments.join_merger()
        os._exit(0 if "of the child" in found and matcher.statistics().live == 0 else 1)
    may_end.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert "of the child" not in matcher

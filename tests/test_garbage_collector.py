"""The pause of the garbage collector."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from palio.garbage_collector import paused_collector


def test_the_garbage_collector_is_back_after_a_pause() -> None:
    assert gc.isenabled()
    with suppress(KeyError), paused_collector():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_the_owner_has_turned_off_stays_off() -> None:
    gc.disable()
    try:
        with paused_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_pauses_of_many_threads_leave_it_on() -> None:
    def pause_often() -> None:
        for _ in range(3_000):
            with paused_collector():
                assert not gc.isenabled()

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(pause_often) for _ in range(4)]:
            done.result()
    assert gc.isenabled()

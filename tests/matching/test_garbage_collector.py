"""The pause of the garbage collector."""

from __future__ import annotations

import gc
from contextlib import suppress

from palio.matching.garbage_collector import paused_collector


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

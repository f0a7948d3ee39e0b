"""Choice of the event loop: uvloop where it is installed, asyncio's own otherwise.

Only loops that Palio makes itself are chosen here; `palio.connect` runs in the loop of its caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_Answer = TypeVar("_Answer")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A new loop, the fastest that is installed."""
    try:
        from uvloop import new_event_loop as new_uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = new_uvloop()
    return loop


def run_event_loop(coroutine: Coroutine[Any, Any, _Answer]) -> _Answer:
    """Run a coroutine to its end in a loop of its own."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(coroutine)

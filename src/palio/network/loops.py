"""Which loop is there? uvloop where it is installed, asyncio's own otherwise; they do the same.

Only loops that Palio makes itself are chosen here: `palio.connect` runs in whatever loop its caller has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_Answer = TypeVar("_Answer")


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop that nobody runs yet, the fastest there is."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = new_event_loop()
    return loop


def run(doing: Coroutine[Any, Any, _Answer]) -> _Answer:
    """Run something to its end."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(doing)

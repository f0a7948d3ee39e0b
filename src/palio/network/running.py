"""How does a broker run until it is told to stop? With as many files as it may open, and little garbage to look at."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress

from palio.network.loops import run
from palio.network.server import Server
from palio.network.settings import Settings
from palio.network.warming import warm_up


def open_as_many_files_as_may_be() -> None:
    """Each connection is a file, and most systems let a program open a thousand unless it asks for more."""
    try:
        import resource
    except ImportError:
        return  # Windows has no such limit
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now != most:
        with suppress(ValueError, OSError):  # where none is named, as on macOS, not every number is taken
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def look_for_garbage_rarely() -> None:
    """All that was made until now stays: it need not be looked at each time. A look at everything that waits for
    somebody would take longer than anything else that a broker does."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)  # what a batch makes is mostly gone when it is over


Warming = Callable[[], AbstractContextManager[None]]


def serve(settings: Settings, started: Callable[[Server], None], warming: Warming = nullcontext) -> None:
    """Run a broker until SIGINT or SIGTERM; `started` is called once it can be reached. `warming` is entered while
    compiled code is loaded."""
    open_as_many_files_as_may_be()
    run(_serve(settings, started, warming))


async def _serve(settings: Settings, started: Callable[[Server], None], warming: Warming) -> None:
    server = Server(settings)
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, told.set)
    with warming():
        warm_up()
    await server.start()
    try:
        look_for_garbage_rarely()
        started(server)
        await told.wait()
    finally:
        await server.stop()

"""How does a broker run until it is told to stop? With uvloop where that is installed, in plain asyncio otherwise."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from palio.network.server import Server
from palio.network.settings import Settings
from palio.network.warming import warm_up


def run(doing: Coroutine[Any, Any, None]) -> None:
    """Run something to its end in the fastest loop there is."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        asyncio.run(doing)
        return
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(doing)


def serve(settings: Settings, started: Callable[[Server], None]) -> None:
    """Run a broker until SIGINT or SIGTERM; `started` is called once it can be reached."""
    run(_serve(settings, started))


async def _serve(settings: Settings, started: Callable[[Server], None]) -> None:
    server = Server(settings)
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, told.set)
    warm_up()
    await server.start()
    try:
        # All that was made until now stays: it need not be looked at each time that garbage is collected.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)  # what a batch makes is mostly gone when it is over
        started(server)
        await told.wait()
    finally:
        await server.stop()

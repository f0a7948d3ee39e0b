"""A measured system: its server, how clients subscribe and publish, and what it needs installed."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from beside.tally import Tally

Publish = Callable[[dict[str, Any]], Awaitable[None]]
STARTING = 30.0  # seconds that a server may take
AT_ONCE = 32  # connections that a process makes together


@dataclass(frozen=True)
class Running:
    """A server: the process that began it, which may have children, and where it listens."""

    pid: int
    url: str


@dataclass(frozen=True)
class System:
    """`subscribe` serves the subscriptions of the given numbers, each over a connection of its own, for ever."""

    name: str
    serve: Callable[[], AbstractContextManager[Running]]
    subscribe: Callable[[str, Sequence[int], Tally], Awaitable[None]]
    publisher: Callable[[str], AbstractAsyncContextManager[Publish]]
    module: str = "palio"
    command: str = ""
    dispatch: Callable[[str, int, Tally], Awaitable[None]] | None = None
    """Where one consumer decides for all; alone where nobody is served by `subscribe`."""
    hands_over: bool = True
    """Whether each subscription has a connection, and its events arrive there."""

    def missing(self) -> str:
        """What is not installed; empty where nothing is missing."""
        if self.command and not found(self.command):
            return self.command
        return "" if find_spec(self.module) else self.module


def found(command: str) -> str | None:
    """A program: of this environment, or of the system, where servers are not on everybody's path."""
    beside = Path(sys.executable).parent / command
    return str(beside) if beside.exists() else shutil.which(command) or shutil.which(command, path="/usr/sbin")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def started(
    command: Sequence[str], port: int, scheme: str, patience: float = 30.0, **options: Any
) -> Iterator[Running]:
    """A server from when it listens until it is not needed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        end = time.monotonic() + STARTING
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{command[0]} did not start")
            time.sleep(0.05)
        yield Running(process.pid, f"{scheme}://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


_under_way: set[asyncio.Task[None]] = set()


def in_background(doing: Coroutine[Any, Any, None]) -> None:
    """Let a subscriber listen; where one fails, its process does."""

    def done(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            task.print_stack(file=sys.stderr)
            os._exit(1)

    task = asyncio.get_running_loop().create_task(doing)
    _under_way.add(task)
    task.add_done_callback(done)


async def each_on_its_own(numbers: Sequence[int], subscribe: Callable[[int], Awaitable[None]]) -> None:
    """Make all subscriptions, some at a time; each call comes back when its subscription stands."""
    numbers_left: Iterator[int] = iter(numbers)

    async def some() -> None:
        for number in numbers_left:
            await subscribe(number)

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    await asyncio.Event().wait()

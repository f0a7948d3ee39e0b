"""Three processes in a line that only pass bytes on: what the same way costs where nobody looks at events.

How late events are on a machine is a matter of its kernel and of its neighbours, too. The same events, by the same
clock, through as many Python processes that do nothing with them, show how much.
"""

from __future__ import annotations

import asyncio
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

DUE = struct.Struct("<d")


class Passing(asyncio.Protocol):
    """Writes to another connection what comes by one."""

    def __init__(self, onward: asyncio.WriteTransport) -> None:
        self._onward = onward

    def data_received(self, data: bytes) -> None:
        self._onward.write(data)


class Receiving(asyncio.Protocol):
    """Cuts what comes into events, and tells when each was due."""

    def __init__(self, size: int, came: Callable[[float], None]) -> None:
        self._size = size
        self._came = came
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        whole = len(data) - len(data) % self._size
        for at in range(0, whole, self._size):
            self._came(*DUE.unpack_from(data, at))
        self._rest = data[whole:]


@contextmanager
def relays(count: int, to: int) -> Iterator[int]:
    """So many in a line, the last of which passes on to a port; the port of the first."""
    processes: list[subprocess.Popen[str]] = []
    try:
        for _ in range(count):
            command = [sys.executable, __file__, str(to)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            processes.append(process)
            assert process.stdout is not None
            to = int(process.stdout.readline())
        yield to
    finally:
        for process in processes:
            process.terminate()
            process.wait()


async def pass_on(to: int) -> None:
    """Listen on a free port, say which, and pass on what comes."""
    loop = asyncio.get_running_loop()
    onward, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", to)
    server = await loop.create_server(lambda: Passing(onward), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


async def connected(count: int, size: int, came: Callable[[float], None], stack: Any) -> Callable[[float], None]:
    """Open a line of relays from here to here; what sends an event that is due at a time."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Receiving(size, came), "127.0.0.1", 0)
    stack.callback(server.close)
    port = stack.enter_context(relays(count, server.sockets[0].getsockname()[1]))
    sending, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", port)
    stack.callback(sending.close)
    rest = bytes(size - DUE.size)
    return lambda due: sending.write(DUE.pack(due) + rest)


if __name__ == "__main__":
    asyncio.run(pass_on(int(sys.argv[1])))

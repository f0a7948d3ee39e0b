"""A real NATS server with JetStream, for the tests, and the few things one asks of it."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from nats.js import JetStreamContext

_HANG_GUARD_SECONDS = 300.0  # for a server that never answers; no test depends on it


class NatsServer:
    """A server that keeps its streams in a folder; it can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._port = -1  # any that is free

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    def start(self) -> None:
        ports = self._folder / "ports"
        shutil.rmtree(ports, ignore_errors=True)
        ports.mkdir(parents=True)
        program = Path(sys.executable).parent / "nats-server"
        options = ["-js", "-sd", str(self._folder / "store"), "-a", "127.0.0.1", "-p", str(self._port)]
        self._process = subprocess.Popen(
            [str(program), *options, "--ports_file_dir", str(ports)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + _HANG_GUARD_SECONDS
        while not (files := list(ports.glob("*.ports"))) or not files[0].read_text():
            assert time.monotonic() < end, "the NATS server does not start"
            time.sleep(0.05)
        told = json.loads(files[0].read_text())
        self._port = int(told["nats"][0].rpartition(":")[2])

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def run(self, work: Callable[[JetStreamContext], Coroutine[Any, Any, Any]]) -> Any:
        """Do something with JetStream."""
        import nats

        async def connected() -> Any:
            connection = await nats.connect(self.url, connect_timeout=_HANG_GUARD_SECONDS)
            try:
                return await work(connection.jetstream(timeout=_HANG_GUARD_SECONDS))
            finally:
                await connection.close()

        return asyncio.run(connected())

    def make_stream(self, name: str, *subjects: str, **options: Any) -> None:
        self.run(lambda jetstream: jetstream.add_stream(name=name, subjects=list(subjects), **options))

    def publish(self, subject: str, messages: Iterable[Any]) -> None:
        async def all_of_them(jetstream: JetStreamContext) -> None:
            for message in messages:
                await jetstream.publish(subject, json.dumps(message).encode(), headers={"kind": "test"})

        self.run(all_of_them)

    def messages(self, stream: str) -> list[tuple[str, dict[str, str], Any]]:
        """Everything in a stream: subject, headers and content."""

        async def read(jetstream: JetStreamContext) -> list[Any]:
            state = (await jetstream.stream_info(stream)).state
            found = [await jetstream.get_msg(stream, number) for number in range(state.first_seq, state.last_seq + 1)]
            return [(each.subject, each.headers or {}, json.loads(each.data or b"null")) for each in found]

        found: list[Any] = self.run(read)
        return found


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Any:
    server = NatsServer(tmp_path_factory.mktemp("nats"))
    server.start()
    yield server
    server.kill()

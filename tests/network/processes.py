"""Brokers and commands in processes of their own, as a user runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO

PATIENCE = 60.0
ROOT = Path(__file__).parents[2]


class Process:
    """A running command; `before` is another one that runs it."""

    def __init__(
        self, *arguments: str, stdin: int | IO[bytes] | None = subprocess.DEVNULL, before: tuple[str, ...] = ()
    ) -> None:
        self._process = subprocess.Popen(
            [*before, sys.executable, "-m", "palio", *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"},
        )
        self.pid = self._process.pid

    def line(self) -> str:
        """The next line of its output."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode()

    def message(self) -> str:
        """The next line of its messages."""
        assert self._process.stderr is not None
        return self._process.stderr.readline().decode()

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        """Its exit code, and what it said that was not read yet."""
        out, err = self._process.communicate(timeout=PATIENCE)
        return self._process.returncode, out.decode(), err.decode()

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


class Broker(Process):
    """A running `palio serve`; `url` is where it listens, `http` where it speaks HTTP, if anywhere."""

    def __init__(
        self,
        *arguments: str,
        listen: str = "palio://127.0.0.1:0",
        data: str = "none",
        before: tuple[str, ...] = (),
    ) -> None:
        super().__init__("serve", "--json", "--listen", listen, "--data", data, *arguments, before=before)
        first = self.line()
        if not first:
            raise AssertionError(f"the broker did not start: {self.end()}")
        said = json.loads(first)
        self.url: str = said["addresses"][0]
        self.http: str = said.get("http", "")


@contextmanager
def running(process: Process) -> Iterator[Process]:
    try:
        yield process
    finally:
        process.kill()


@contextmanager
def served(
    *arguments: str, listen: str = "palio://127.0.0.1:0", data: str = "none", before: tuple[str, ...] = ()
) -> Iterator[Broker]:
    """A broker for as long as it is needed; it must stop as it should."""
    broker = Broker(*arguments, listen=listen, data=data, before=before)
    try:
        yield broker
        broker.send(signal.SIGTERM)
        code, _, said = broker.end()
        assert code == 0, said
        assert "Traceback" not in said, said
    finally:
        broker.kill()


def command(*arguments: str, given: str = "") -> tuple[int, str, str]:
    """A command to its end: its exit code, its output, its messages."""
    done = subprocess.run(
        [sys.executable, "-m", "palio", *arguments],
        input=given.encode(),
        capture_output=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"},
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Peer(Process):
    """A running `palio peer`; `url` is where it listens."""

    def __init__(self, *arguments: str, data: str = "none", listen: str = "palio://127.0.0.1:0") -> None:
        super().__init__("peer", "--json", "--listen", listen, "--data", data, *arguments)

    @cached_property
    def url(self) -> str:
        """Where it listens, once it does; several are started before the first is asked."""
        first = self.line()
        if not first:
            raise AssertionError(f"the peer did not start: {self.end()}")
        address: str = json.loads(first)["addresses"][0]
        return address

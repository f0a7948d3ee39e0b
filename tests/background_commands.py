"""Commands of the documentation that go on while the next ones run: `palio serve &`.

Each has a terminal of its own, as it has when a person tries the example, and has said what stands under it in the
document before the next command starts. What it says later stands under the command that made it say so.
"""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType

_SECONDS_TO_SAY = 30
_SECONDS_TO_END = 20


class BackgroundCommands:
    """Those of one document; they end with it."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []
        self._listening: list[threading.Thread] = []
        self._terminals: list[int] = []
        self._said: list[tuple[int, str]] = []  # by which terminal
        self._more = threading.Condition()

    def __enter__(self) -> BackgroundCommands:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in reversed(self._running):
            with contextlib.suppress(ProcessLookupError):  # one that did not go on, as it should have
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(_SECONDS_TO_END)
        for thread in self._listening:  # a shell ends before what it runs, which has the terminal until it ends
            thread.join(_SECONDS_TO_END)
        for terminal in self._terminals:
            os.close(terminal)

    def start(self, command: str, environment: Mapping[str, str]) -> int:
        """Run it until the end of the document, at a terminal of which this is the number."""
        terminal, its_end = pty.openpty()
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=its_end,
            stderr=its_end,
            start_new_session=True,
        )
        os.close(its_end)
        self._running.append(process)
        self._terminals.append(terminal)
        self._listening.append(threading.Thread(target=self._listen, args=(terminal,), daemon=True))
        self._listening[-1].start()
        return terminal

    def hear(self, is_enough: Callable[[str], bool], terminal: int | None = None) -> str:
        """What was said since the command before, at one terminal or all: once it is enough, or no more can come."""
        until = time.monotonic() + _SECONDS_TO_SAY
        with self._more:
            while not is_enough(said := self._all_said(terminal)):
                if time.monotonic() > until or all(each.poll() is not None for each in self._running):
                    break
                self._more.wait(0.2)
            return said

    def forget(self) -> None:
        """What was said so far belongs to the command before."""
        with self._more:
            self._said.clear()

    def _all_said(self, terminal: int | None) -> str:
        return "".join(text for at, text in self._said if terminal in (None, at))

    def _listen(self, terminal: int) -> None:
        while True:
            try:
                piece = os.read(terminal, 65_536)
            except OSError:  # it has ended
                return
            with self._more:
                self._said.append((terminal, piece.decode().replace("\r\n", "\n")))
                self._more.notify_all()

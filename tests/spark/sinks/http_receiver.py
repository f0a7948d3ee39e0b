"""A server on this machine that takes what is posted to it, and fails as the world fails: at random, from a seed."""

from __future__ import annotations

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any

Failure = str
FAILURES: tuple[Failure, ...] = ("500", "503", "429", "hang up", "hang up after taking it")


class Receiver:
    """Remembers every request that it took, by its key; `trouble` is how many of its answers fail."""

    def __init__(self, seed: int = 0, trouble: float = 0.0, port: int = 0) -> None:
        self.taken: dict[str, tuple[str, dict[str, str], bytes]] = {}
        self.times: Counter[str] = Counter()
        self.refused: set[str] = set()  # paths that are refused for good
        self.failing: set[str] = set()  # paths that fail every time
        self.busy: Counter[str] = Counter()  # how often a path asks to wait before it takes anything
        self.down = False
        self._random = Random(f"receiver {seed}")
        self._trouble = trouble
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> str:
        """The status of the answer, or what happens instead of one."""
        with self._lock:
            if path in self.refused:
                return "400"
            if path in self.failing:
                return "503"
            if self.busy[path]:
                self.busy[path] -= 1
                return "429"
            failure = self._random.choice(FAILURES) if self._random.random() < self._trouble else None
            if self.down:
                return "503"
            if failure not in (None, "hang up after taking it"):
                return str(failure)
            key = headers["Idempotency-Key"]
            self.times[key] += 1
            if key in self.taken:
                assert self.taken[key][2] == body  # the same key is the same message
            self.taken[key] = path, headers, body
            return failure or "204"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = receiver.answer(self.path, dict(self.headers.items()), body)
                if not answer.isdecimal():
                    self.close_connection = True
                    return
                self.send_response(int(answer))
                if answer == "429":
                    self.send_header("Retry-After", "0")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

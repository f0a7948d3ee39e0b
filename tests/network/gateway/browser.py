"""A real browser, driven by the W3C WebDriver protocol; needs chromedriver only."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # WebDriver §12.1: the name by which an element is referred to
_PATIENCE = 30.0


class Browser:
    """One window."""

    def __init__(self, session: httpx.Client) -> None:
        self._session = session

    def _ask(self, method: str, path: str, **body: Any) -> Any:
        answer = self._session.request(method, path, json=body if method == "POST" else None)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]

    def open(self, url: str) -> None:
        self._ask("POST", "url", url=url)

    def run(self, script: str) -> Any:
        """What a script returns."""
        return self._ask("POST", "execute/sync", script=script, args=[])

    def type(self, selector: str, text: str) -> None:
        """Put a text into a field and submit it, as somebody at a keyboard does."""
        found = self._ask("POST", "element", using="css selector", value=selector)[_ELEMENT]
        self._ask("POST", f"element/{found}/clear")
        self._ask("POST", f"element/{found}/value", text=text + "\ue007")

    def text(self, selector: str) -> str:
        return str(self.run(f"return document.querySelector({selector!r}).textContent"))

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something that is going to be so."""
        end = time.monotonic() + _PATIENCE
        while not holds():
            assert time.monotonic() < end, self.text("body")
            time.sleep(0.02)

    def screenshot(self, path: Path) -> None:
        path.write_bytes(b64decode(self._ask("GET", "screenshot")))


@contextmanager
def browser() -> Iterator[Browser]:
    """A window of Chromium, without a screen; tests are skipped where it is not installed."""
    driver, chromium = shutil.which("chromedriver"), shutil.which("chromium") or shutil.which("google-chrome")
    if driver is None or chromium is None:
        pytest.skip("no browser to be driven is installed (chromium and chromedriver)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    options = {
        "binary": chromium,
        "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-proxy-server", "--window-size=1000,600"],
    }
    wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=_PATIENCE * 2, trust_env=False) as client:
            _wait_for(client)
            answer = client.post("/session", json=wanted)
            if answer.status_code != 200:
                pytest.skip(f"the browser cannot be started here: {answer.json()['value']['message'][:200]}")
            session = f"/session/{answer.json()['value']['sessionId']}"
            client.base_url = httpx.URL(f"http://127.0.0.1:{port}{session}/")
            yield Browser(client)
            client.delete("")
    finally:
        process.terminate()
        process.wait()


def _wait_for(client: httpx.Client) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        try:
            if client.get("/status").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("chromedriver did not start")

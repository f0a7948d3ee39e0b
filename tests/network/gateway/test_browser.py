"""The gateway's own page in a real browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from palio import Filter
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal
from tests.network.gateway.browser import Browser, browser
from tests.network.processes import served


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as found:
        yield found


def rows(window: Browser) -> list[str]:
    found: list[str] = window.run(
        "return [...document.querySelectorAll('#events tr')].map((row) => row.lastChild.textContent)"
    )
    return found


def state(window: Browser) -> str:
    return window.text("#state")


def test_events_are_shown_as_they_come(window: Browser) -> None:
    with served("--http", "127.0.0.1:0") as broker:
        window.open(broker.http)
        window.until(lambda: state(window) == "connected as anyone")
        assert window.run("return getComputedStyle(document.querySelector('#greeting')).display") == "none"
        window.type("#where", "price > 100")
        window.until(lambda: "where price > 100" in window.text("h2"))
        for price in (90, 120, 80, 130):
            httpx.post(f"{broker.http}/events", json={"symbol": "<b>ACME</b>", "price": price})
        window.until(lambda: len(rows(window)) == 2)
        assert rows(window) == ['{"symbol":"<b>ACME</b>","price":130}', '{"symbol":"<b>ACME</b>","price":120}']
        window.type("#event", '{"price": 140}')
        window.until(lambda: len(rows(window)) == 3)
        window.type("#where", "price >")
        window.until(lambda: "ends where a value should stand" in window.text("#problem"))
        window.type("#where", "price > 200")
        window.until(lambda: "where price > 200" in window.text("h2") and rows(window) == [])
        if folder := os.environ.get("PALIO_SCREENSHOTS"):
            httpx.post(f"{broker.http}/events", json={"symbol": "ACME", "price": 220})
            window.until(lambda: len(rows(window)) == 1)
            window.screenshot(Path(folder) / "page.png")


def test_a_broker_with_tokens_asks_who_is_there(window: Browser, tmp_path: Path) -> None:
    token = Tokens(tmp_path).add(Principal("desk", may_subscribe=Filter.everything, may_publish=Filter.everything))
    with served("--http", "127.0.0.1:0", data=str(tmp_path)) as broker:
        window.open(broker.http)
        window.until(lambda: state(window) == "who are you?")
        window.type("#token", "wrong")
        window.until(lambda: state(window) == "not connected")
        window.type("#token", token)
        window.until(lambda: state(window) == "connected as desk")
        window.type("#event", '{"n": 1}')
        window.until(lambda: rows(window) == ['{"n":1}'])
        assert token not in window.run("return document.documentElement.outerHTML + location.href")


def test_the_page_of_the_api_lists_it(window: Browser) -> None:
    with served("--http", "127.0.0.1:0") as broker:
        window.open(f"{broker.http}/docs")
        window.until(lambda: "/subscriptions/{id}" in window.text("#requests"))
        assert "Publish events" in window.text("#requests")
        assert "CloudEvent" in window.text("#schemas")
        fetched = window.run("return performance.getEntriesByType('resource').map((each) => each.name)")
        assert [each for each in fetched if not each.startswith(broker.http)] == []

"""Datagram links between brokers on one machine."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import palio
from palio.network.addresses import Address
from palio.network.links.udp import UdpLink
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import unrestricted
from tests.network.running import ANY_PORT, broker, run, until, up, url

DATAGRAMS = Address("127.0.0.1", 0, "palio+udp")


def test_events_cross_links_of_both_kinds() -> None:
    async def test() -> None:
        async with (
            broker(listen=(ANY_PORT, DATAGRAMS)) as hub,
            broker(connect=hub.addresses[1:]) as near,
            broker(connect=hub.addresses[:1]) as far,
        ):
            await until(lambda: (len(up(hub)), len(up(near)), len(up(far))) == (2, 1, 1))
            async with (
                palio.connect(url(near)) as one,
                palio.connect(url(far)) as other,
                one.subscribe("x >= 0", confirm="network") as events,
            ):
                for x in range(1500):
                    await other.publish({"x": x})
                assert [(await anext(events)).get("x") for _ in range(1500)] == list(range(1500))

    run(test)


def test_a_link_of_datagrams_outlives_the_broker_at_its_other_end() -> None:
    async def test() -> None:
        async with broker(listen=(ANY_PORT, DATAGRAMS), heartbeat=0.2) as hub:
            addresses = hub.addresses
            async with broker(connect=addresses[1:], heartbeat=0.2) as edge:
                await until(lambda: len(up(edge)) == 1)
                await hub.stop()
                await until(lambda: not up(edge))
                async with broker(listen=addresses, heartbeat=0.2) as again:
                    await until(lambda: len(up(edge)) == 1 and len(up(again)) == 1)

    run(test)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often links were dialled, by their addresses."""
    counts: Counter[str] = Counter()
    open_link = UdpLink.open

    def counted(link: UdpLink, *arguments: Any) -> None:
        counts[link.where] += 1
        open_link(link, *arguments)

    monkeypatch.setattr(UdpLink, "open", counted)
    return counts


def test_the_end_that_dials_says_once_whenever_there_is_a_link_or_none(
    caplog: pytest.LogCaptureFixture, opened: Counter[str]
) -> None:
    def said() -> list[tuple[str, str]]:
        return [
            (each.getMessage(), getattr(each, "reason", ""))
            for each in caplog.records
            if each.getMessage() in ("linked", "no link") and each.__dict__["address"] == str(address)
        ]

    async def test() -> None:
        nonlocal address
        async with broker(listen=(ANY_PORT, DATAGRAMS), heartbeat=0.05) as hub:
            places, address = hub.addresses, hub.addresses[1]
        async with broker(connect=(address,), heartbeat=0.05) as edge:
            await until(lambda: len(said()) == 1)
            await until(lambda: opened[str(address)] > 5)  # and no more, however often it is dialled
            assert said() == [("no link", "nothing listens there")]
            async with broker(listen=places, heartbeat=0.05):
                await until(lambda: len(up(edge)) == 1)
                assert said()[1:] == [("linked", "")]
            await until(lambda: not up(edge))
            assert said()[2:] == [("no link", "the other end is leaving")]
            async with broker(listen=places, heartbeat=0.05):
                await until(lambda: len(up(edge)) == 1)
                assert said()[-1] == ("linked", "")

    address = DATAGRAMS
    with caplog.at_level(logging.INFO, "palio"):
        run(test)


def test_with_the_first_token_plain_datagrams_end(tmp_path: Path, opened: Counter[str]) -> None:
    async def test() -> None:
        async with (
            broker(listen=(ANY_PORT, DATAGRAMS), data=str(tmp_path), watch=0.05, heartbeat=0.1) as hub,
            broker(connect=hub.addresses[1:], heartbeat=0.1) as edge,
        ):
            await until(lambda: bool(up(hub) and up(edge)))
            Tokens(tmp_path).add(unrestricted("owner"))
            await until(lambda: not up(hub) and not up(edge))
            before = opened[str(hub.addresses[1])]
            await until(lambda: opened[str(hub.addresses[1])] > before + 2)
            assert not up(hub)

    run(test)


def test_a_message_that_fits_no_datagram_crosses_in_pieces() -> None:
    async def test() -> None:
        async with broker(listen=(ANY_PORT, DATAGRAMS)) as hub, broker(connect=hub.addresses[1:]) as edge:
            await until(lambda: len(up(edge)) == 1)
            async with (
                palio.connect(url(hub)) as subscriber,
                subscriber.subscribe("size >= 0", confirm="network") as events,
                palio.connect(url(edge)) as publisher,
            ):
                for size in (100, 100_000, 700_000, 200):
                    await publisher.publish({"size": size, "text": "x" * size}, confirm=True)
                for size in (100, 100_000, 700_000, 200):
                    assert (await anext(events)).get("text") == "x" * size

    run(test)


class Lossy:
    """A socket that loses and reorders some of what is sent."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._random = Random(7)
        self._late: list[tuple[bytes, Any]] = []

    def sendto(self, data: bytes, place: Any) -> None:
        chance = self._random.random()
        if chance < 0.1:
            return
        self._late.append((data, place))
        if chance > 0.3:
            for each in reversed(self._late):
                self._socket.sendto(*each)
            self._late = []


def test_pieces_that_are_lost_on_the_way_come_again() -> None:
    async def test() -> None:
        async with broker(listen=(ANY_PORT, DATAGRAMS)) as hub, broker(connect=hub.addresses[1:]) as edge:
            await until(lambda: len(up(edge)) == 1 and len(up(hub)) == 1)
            async with (
                palio.connect(url(hub)) as subscriber,
                subscriber.subscribe("n >= 0", confirm="network") as events,
                palio.connect(url(edge)) as publisher,
            ):
                # Losses are put below the link: no setting makes loopback lose datagrams.
                [link] = edge.neighbours._links.values()
                link.transport = Lossy(link.transport)  # type: ignore[union-attr]
                for n in range(8):
                    await publisher.publish({"n": n, "text": "x" * 200_000}, confirm=True)
                assert [(await anext(events)).get("n") for _ in range(8)] == list(range(8))

    run(test)

"""Both event loops: other tests run in uvloop where it is installed, some of them here without."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import closing
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from palio.network.event_loop import new_event_loop
from tests.network.links import test_tcp, test_udp
from tests.network.server import test_durable_subscriptions, test_process

SOME: list[Callable[..., None]] = [
    test_process.test_events_cross_three_brokers,
    test_process.test_a_client_that_lost_its_broker_comes_back_with_its_subscriptions,
    test_process.test_scripts_wait_for_what_they_ask,
    test_tcp.test_clients_and_links_over_tls_with_tokens,
    test_udp.test_events_cross_links_of_both_kinds,
    test_durable_subscriptions.test_events_wait_for_a_subscriber_that_is_away_and_come_until_they_are_acknowledged,
]


@pytest.fixture
def without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)  # as where it is not installed


def test_the_loop_is_uvloop_where_it_is_installed() -> None:
    uvloop = pytest.importorskip("uvloop")
    with closing(new_event_loop()) as loop:
        assert isinstance(loop, uvloop.Loop)


@pytest.mark.usefixtures("without_uvloop")
def test_the_loop_is_asyncios_own_otherwise() -> None:
    with closing(new_event_loop()) as loop:
        assert isinstance(loop, asyncio.SelectorEventLoop)


@pytest.mark.usefixtures("without_uvloop")
@pytest.mark.parametrize("test", SOME, ids=lambda each: each.__name__.removeprefix("test_"))
def test_all_works_without_uvloop(test: Callable[..., None], tmp_path: Path) -> None:
    given: dict[str, Any] = {"tmp_path": tmp_path}
    test(**{name: given[name] for name in signature(test).parameters})

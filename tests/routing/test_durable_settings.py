"""Settings of a durable subscription: their range, and what a request without them leaves."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from palio import DurableSettings, InvalidArgument
from palio.routing.client_messages import SubscribeClient, UnsubscribeClient
from tests.routing.lone_broker import Alone, wanted


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_events": 0}, "max_events is a whole number from 1 on, not 0"),
        ({"max_bytes": 1.5}, "max_bytes is a whole number from 1 on, not 1.5"),
        ({"max_deliveries": True}, "max_deliveries is a whole number from 1 on, not True"),
        ({"on_full": "drop"}, "on_full is one of refuse, drop_oldest, drop_newest, dead_letter, not 'drop'"),
        ({"expires_after": 0}, "expires_after is a positive number of seconds, not 0"),
        ({"expires_after": inf}, "expires_after is a positive number of seconds, not inf"),
        ({"expires_after": nan}, "expires_after is a positive number of seconds, not nan"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{said}$"):
        DurableSettings(**given)


def test_a_request_without_settings_leaves_those_that_the_subscription_has() -> None:
    broker = Alone()
    settings = DurableSettings(max_events=5)
    broker.asks(SubscribeClient("a", wanted("x > 1"), durable=True, settings=settings))
    broker.asks(SubscribeClient("a", wanted("x > 2"), durable=True))
    assert broker.broker.durable_queues.settings("desk", "a") == settings
    broker.asks(UnsubscribeClient("a"))
    assert broker.broker.durable_queues.settings("desk", "a") is None
    broker.asks(SubscribeClient("a", wanted("x > 2"), durable=True))
    assert broker.broker.durable_queues.settings("desk", "a") == DurableSettings()

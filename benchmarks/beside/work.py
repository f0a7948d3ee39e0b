"""Workload: the events published, the subscriptions, and how often each event must arrive.

A subscription asks for one group in twenty and for a fifth of all prices, so that it gets one event in a hundred. The
equality is there for brokers that can tell groups apart; the range is why conditions are not subjects.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import msgspec

GROUPS = 20
PRICES = 1_000
WIDTH = 200
TEXT = "x" * 140


class Seen(msgspec.Struct):
    """As much of an event as a condition and a clock need: nobody has to read the rest."""

    group: int
    price: int
    sent: float


read_seen: Callable[[bytes], Seen] = msgspec.json.Decoder(Seen).decode


def event(number: int, sent: float) -> dict[str, Any]:
    """The event of a number: about 200 bytes as JSON."""
    mixed = number * 7_919 % (GROUPS * PRICES)  # every group meets every price, in no order that anybody could use
    return {"group": mixed % GROUPS, "price": mixed // GROUPS, "sent": sent, "text": TEXT}


def group_of(subscription: int) -> int:
    return subscription % GROUPS


def lowest_of(subscription: int) -> int:
    return subscription * 617 % (PRICES - WIDTH + 1)


def condition(subscription: int) -> str:
    low = lowest_of(subscription)
    return f"group = {group_of(subscription)} AND price >= {low} AND price < {low + WIDTH}"


def compiled(subscription: int) -> Callable[[Seen], bool]:
    """The condition as a client would have it that gets everything."""
    low = lowest_of(subscription)
    text = f"lambda event: event.group == {group_of(subscription)} and {low} <= event.price < {low + WIDTH}"
    made: Callable[[Seen], bool] = eval(text)
    return made


class Expected:
    """How many deliveries the first so many events make, all together."""

    def __init__(self, subscriptions: int) -> None:
        lowest: list[list[int]] = [[] for _ in range(GROUPS)]
        for each in range(subscriptions):
            lowest[group_of(each)].append(lowest_of(each))
        self._lowest = [sorted(each) for each in lowest]
        self._sums = [0]

    def upto(self, events: int) -> int:
        while len(self._sums) <= events:
            self._sums.append(self._sums[-1] + self._of(len(self._sums) - 1))
        return self._sums[events]

    def complete(self, seen: int) -> int:
        """How many events are done when so many deliveries were seen, of those that were asked for until now."""
        return bisect_right(self._sums, seen) - 1

    def _of(self, number: int) -> int:
        published = event(number, 0.0)
        lowest, price = self._lowest[published["group"]], published["price"]
        return bisect_right(lowest, price) - bisect_right(lowest, price - WIDTH)

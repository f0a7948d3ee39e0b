"""Outages of links: filters that came by a broken link are kept until they have cost more than to withdraw them.

To withdraw the filters from behind a broken link floods this side of it, and to send them anew, when it comes back,
floods it again. To keep them costs useless events, which come to the broken link and end there. How long an outage
lasts, nobody knows; so the filters are kept until useless events have crossed about as many links as withdrawals would,
the rule of the ski rental problem (Shen §5.6). Every event carries the number of links that it crossed since it was
last of use.

Deviations from the source. Its threshold is the cost T of one withdrawal; here it is that of all filters that are kept.
Its claim to pay at most twice what is best fails where events cost between T and 2T in all: with the threshold T it
pays up to three times as much. With √2·T it pays at most 1 + √2 times as much, whatever happens, and no threshold does
better.

Without events nothing is paid. So filters are kept for a number of rounds at most, in case the link never comes back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import sqrt
from typing import Final

_THRESHOLD_FACTOR: Final = sqrt(2)
_MAX_ROUNDS_KEPT: Final = 10


def withdrawal_threshold(filters: int, brokers: int) -> float:
    """The links that useless events may cross before filters are withdrawn from brokers on one side of a link."""
    return _THRESHOLD_FACTOR * filters * brokers


@dataclass(slots=True)
class Outage:
    """A broken link whose filters are kept."""

    threshold: float
    cost: int = 0  # links that useless events have crossed
    rounds: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the filters are to be withdrawn."""
        return self.cost > self.threshold or self.rounds > _MAX_ROUNDS_KEPT


class Outages:
    """The broken links of one broker whose filters are kept."""

    __slots__ = ("links",)

    def __init__(self) -> None:
        self.links: dict[int, Outage] = {}

    def begin(self, link: int, filters: int, brokers: int) -> None:
        self.links[link] = Outage(withdrawal_threshold(filters, brokers))

    def end(self, link: int) -> bool:
        """Note that a link is back, or its filters withdrawn; whether they were kept."""
        return self.links.pop(link, None) is not None

    def charge(self, links: Iterable[int], hops: int) -> None:
        """Charge an event that ended at broken links to each of them."""
        for link in links:
            self.links[link].cost += hops

    def count_round(self) -> None:
        for outage in self.links.values():
            outage.rounds += 1

    def overdue(self) -> Collection[int]:
        """The links whose filters are to be withdrawn."""
        return [link for link, outage in self.links.items() if outage.is_over]

"""The filters of subscriptions whose candidates must be asked: read once, and remembered as long as there is room.

A condition that no index holds whole is asked of every candidate. Reading its text again each time would take ten to
a hundred times as long as asking it. A filter takes some kilobytes though, two hundred times its text or less, so
what is remembered is bounded by the length of the texts.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from palio.filters.filter import Filter

if TYPE_CHECKING:
    from palio.matching.subscription import Subscription

MOST_TEXT: Final = 1 << 21  # characters of all conditions that are remembered
_AT_LEAST: Final = 40  # what the shortest condition counts for


class RememberedFilters:
    """Filters by the numbers of subscriptions; the oldest are forgotten first. Many threads may use one."""

    def __init__(self) -> None:
        self._filters: OrderedDict[int, tuple[Filter, int]] = OrderedDict()
        self._text = 0
        self._lock = threading.Lock()

    def get(self, number: int) -> Filter | None:
        found = self._filters.get(number)
        return None if found is None else found[0]

    def read(self, number: int, subscription: Subscription) -> Filter:
        """The filter of a subscription that is not remembered; from now on it is."""
        where = subscription.where
        length = max(_AT_LEAST, len(where if isinstance(where, str) else str(where)))
        made = subscription.filter
        with self._lock:
            if number not in self._filters:
                self._filters[number] = made, length
                self._text += length
            while self._text > MOST_TEXT:
                self._text -= self._filters.popitem(last=False)[1][1]
        return made

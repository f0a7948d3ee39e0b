"""Who asks for a column that is not there? Perhaps it was mistyped, and a condition that never matches says nothing."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from palio.errors import InvalidSubscription
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from palio.spark.rendezvous.rows import SubscriptionRows

_LOOKED_AT: Final = 5_000  # subscriptions: to look at a million would take longer than to match them
_MOST_NAMED: Final = 3
SAID: Final = "the events have no column for"  # how the warning begins


def warn_of(absent: Sequence[str], wants: Matcher | SubscriptionRows) -> None:
    """Name the attributes that no column is, with some of the subscriptions that look at them; to whoever called."""
    if absent:
        by_name = _who_looks_at(absent, wants)
        told = [f"{name} ({', '.join(ids)})" if (ids := by_name[name]) else name for name in absent[:_MOST_NAMED]]
        more = len(absent) - _MOST_NAMED
        named = ", ".join(told) + (f" and {more:,} more" if more > 0 else "")
        warnings.warn(f"{SAID} {named}: NULL to every condition", stacklevel=3)


def _who_looks_at(absent: Sequence[str], wants: Matcher | SubscriptionRows) -> dict[str, list[str]]:
    subscriptions: Iterable[Subscription] = (
        wants.sample if isinstance(wants, SubscriptionRows) else map(wants.__getitem__, wants)
    )
    found: dict[str, list[str]] = {name: [] for name in absent}
    for each in islice(subscriptions, _LOOKED_AT):
        try:
            names = each.filter.attributes.intersection(found)
        except InvalidSubscription:  # it is left out, and that is said elsewhere
            continue
        for name in names:
            if len(found[name]) < _MOST_NAMED:
                found[name].append(each.id)
    return found

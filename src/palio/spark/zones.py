"""On which clocks is a time without a zone read?

On those on which the conditions that look at it read their own times without one: then `n > TIMESTAMP_NTZ'…'` and
`hour(n) = 22` mean the same in every session. One column is handed over once, so conditions of several zones cannot all
be right; then it is read on the session's clocks, as Spark reads it where it meets a moment, and a warning says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from functools import cache

from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from palio.spark.attributes import say


def zone_of(subscription: Subscription) -> str:
    """The zone in which a subscription reads times without one."""
    where = subscription.where
    return where.timezone if isinstance(where, Filter) else subscription.timezone


def zones_of(matcher: Matcher) -> frozenset[str]:
    """The zones of the subscriptions of a matcher; unpacks all of them."""
    wants: Iterable[str | Subscription] = matcher.subscriptions().wants
    return frozenset("UTC" if isinstance(want, str) else zone_of(want) for want in wants)


def reading_zone(zones: Callable[[], Set[str]], session: str) -> Callable[[str], str]:
    """For the name of a column without a zone, that in which it is read; the zones are asked for once, if ever."""
    known = cache(zones)

    def of(column: str) -> str:
        own = known()
        if len(own) > 1:
            several = ", ".join(sorted(own))
            say(f"{column} has times without a zone, and conditions read theirs in {several}: here it is {session}")
        return next(iter(own)) if len(own) == 1 else session

    return of

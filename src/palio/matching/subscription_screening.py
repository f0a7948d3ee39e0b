"""Addition of many subscriptions to a matcher, some of which may be unusable.

A matcher adds many subscriptions at once, all or none, and most of them without making a filter of each. So all are
offered together, and only if that fails every one is read, to find all that are unusable.
"""

from __future__ import annotations

from collections.abc import Sequence

from palio.errors import InvalidSubscription
from palio.matching.columnar.bulk_load import find_unreadable
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription, Subscriptions


def add_usable(
    matcher: Matcher, subscriptions: Sequence[Subscription] | Subscriptions
) -> dict[str, InvalidSubscription]:
    """Add the usable subscriptions, whose ids are distinct; returns the errors of the others by id, in their order.

    Costs one addition where all are usable, otherwise up to three.
    """
    columns = subscriptions if isinstance(subscriptions, Subscriptions) else Subscriptions.of(subscriptions)
    try:
        matcher.add_subscriptions(columns)
    except InvalidSubscription:
        unusable = find_unreadable(columns)
        matcher.add_subscriptions(columns.at(at for at, id in enumerate(columns.ids) if id not in unusable))
        return unusable
    return {}

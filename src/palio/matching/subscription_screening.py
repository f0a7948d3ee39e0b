"""Addition of many subscriptions to a matcher, some of which may be unusable.

A matcher adds many subscriptions at once, all or none, and most of them without making a filter of each. So all are
offered together, and only if that fails in small groups, to find every unusable one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from palio.errors import InvalidSubscription
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription

_GROUP_SIZE: Final = 500


def add_usable(matcher: Matcher, subscriptions: Sequence[Subscription]) -> dict[str, InvalidSubscription]:
    """Add the usable subscriptions, whose ids are distinct; returns the errors of the others by id, in their order.

    Costs one addition where all are usable; otherwise up to three, and a filter for each member of a failed group.
    """
    if _try_add(matcher, subscriptions):
        return {}
    unusable: dict[str, InvalidSubscription] = {}
    for start in range(0, len(subscriptions), _GROUP_SIZE):
        group = subscriptions[start : start + _GROUP_SIZE]
        # Tried on an empty matcher: `matcher` itself gets the usable ones of all groups in one addition, below.
        if not _try_add(Matcher(), group):
            unusable.update(_find_unusable(group))
    matcher.add_subscriptions([each for each in subscriptions if each.id not in unusable])
    return unusable


def _find_unusable(group: Sequence[Subscription]) -> dict[str, InvalidSubscription]:
    unusable: dict[str, InvalidSubscription] = {}
    for subscription in group:
        try:
            _ = subscription.filter  # made on access
        except InvalidSubscription as error:
            unusable[subscription.id] = error
    return unusable


def _try_add(matcher: Matcher, subscriptions: Sequence[Subscription]) -> bool:
    try:
        matcher.add_subscriptions(subscriptions)
    except InvalidSubscription:
        return False
    return True

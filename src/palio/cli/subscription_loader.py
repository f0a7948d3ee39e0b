"""Loader of subscriptions from a file into a matcher; faulty ones are reported, in the order of the file.

A matcher takes many subscriptions at once, all or none, and most of them without making a filter of each. So they are
offered together, and only if that fails in small groups, to find every faulty one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from palio.errors import InvalidSubscription, PalioError
from palio.files import SubscriptionLine
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription

# Line number, place, id if it is known, reason.
Fault: TypeAlias = tuple[int, str, str | None, PalioError | str]

_GROUP_SIZE: Final = 500
_SUBSCRIPTIONS_PER_PROGRESS_UPDATE: Final = 1_000


def add_valid_subscriptions(
    matcher: Matcher,
    lines: Iterable[SubscriptionLine],
    language: str,
    timezone: str,
    faults: list[Fault],
    show: Callable[[int], None],
) -> list[Subscription]:
    """Add the valid subscriptions of a file to a matcher, and return them; the others go to `faults`."""
    line_of: dict[str, SubscriptionLine] = {}
    found: list[Subscription] = []
    for line in lines:
        taken = line_of.setdefault(line.id, line)
        if taken is not line:
            faults.append((line.line, line.place, line.id, f"the id is taken already, in {taken.place}"))
            continue
        own = line.language or language
        zone = line.timezone or timezone
        try:
            found.append(Subscription(line.id, line.where, own, line.subscriber, line.metadata, zone))
        except InvalidSubscription as error:
            faults.append((line.line, line.place, line.id, error.reason))
            continue
        if len(found) % _SUBSCRIPTIONS_PER_PROGRESS_UPDATE == 0:
            show(len(found))
    show(len(found))
    if not _try_add(matcher, found):
        found = _select_valid(found, line_of, faults)
        matcher.add_subscriptions(found)
    return found


def _select_valid(
    found: list[Subscription], line_of: dict[str, SubscriptionLine], faults: list[Fault]
) -> list[Subscription]:
    usable: list[Subscription] = []
    for start in range(0, len(found), _GROUP_SIZE):
        group = found[start : start + _GROUP_SIZE]
        if _try_add(Matcher(), group):
            usable += group
            continue
        for each in group:
            try:
                _ = each.filter
            except InvalidSubscription as error:
                cause = error.__cause__
                reason = cause if isinstance(cause, PalioError) else error.reason
                line = line_of[each.id]
                faults.append((line.line, line.place, each.id, reason))
            else:
                usable.append(each)
    return usable


def _try_add(matcher: Matcher, subscriptions: list[Subscription]) -> bool:
    try:
        matcher.add_subscriptions(subscriptions)
    except InvalidSubscription:
        return False
    return True

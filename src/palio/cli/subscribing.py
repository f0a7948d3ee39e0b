"""Which subscriptions of a file can be used? All but those that are reported, in the order of the file.

A matcher takes many subscriptions at once, all or none, and most of them without making a filter of each. So
they are offered together, and only where that fails in small groups, to find every faulty one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from palio.errors import InvalidSubscription, PalioError
from palio.files import SubscriptionLine
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription

# In which order, where, the id where one is known, the reason.
Fault: TypeAlias = tuple[int, str, str | None, PalioError | str]

_GROUP: Final = 500
_SHOWN_EVERY: Final = 1_000


def add_usable(
    matcher: Matcher,
    lines: Iterable[SubscriptionLine],
    language: str,
    timezone: str,
    faults: list[Fault],
    show: Callable[[int], None],
) -> list[Subscription]:
    """Add the subscriptions of a file, and answer them; what cannot be used goes to `faults`."""
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
        if len(found) % _SHOWN_EVERY == 0:
            show(len(found))
    show(len(found))
    if not _added(matcher, found):
        found = _without_faulty(found, line_of, faults)
        matcher.add_subscriptions(found)
    return found


def _without_faulty(
    found: list[Subscription], line_of: dict[str, SubscriptionLine], faults: list[Fault]
) -> list[Subscription]:
    usable: list[Subscription] = []
    for start in range(0, len(found), _GROUP):
        group = found[start : start + _GROUP]
        if _added(Matcher(), group):
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


def _added(matcher: Matcher, subscriptions: list[Subscription]) -> bool:
    try:
        matcher.add_subscriptions(subscriptions)
    except InvalidSubscription:
        return False
    return True

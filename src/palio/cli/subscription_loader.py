"""Loader of subscriptions from a file into a matcher; faulty ones are reported with their place in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from palio.errors import InvalidSubscription, PalioError
from palio.files import SubscriptionLine
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from palio.matching.subscription_screening import add_usable

# Line number, place, id if it is known, reason.
Fault: TypeAlias = tuple[int, str, str | None, PalioError | str]

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
    subscriptions: list[Subscription] = []
    for line in lines:
        taken = line_of.setdefault(line.id, line)
        if taken is not line:
            faults.append((line.line, line.place, line.id, f"the id is taken already, in {taken.place}"))
            continue
        used_language = line.language or language
        zone = line.timezone or timezone
        try:
            subscriptions.append(Subscription(line.id, line.where, used_language, line.subscriber, line.metadata, zone))
        except InvalidSubscription as error:
            faults.append((line.line, line.place, line.id, error.reason))
            continue
        if len(subscriptions) % _SUBSCRIPTIONS_PER_PROGRESS_UPDATE == 0:
            show(len(subscriptions))
    show(len(subscriptions))
    unusable = add_usable(matcher, subscriptions)
    for id, refusal in unusable.items():
        line = line_of[id]
        # The cause has the position in the condition, which the terminal shows with a caret.
        cause = refusal.__cause__
        faults.append((line.line, line.place, id, cause if isinstance(cause, PalioError) else refusal.reason))
    return [each for each in subscriptions if each.id not in unusable] if unusable else subscriptions

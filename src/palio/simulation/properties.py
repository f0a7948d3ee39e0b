"""Safety and liveness of publish/subscribe, as checkers over the trace of a run (Jerzak §7).

Safety: an event is delivered to a subscription at most once, only if somebody published it before, and only if the
subscription stands and wants it. Liveness: from some time on, every event that is published and that a subscription
wants which stands for good is delivered to it. Eventual safety: from some time on, safety holds, whatever state a fault
has left.

The flooding oracle (`oracle`) judges by moments at which the network was quiet, and knows what each fault excuses.
These checkers know nothing of faults or of the protocols, and go by virtual time alone: they say of any upkeep whether
what faults left behind is gone by the time that it promises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from palio.events import Event
from palio.simulation.history import Delivery, History, Lifetime, Publication, Subscription
from palio.simulation.oracle import was_advertised

Property = Literal["at most once", "only published", "only subscribed", "delivered"]


@dataclass(frozen=True, slots=True)
class Violation:
    """A property that one subscription and one event break, at a virtual time."""

    property: Property
    subscription: Subscription
    event: Event
    time: float

    def __str__(self) -> str:
        return f"not {self.property!r} at {self.time:.6f}: {self.event.to_json()} for {self.subscription}"


def find_unsafe(history: History, deliveries: Sequence[Delivery], since: float = 0.0) -> list[Violation]:
    """The deliveries since a time that break safety. The end of a subscription takes effect when it is on disk."""
    published = {each.event.id: each.time for each in history.publications}
    seen: set[tuple[Subscription, str]] = set()
    found: list[Violation] = []
    for each in deliveries:
        pair = each.subscription, each.event.id
        broken: Property | None = None
        if published.get(each.event.id, each.time + 1) > each.time:
            broken = "only published"
        elif not _is_subscribed(history.subscriptions[each.subscription], each):
            broken = "only subscribed"
        elif pair in seen:
            broken = "at most once"
        seen.add(pair)
        if broken is not None and each.time >= since:
            found.append(Violation(broken, each.subscription, each.event, each.time))
    return found


def find_undelivered(history: History, deliveries: Sequence[Delivery], since: float) -> list[Violation]:
    """The events published since a time that subscriptions want which stood by then, stand still, and did not get
    them."""
    delivered = {(each.subscription, each.event.id) for each in deliveries}
    standing = [
        subscription
        for subscription, life in history.subscriptions.items()
        if life.made_at <= since and life.ended is None
    ]
    return [
        Violation("delivered", subscription, publication.event, publication.time)
        for publication in history.publications
        if publication.time >= since and was_advertised(history, publication)
        for subscription in standing
        if _is_joined(publication, subscription)
        and subscription.wanted.matches(publication.event)
        and (subscription, publication.event.id) not in delivered
    ]


def _is_subscribed(life: Lifetime, delivery: Delivery) -> bool:
    stands = life.made_at <= delivery.time <= life.ended_at
    return stands and delivery.subscription.wanted.matches(delivery.event)


def _is_joined(publication: Publication, subscription: Subscription) -> bool:
    """Whether a way led from the publisher's broker to the subscriber's: liveness asks for none that crosses a cut."""
    parts = publication.components
    return subscription.at < len(parts) and parts[subscription.at] == parts[publication.at]

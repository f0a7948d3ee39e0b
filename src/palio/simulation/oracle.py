"""Flooding oracle: the deliveries that had to be made, judged against those that were.

Subscribers must receive what flooding every event to all brokers and filtering there would deliver. For a subscription
and an event: it *must* arrive once, if the event matches, the subscription had settled before it was published, and
outlived it; it *must not*, if it does not match, or if the subscription was not there then; it *may*, otherwise, and
never twice. Where links or brokers came or went, it may, until the network has come to rest again; and no event passes
between parts of a network that is torn. A broker that crashes forgets its duplicate filter: where there are circles, an
event that was under way by two ways may come to its clients again. Where tables were corrupted, anything may come or be
missing until they must have become right.

A confirmed event *must* be in the queue of each durable subscription that was known, at some rest, where it was
accepted, whatever broke before or since; once the network has come to rest with both brokers joined again it is there,
exactly once; again where the standby of the subscription was promoted. With a standby it must be there although the
broker that accepted it is lost with its disk. Until then, and for other subscriptions, it is under way for as long as
it takes, and *may* come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from palio.events import Event
from palio.routing.propagation.neighbour_updates import is_advertised
from palio.simulation.history import Delivery, History, Lifetime, Publication, Subscription

Expectation = Literal["must", "must not", "may"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The differences between deliveries and the oracle's expectations."""

    missing: tuple[tuple[Subscription, Event], ...]
    wrong: tuple[tuple[Subscription, Event], ...]
    repeated: tuple[tuple[Subscription, Event], ...]
    required: int
    """Pairs that had to be delivered."""
    allowed: int
    """Pairs that might have been, or not."""
    lost: int
    """Pairs that would have had to be delivered, had nothing broken meanwhile, and were not."""

    @property
    def is_right(self) -> bool:
        return not (self.missing or self.wrong or self.repeated)

    def __str__(self) -> str:
        if self.is_right:
            lost = f"; {self.lost} were lost while links or brokers came or went" if self.lost else ""
            return f"right: {self.required} deliveries had to be, {self.allowed} might have been{lost}"
        lines = []
        for what, pairs in (("missing", self.missing), ("wrong", self.wrong), ("repeated", self.repeated)):
            lines += [f"{what}: {event.to_json()} for {subscription}" for subscription, event in pairs]
        return "\n".join(lines)


def judge(history: History, deliveries: list[Delivery], joined: Sequence[int | None] = ()) -> Verdict:
    """Compare deliveries with expectations; `joined` are the parts of the network, where it is at rest."""
    delivered = Counter((each.subscription, each.event.id) for each in deliveries)
    missing, wrong, repeated = [], [], []
    required = allowed = lost = 0
    for publication in history.publications:
        for subscription, life in history.subscriptions.items():
            expected = expectation(history, publication, subscription, life, joined)
            count = delivered[subscription, publication.event.id]
            pair = subscription, publication.event
            required += expected == "must"
            allowed += expected == "may"
            lost += expected == "may" and not count and would_arrive(history, publication, life)
            if expected == "must" and not count:
                missing.append(pair)
            if expected == "must not" and count:
                wrong.append(pair)
            if count > 1 and not _may_repeat(history, publication, subscription):
                repeated.append(pair)
    return Verdict(tuple(missing), tuple(wrong), tuple(repeated), required, allowed, lost)


def expectation(
    history: History,
    publication: Publication,
    subscription: Subscription,
    life: Lifetime,
    joined: Sequence[int | None] = (),
) -> Expectation:
    """The expectation for one subscription and one event."""
    if publication.after in history.corrupted:
        return "may"
    if not subscription.wanted.matches(publication.event) or _was_over(history, publication, life):
        return "must not"
    if publication.confirm and _is_owed(history, publication, subscription, life):
        place = history.place(subscription)
        if not joined or joined[place] is None:
            return "may"
        # With a standby it is on the disks of both homes, whatever has become of the broker that accepted it.
        return "must" if subscription in publication.guarded or joined[place] == joined[publication.at] else "may"
    # Made at a later rest. A confirmed event may still be in the log, and be tried again after the subscription came.
    if life.made_after > publication.after:
        return "may" if publication.confirm else "must not"
    # Its publisher repeats it, later than it was first published.
    if publication.event.id in history.refused:
        return "may"
    # Where it is not confirmed, nobody tries again to queue an event that a full disk has refused.
    refused = subscription.durable and (publication.after, subscription.at) in history.full
    calm = publication.after not in history.disturbed and not refused
    # A broker that was added later was joined to none.
    parts = publication.components
    was_joined = subscription.at < len(parts) and parts[subscription.at] == parts[publication.at]
    return "must" if calm and was_joined and would_arrive(history, publication, life) else "may"


def would_arrive(history: History, publication: Publication, life: Lifetime) -> bool:
    """Whether a subscription had settled before an event that it matches, and outlived it."""
    outlived = life.ended_after is None or life.ended_after > publication.after
    return life.made_after < publication.after and outlived and was_advertised(history, publication)


def _is_owed(history: History, publication: Publication, subscription: Subscription, life: Lifetime) -> bool:
    """Whether an event was confirmed, and must reach a subscription that stays."""
    is_confirmed = subscription in publication.owed and publication.event.id in history.accepted
    return is_confirmed and life.ended is None and was_advertised(history, publication)


def _may_repeat(history: History, publication: Publication, subscription: Subscription) -> bool:
    """Whether an event may come twice: the subscriber's broker crashed, and it is not in a durable queue."""
    if publication.after in history.corrupted:
        return True
    if subscription in history.places:
        return True
    if publication.confirm:
        return not subscription.durable and any(
            broker == subscription.at and rest >= publication.after for rest, broker in history.crashed
        )
    return (publication.after, subscription.at) in history.crashed


def _was_over(history: History, publication: Publication, life: Lifetime) -> bool:
    """Whether a subscription had ended when an event was published."""
    if life.ended is None or life.ended_after is None:
        return False
    # An end takes effect when it is on disk: at once, or by the next rest at the latest.
    if history.slow_disks:
        return life.ended_after < publication.after
    return life.ended < publication.operation


def was_advertised(history: History, publication: Publication) -> bool:
    """Whether the advertisements that an event needs had settled; always, where none are needed."""
    if not history.advertised:
        return True
    lives = {
        advertisement.offered: life
        for advertisement, life in history.advertisements.items()
        if (advertisement.at, advertisement.client) == (publication.at, publication.client)
    }
    settled = [
        offered
        for offered, life in lives.items()
        if life.made_after < publication.after and (life.ended is None or life.ended > publication.operation)
    ]
    return is_advertised(settled, publication.event.attributes)

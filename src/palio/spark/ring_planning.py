"""Plan of a ring of peers for an archive: its mapping, chosen by statistics that Spark measures.

The archive is sampled and matched as by `estimate`, with all subscriptions at once. The planner of the rendezvous join
tries the mappings on a part of that sample, and weighs keys of events against keys of subscriptions by how often either
is sent. The ring is described by the sample, so that every peer makes the same keys of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palio.errors import InvalidArgument
from palio.events import Event
from palio.peers.mapping_choice import Samples, choose_ring_mapping
from palio.peers.ring_description import MAX_SAMPLED, RingDescription, plan_ring
from palio.spark.match_job import check_events, project_for
from palio.spark.physical_plan import sample as sample_events
from palio.spark.subscription_analysis import count_matches, draw_sample, free_id
from palio.spark.subscriptions import Wants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class RingPlan:
    """What `palio peer --plan` founds a ring with, and what it was chosen by."""

    description: RingDescription
    events: int
    """In the whole archive."""
    sampled: int
    subscriptions: int
    matches_per_event: float
    """Subscriptions that an event of the sample matches, on average."""
    event_copies: float
    """Peers that an event goes to by its keys, on average; with those of matches, what it costs."""
    subscription_copies: float
    """Peers that a subscription is stored at by its keys, on average, without copies for crashes."""

    @property
    def mapping(self) -> str:
        return self.description.mapping

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that have keys."""
        return self.description.attributes

    def save(self, path: str | Path) -> None:
        """Write the plan for `palio peer --plan`."""
        Path(path).write_bytes(self.description.encode())


def ring_plan(
    events: DataFrame,
    subscriptions: Any,
    *,
    peers: int = 100,
    events_per_second: float | None = None,
    sample: int = 100_000,
    seed: int = 0,
) -> RingPlan:
    """Plan a ring of about so many peers for events like those of an archive, and for subscriptions as `match` takes.

    Peers renew their subscriptions every few seconds. With `events_per_second`, keys of events weigh by how many are
    published for each renewal; without, as much as keys of subscriptions. Reads about `sample` events twice.
    """
    check_events(events)
    if type(peers) is not int or peers < 1:
        raise InvalidArgument(f"a ring has at least one peer, not {peers!r}")
    if events_per_second is not None and not 0 < events_per_second < inf:
        raise InvalidArgument(f"events_per_second is a number above 0, not {events_per_second!r}")
    wants = Wants.read(events.sparkSession, subscriptions)
    listed = wants.matcher.subscriptions()
    if not len(listed):
        raise InvalidArgument("there is no subscription to plan a ring for")
    taken, total = draw_sample(events, sample, seed)
    sampled, counts = count_matches(taken, wants, free_id(set(listed.ids)))
    if not sampled:
        raise InvalidArgument("there is no event to plan a ring by")
    step = -(-len(listed) // MAX_SAMPLED)
    some = [listed[at] for at in range(0, len(listed), step)]
    drawn = _events_of(sample_events(taken, project_for(events, wants.matcher, ()), some))
    conditions = [each.filter for each in some]
    renewals_per_second = len(listed) * 3 / RingDescription().lease  # a lease is renewed after a third of it
    weight = 1.0 if events_per_second is None else events_per_second / renewals_per_second
    choice = choose_ring_mapping(conditions, drawn, peers, weight)
    assert choice is not None  # there are samples of both
    return RingPlan(
        plan_ring(conditions, drawn, peers, choice=choice),
        total,
        sampled,
        len(listed),
        sum(matches for matches, _ in counts.values()) / sampled,
        choice.event_copies,
        choice.subscription_copies,
    )


def _events_of(samples: Samples) -> list[Event]:
    if samples.events is not None:
        return list(samples.events)
    from palio.events.arrow import read_column

    columns = [read_column(each) for each in samples.columns.values()]
    return [Event(dict(zip(samples.columns, row, strict=True))) for row in zip(*columns, strict=True)]

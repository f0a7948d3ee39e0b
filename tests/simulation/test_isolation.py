"""Isolation: whatever one party does or omits, confirmed events of others are delivered within a bounded time.

Parties are away for ever, are slow, have full queues that nobody reads, or subscribe with a pattern whose search would
take seconds for each event. Time is virtual here, so that the cost of a search is bounded by its steps, as brokers do
it.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from palio import DurableSettings, Event, PalioError
from palio.filters.work_limit import WorkLimit, work_limit
from palio.routing.durable_settings import OnFull
from palio.simulation import Network, Subscription, topologies

BOUND_SECONDS = 3.0  # of virtual time, in which an event for parties that behave is in all their queues
SLOWNESS_SECONDS = 0.1  # that a slow broker takes for a batch
SPILL = 5
TOPICS = 6
EVENTS = 60  # of which each topic gets more than the spill holds
STEPS = 1_000_000  # of one search, as brokers limit them
TEXT = "ab" * 4_000  # whose search takes more than that
HOSTILE = "text RLIKE '(a|b)*a(a|b){300}c'"


class Parties:
    """A random network with durable subscriptions, some of whose owners misbehave for as long as it runs."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        brokers = self.brokers = random.randint(2, 6)
        options: dict[str, float] = {"spill": SPILL, "disk": random.choice([0.0, 0.002, 0.2])}
        if random.random() < 0.3:
            options |= {"loss": 0.05, "reordering": 0.1}
        propagation = random.choice(["identity", "covering", "simple"])
        self.net = Network(topologies.random_tree(brokers, random), propagation=propagation, seed=seed, options=options)
        self.net.run()
        self.counts: Counter[str] = Counter()
        self.policies: dict[Subscription, OnFull] = {}
        for at in range(brokers):
            for _ in range(random.randint(0, 3)):
                policy: OnFull = random.choice(["refuse", "refuse", "drop_oldest", "drop_newest", "dead_letter"])
                topics = random.sample(range(TOPICS), random.randint(1, 2))
                where = f"topic IN ({', '.join(map(str, topics))})"
                settings = DurableSettings(on_full=policy)
                made = self.net.subscribe(at, where, durable=True, settings=settings, client=f"principal {at}")
                self.policies[made] = policy
        for at in range(brokers):
            if random.random() < 0.3:
                self.net.subscribe(at, HOSTILE, durable=random.random() < 0.5, client=f"hostile {at}")
                self.counts["hostile"] += 1
        self.net.run()
        self.publisher = random.randrange(brokers)
        self.bad: set[Subscription] = set()

    def misbehave(self) -> None:
        """Some brokers go away for ever, with all that is behind them, and some take long for each batch. Some queues
        are full, and nobody reads them."""
        net, random = self.net, self.random
        for at in range(self.brokers):
            if at != self.publisher and random.random() < 0.3:
                net.crash(at)
                self.counts["away"] += 1
            elif random.random() < 0.2:
                net._engine.hosts[at].slowness = random.uniform(0.01, SLOWNESS_SECONDS)
                self.counts["slow"] += 1
        parts = net._joined()
        reachable = [at for at in range(self.brokers) if parts[at] == parts[self.publisher]]
        for each in self.policies:
            if each.at not in reachable:
                self.bad.add(each)
            elif self.policies[each] == "refuse" and random.random() < 0.3:
                net.set_queue_full(each, True)
                self.bad.add(each)
                self.counts["full"] += 1
        net.run(BOUND_SECONDS)

    def publish(self, number: int) -> None:
        """An event is refused only where one that misbehaves wants it; otherwise all that behave have it in time."""
        topic = number % TOPICS
        wanting = [each for each in self.policies if each.wanted.matches(Event.from_dict({"topic": topic}))]
        may_be_refused = any(each in self.bad and self.policies[each] == "refuse" for each in wanting)
        try:
            content = {"topic": topic, "n": number, "text": TEXT}
            event = self.net.publish(self.publisher, content, confirm=True, settled=False)
        except PalioError as error:
            assert may_be_refused, error
            assert "busy" in str(error)
            self.counts["refused"] += 1
            return
        self.net.run(BOUND_SECONDS)
        assert self.net.is_confirmed(event)
        for each in wanting:
            if each not in self.bad:
                assert event in self.net.queue(each), f"{each} lacks event {number}"
                self.counts["delivered"] += 1

    def behave_again(self) -> None:
        for at in range(self.brokers):
            self.net._engine.hosts[at].slowness = 0.0
            if not self.net.is_running(at):
                self.net.restart(at)
        for each in self.bad:
            self.net.set_queue_full(each, False)
        self.net.run()
        if set(self.policies.values()) <= {"refuse"}:
            verdict = self.net.verdict()
            assert verdict.is_right, verdict
        assert all(not self.net.unfinished(at) for at in range(self.brokers))


def isolated(seed: int) -> Counter[str]:
    limit = WorkLimit(STEPS)
    with work_limit(limit):
        parties = Parties(seed)
        parties.misbehave()
        for number in range(EVENTS):
            parties.publish(number)
        parties.behave_again()
    assert not limit.reached or parties.counts["hostile"]
    parties.counts["searches given up"] = limit.reached.total()
    return parties.counts


def schedules(seeds: range) -> Counter[str]:
    """Run each seed, and name the one that fails."""
    total: Counter[str] = Counter()
    for seed in seeds:
        try:
            total += isolated(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    return total


def test_nobody_stops_the_events_of_others() -> None:
    counts = schedules(range(40))
    assert counts["away"] > 10
    assert counts["full"] > 10
    assert counts["slow"] > 10
    assert counts["refused"] > 100
    assert counts["delivered"] > 500
    assert counts["hostile"] > 10
    assert counts["searches given up"] > 100


@pytest.mark.deep
def test_nobody_stops_the_events_of_others_in_a_thousand_schedules() -> None:
    counts = schedules(range(1_000, 2_000))
    print(f"1,000 schedules: {dict(counts)}")

"""Costs of matching: attributed to subscriptions, shown, and charged to a budget beyond which one is put aside."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import palio
from palio import Filter
from palio.errors import LimitReached, PalioError, Refused
from palio.network.security.quotas import BrokerLimits
from palio.network.server.matching_costs import ConditionCost, MatchingCosts, Sample
from palio.network.server.process import Server
from tests.network.running import broker, run, until, url

SLOW = "t RLIKE 'a[ab]{30}c'"
HOSTILE = "t RLIKE '(a|b)*a(a|b){900}c'"
LENIENT = BrokerLimits(pattern_size=10_000)


class Budget:
    """Costs of a broker whose clock and measurements are the test's."""

    def __init__(self) -> None:
        self.now = 0.0
        self.aside: list[tuple[str, str]] = []
        self.costs = MatchingCosts(
            BrokerLimits(matching_share=0.5, matching_burst_seconds=2.0),
            lambda: self.now,
            lambda call: asyncio.Future(),
            lambda client, name: client.split(".")[0],
            self._on_over,
        )

    def _on_over(self, cost: ConditionCost, error: LimitReached) -> None:
        self.aside.append((cost.name, error.limit))
        self.costs.remove(cost.client, cost.name)


def test_the_time_of_a_batch_is_divided_in_proportion_to_the_sample() -> None:
    budget = Budget()
    for name in ("x", "y"):
        budget.costs.add("eve.1", name, Filter.parse(f"{name} RLIKE 'ab+c'"))
    budget.costs.attribute(1.0, 2_000, Sample({("eve.1", "x"): 0.3, ("eve.1", "y"): 0.1}, 1_000))
    found = {each["subscription"]: each for each in budget.costs.describe_slowest(10)}
    assert [each["subscription"] for each in budget.costs.describe_slowest(10)] == ["x", "y"]
    assert found["x"]["seconds"] == pytest.approx(0.6)
    assert found["y"]["share"] == pytest.approx(0.2)
    assert not budget.aside


def test_a_principal_over_its_budget_loses_its_worst_condition_and_others_go_on() -> None:
    budget = Budget()
    budget.costs.add("eve.1", "worst", Filter.parse(SLOW))
    budget.costs.add("eve.1", "other", Filter.parse("t LIKE '%x%'"))
    budget.costs.add("bob.2", "his", Filter.parse("t LIKE '%y%'"))
    sample = Sample({("eve.1", "worst"): 0.5, ("eve.1", "other"): 0.002, ("bob.2", "his"): 0.0001}, 1_000)
    for _ in range(3):
        budget.costs.attribute(1.0, 2_000, sample)
    assert budget.aside == [("worst", "matching_share")]
    budget.costs.attribute(1.0, 2_000, Sample({("bob.2", "his"): 0.0005}, 1_000))
    assert len(budget.aside) == 1


def test_conditions_that_are_quick_for_each_event_are_not_charged() -> None:
    budget = Budget()
    budget.costs.add("eve.1", "x", Filter.parse("t LIKE '%x%'"))
    for _ in range(10):
        budget.costs.attribute(1.0, 1_000_000, Sample({("eve.1", "x"): 0.0001}, 100))
    assert not budget.aside


def test_a_publisher_of_long_texts_does_not_use_up_the_budgets_of_others() -> None:
    budget = Budget()
    budget.costs.add("bob.1", "x", Filter.parse("upper(t) = 'X'"))
    for _ in range(100):
        budget.costs.attribute(1.0, 1_000_000, Sample({("bob.1", "x"): 0.01}, 1_000_000))
    assert not budget.aside


def test_a_budget_refills() -> None:
    budget = Budget()
    budget.costs.add("eve.1", "x", Filter.parse(SLOW))
    for _ in range(10):
        budget.costs.attribute(1.0, 1_000, Sample({("eve.1", "x"): 1.0}, 1_000))
        budget.now += 2.0
    assert not budget.aside


def spend_budget(server: Server, name: str) -> None:
    """Charge more than a budget for a subscription, as after slow batches."""
    costs = server.host.conditions.costs
    [key] = [key for key in costs._costs if key[1] == name]
    costs.attribute(1_000.0, 1_000, Sample({key: 1_000.0}, 1_000))


def test_a_subscription_over_budget_ends_with_the_reason_and_others_are_served() -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as eve, palio.connect(url(server)) as bob:
            async with bob.subscribe("n > 0") as his, eve.subscribe(SLOW) as hers:
                await until(lambda: len(server.host.conditions.costs._costs) == 1)
                [(_, name)] = server.host.conditions.costs._costs
                spend_budget(server, name)
                with pytest.raises(PalioError, match="matching_share"):
                    await anext(hers)
                await bob.publish({"n": 1}, confirm=True)
                assert (await anext(his)).get("n") == 1
            assert server.host.drops["condition put aside"] == 1

    run(test)


def test_a_durable_subscription_over_budget_keeps_its_queue_and_stays_put_aside_over_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker(data=tmp_path) as server, palio.connect(url(server)) as client:
            async with client.subscribe(f"n = 1 OR {SLOW}", durable="d"):
                pass
            await client.publish({"n": 1}, confirm=True)
            spend_budget(server, "d")
            await client.publish({"n": 1, "late": True}, confirm=True)
            assert [each["subscription"] for each in server.status()["put_aside"]] == ["d"]
        async with broker(data=tmp_path) as server, palio.connect(url(server)) as client:
            assert [each["subscription"] for each in server.status()["put_aside"]] == ["d"]
            with pytest.raises(Refused, match="was put aside: matching 'd' took"):
                async with client.subscribe(f"n = 1 OR {SLOW}", durable="d") as events:
                    await anext(events)
            async with client.subscribe("n > 0", durable="d") as events:
                await client.publish({"n": 2}, confirm=True)
                first, second = await anext(events), await anext(events)
                assert (first.get("n"), first.get("late"), second.get("n")) == (1, None, 2)
            assert server.status()["put_aside"] == []

    run(test)


def test_a_durable_condition_beyond_the_limits_is_put_aside_at_the_start(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            broker(data=tmp_path, limits=LENIENT) as server,
            palio.connect(url(server)) as client,
            client.subscribe(HOSTILE, durable="frozen"),
        ):
            pass
        async with broker(data=tmp_path) as server, palio.connect(url(server)) as client:
            async with client.subscribe("t IS NOT NULL") as events:
                await client.publish({"t": "ab" * 400_000}, confirm=True)
                assert len((await anext(events)).get("t")) == 800_000
            [aside] = server.status()["put_aside"]
            assert "(pattern_size = 1,000)" in aside["reason"]

    run(test)


def test_a_pattern_beyond_the_limit_is_refused_with_its_size_and_the_bound() -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            with pytest.raises(LimitReached, match=r"1,804 steps for each character.*\(pattern_size = 1,000\)"):
                async with client.subscribe(HOSTILE) as events:
                    await anext(events)
            many = " OR ".join(f"levenshtein(t, '{n}') = 1" for n in range(5))
            with pytest.raises(LimitReached, match=r"filter_steps = 64"):
                async with client.subscribe(many) as events:
                    await anext(events)

    run(test)


def test_texts_too_long_for_a_pattern_are_counted_for_its_subscription() -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            async with client.subscribe("n = 1") as every, client.subscribe(SLOW):
                await client.publish({"n": 1, "t": "ab" * 450_000}, confirm=True)
                await anext(every)
            # Counted with the batch that follows at the latest.
            async with client.subscribe(SLOW), client.subscribe("n = 2") as every:
                await client.publish({"n": 2, "t": "ab" * 450_000}, confirm=True)
                await anext(every)
                await until(lambda: bool(server.status()["slowest"]))
                assert server.status()["slowest"][0]["unexamined"] == 1

    run(test)


def test_a_slow_batch_is_attributed_by_a_sample() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe("initcap(t) LIKE 'A%'") as events,
        ):
            while not server.status()["slowest"]:
                await client.publish({"t": "ab" * 250_000}, confirm=True)
                await anext(events)
            [slowest] = server.status()["slowest"]
            assert slowest["principal"] == "anyone"
            assert slowest["samples"] >= 1
            assert "initcap" in slowest["condition"]

    run(test)

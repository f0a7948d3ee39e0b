"""Every crash log and paths under drawn faults of all kinds at once: full disks, slow brokers and partitions too."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from palio.simulation import Faults, Network
from tests.simulation.scenarios import condition, event
from tests.simulation.test_recovery import assert_right

UPKEEP: dict[str, dict[str, Any]] = {
    "recover": {"crash_log": "recover"},
    "failover": {"paths": "failover"},
    "recover and failover": {"crash_log": "recover", "paths": "failover"},
    "recover and redundant": {
        "crash_log": "recover",
        "paths": "redundant",
        "forwarding": "group",
        "options": {"trees": "publisher"},
    },
}
every_upkeep = pytest.mark.parametrize("upkeep", UPKEEP)


def judged(upkeep: str, seed: int) -> None:
    random = Random(seed)
    rates = {"crashes": 0.1, "cuts": 0.1, "partitions": 0.1, "slow": 0.1, "disk_full": 0.1, "clock_jumps": 0.05}
    faults = Faults(seed=seed, **rates, loss=0.05 * (seed % 2))
    brokers, extra = random.randrange(4, 9), random.randrange(2, 6)
    net = Network.mesh(brokers, extra, seed=seed, propagation="covering", faults=faults, **UPKEEP[upkeep])
    for _ in range(40):
        at = random.randrange(brokers)
        if net.is_running(at) and random.random() < 0.5:
            net.subscribe(at, condition(random), durable=random.random() < 0.3)
        elif net.is_running(at):
            net.publish(at, event(random), settled=False, confirm=random.random() < 0.5)
        net.run(random.random())
    net.heal()
    net.run()
    for at in range(brokers):
        net.publish(at, event(random))
    net.run()
    assert_right(net, f"seed {seed}")


@every_upkeep
def test_what_is_left_of_faults_goes_when_they_end(upkeep: str) -> None:
    for seed in range(4):
        judged(upkeep, seed)


@pytest.mark.deep
@every_upkeep
def test_a_thousand_schedules_of_faults(upkeep: str) -> None:
    for seed in range(1_000, 2_000):
        judged(upkeep, seed)

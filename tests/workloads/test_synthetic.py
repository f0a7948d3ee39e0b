"""The synthetic workloads: the same for everyone, block by block, with the distributions they claim."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from palio.workloads import BLOCK, Workload, WorkloadError, eq, mix
from palio.workloads.generated import AT_LEAST, AT_MOST, BETWEEN, EQUALS, UNUSED

PROFILES = [eq, mix]


def test_a_seed_names_one_workload() -> None:
    assert mix(seed=7).subscriptions(1500).equals(mix(seed=7).subscriptions(1500))
    assert mix(seed=7).events(1500).equals(mix(seed=7).events(1500))
    assert not mix(seed=7).subscriptions(1500).equals(mix(seed=8).subscriptions(1500))
    assert not mix(seed=7).events(1500).equals(mix(seed=8).events(1500))


@pytest.mark.parametrize("make", PROFILES)
def test_a_longer_workload_begins_with_the_shorter(make: Any) -> None:
    workload = make()
    assert workload.subscriptions(2600).slice(0, 1300).equals(workload.subscriptions(1300))
    assert workload.events(2600).slice(0, 1300).equals(workload.events(1300))


@pytest.mark.parametrize("make", PROFILES)
def test_a_block_alone_is_the_block_of_the_whole(make: Any) -> None:
    workload = make()
    whole, events = workload.subscriptions(4 * BLOCK), workload.events(4 * BLOCK)
    for block in (3, 0, 2):
        alone = pa.Table.from_batches([workload.subscription_block(block)])
        assert alone.equals(whole.slice(block * BLOCK, BLOCK))
        assert workload.event_block(block).equals(events.slice(block * BLOCK, BLOCK))


@pytest.mark.parametrize(("start", "count"), [(0, 0), (0, 1), (999, 2), (1500, 1000), (2999, 1), (1000, 1000)])
def test_any_stretch_of_rows_can_be_asked_for(start: int, count: int) -> None:
    workload = mix()
    stretch = workload.subscriptions(count, start)
    assert stretch.to_pylist() == workload.subscriptions(3000).slice(start, count).to_pylist()
    assert workload.events(count, start).equals(workload.events(3000).slice(start, count))
    assert len(workload.subscription_conditions(count, start)) == count


def test_more_rows_than_are_rendered_at_once_join_without_a_seam() -> None:
    seam = 250 * BLOCK
    rows = eq().subscriptions(seam + 10)
    assert rows.slice(seam - 5, 10).to_pylist() == eq().subscriptions(10, start=seam - 5).to_pylist()
    assert rows["id"][seam].as_py() == str(seam)


@pytest.mark.parametrize("make", PROFILES)
def test_a_block_is_the_plain_loop_over_its_random_numbers(make: Any) -> None:
    """The definition, row by row and value by value, against the columns."""
    workload = make()
    wheres = workload.subscription_block(2)["where"].to_pylist()
    assert wheres == [" AND ".join(parts) for parts in _plain_subscriptions(workload, 2)]
    assert list(workload.event_dicts(BLOCK, 2 * BLOCK)) == list(_plain_events(workload, 2))


def _plain_rows(workload: Workload, stream: int, block: int, fewest: int, most: int) -> Any:
    rng = np.random.default_rng([workload.seed, stream, block])
    size = len(workload.names)
    popularity = np.array([1 / (i + 1) ** workload.attribute_skew for i in range(size)])
    keys = np.log(popularity / popularity.sum()) + rng.gumbel(size=(1000, size))
    counts = rng.integers(fewest, most + 1, size=1000)
    weights = np.array([1 / (i + 1) ** workload.value_skew for i in range(workload.vocabulary)])
    steps = np.cumsum(weights / weights.sum())
    uniform = rng.random((1000, most))
    centres = rng.integers(0, 10_000, size=(1000, most))
    widths = np.exp(rng.uniform(np.log(10), np.log(5000), size=(1000, most)))
    forms = rng.random((1000, most))
    for row in range(1000):
        for_row = []
        for j, attribute in enumerate(sorted(range(size), key=lambda a: -keys[row, a])[: counts[row]]):
            word = min(int(np.searchsorted(steps, uniform[row, j])), workload.vocabulary - 1)
            figures = int(centres[row, j]), int(widths[row, j]), float(forms[row, j])
            for_row.append((workload.names[attribute], f"v{word}", *figures))
        yield for_row


def _plain_subscriptions(workload: Workload, block: int) -> Any:
    for row in _plain_rows(workload, 0, block, 2, 5):
        parts = []
        for name, word, centre, width, form in row:
            if name[0] == "s":
                parts.append(f"{name} = '{word}'")
            elif form < 0.6:
                low, high = max(0, centre - width // 2), min(9999, centre + width // 2)
                parts.append(f"{name} BETWEEN {low} AND {high}")
            else:
                parts.append(f"{name} {'>=' if form < 0.8 else '<='} {centre}")
        yield parts


def _plain_events(workload: Workload, block: int) -> Any:
    for row in _plain_rows(workload, 1, block, 5, 15):
        yield {name: word if name[0] == "s" else centre for name, word, centre, _, _ in row}


def test_columns_and_dicts_are_the_same_events() -> None:
    workload = mix()
    rows = workload.events(300).to_pylist()
    present = [{name: value for name, value in row.items() if value is not None} for row in rows]
    assert present == list(workload.event_dicts(300))
    assert {len(event) for event in present} == set(range(5, 16))
    assert workload.schema.field("s00").type == pa.string()
    assert workload.schema.field("n00").type == pa.int64()


def test_conditions_as_arrays_say_what_the_text_says() -> None:
    workload = mix()
    rows = workload.subscription_conditions(200)
    for row, where in enumerate(workload.subscriptions(200)["where"].to_pylist()):
        for position, text in enumerate(re.split(r" AND (?=[sn]\d\d )", where)):
            name = workload.names[rows.attribute[row, position]]
            low, high = rows.low[row, position], rows.high[row, position]
            assert (
                text
                == {
                    EQUALS: f"{name} = 'v{low}'",
                    BETWEEN: f"{name} BETWEEN {low} AND {high}",
                    AT_LEAST: f"{name} >= {low}",
                    AT_MOST: f"{name} <= {high}",
                }[int(rows.kind[row, position])]
            )
            assert 0 <= low <= high < 10_000


# The distributions. Seeds are fixed, so a bound of five standard deviations is no gamble.


def _close(observed: Counter[int] | dict[int, int], expected: dict[int, float]) -> bool:
    """Whether the chi-square statistic is within five standard deviations of its mean."""
    total = sum(observed.values())
    statistic = sum((observed.get(k, 0) - total * p) ** 2 / (total * p) for k, p in expected.items())
    freedom = len(expected) - 1
    assert set(observed) <= set(expected)
    return abs(statistic - freedom) < 5 * (2 * freedom) ** 0.5


def _zipf(count: int, skew: float) -> dict[int, float]:
    weights = [1 / (i + 1) ** skew for i in range(count)]
    return {i: weight / sum(weights) for i, weight in enumerate(weights)}


def test_the_first_attribute_chosen_follows_the_zipf_law() -> None:
    rows = eq().subscription_conditions(40_000)
    assert _close(Counter(rows.attribute[:, 0].tolist()), _zipf(40, 0.7))


def test_attributes_are_chosen_in_turn_without_replacement() -> None:
    """The second choice is by popularity among those that are left."""
    weights = _zipf(4, 0.7)
    rows = eq(attributes=4, conditions=(2, 2), present=(1, 4)).subscription_conditions(40_000)
    expected = {
        first * 4 + second: weights[first] * weights[second] / (1 - weights[first])
        for first in range(4)
        for second in range(4)
        if first != second
    }
    pairs = rows.attribute[:, 0].astype(int) * 4 + rows.attribute[:, 1]
    assert _close(Counter(pairs.tolist()), expected)


@pytest.mark.parametrize("skew", [1.0, 0.0])
def test_words_follow_the_zipf_law_in_subscriptions_and_in_events(skew: float) -> None:
    workload = eq(value_skew=skew)
    rows = workload.subscription_conditions(20_000)
    assert _close(Counter(rows.low[rows.kind != UNUSED].tolist()), _zipf(1000, skew))
    values = workload.event_values(10_000)
    assert _close(Counter(values[values >= 0].tolist()), _zipf(1000, skew))


def test_counts_are_uniform() -> None:
    workload = mix()
    used = (workload.subscription_conditions(20_000).kind != UNUSED).sum(axis=1)
    assert _close(Counter(used.tolist()), dict.fromkeys(range(2, 6), 1 / 4))
    present = (workload.event_values(20_000) >= 0).sum(axis=1)
    assert _close(Counter(present.tolist()), dict.fromkeys(range(5, 16), 1 / 11))


def test_ranges_are_between_at_least_and_at_most_as_six_to_two_to_two() -> None:
    rows = mix().subscription_conditions(20_000)
    kinds = Counter(rows.kind[(rows.kind != UNUSED) & (rows.kind != EQUALS)].tolist())
    assert _close(kinds, {BETWEEN: 0.6, AT_LEAST: 0.2, AT_MOST: 0.2})


def test_integers_are_uniform_and_in_range() -> None:
    workload = mix()
    numbers = workload.event_values(20_000)[:, 1::2]
    tenths = Counter((numbers[numbers >= 0] // 1000).tolist())
    assert _close(tenths, dict.fromkeys(range(10), 1 / 10))


def test_no_attribute_occurs_twice_in_a_subscription() -> None:
    rows = mix().subscription_conditions(5000)
    for attributes, kinds in zip(rows.attribute.tolist(), rows.kind.tolist(), strict=True):
        used = sorted(a for a, k in zip(attributes, kinds, strict=True) if k != UNUSED)
        assert all(a != b for a, b in pairwise(used))


@pytest.mark.parametrize(
    "parameters",
    [
        {"vocabulary": 0},
        {"integers": 5},
        {"seed": -1},
        {"conditions": (0, 2)},
        {"conditions": (4, 2)},
        {"present": (5, 41)},
        {"attributes": 3},
    ],
)
def test_parameters_that_describe_no_workload_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(WorkloadError):
        eq(**parameters)


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(WorkloadError, match="'eq' and 'mix'"):
        Workload("neq")  # type: ignore[arg-type]

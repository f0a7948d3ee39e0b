"""The workloads of the sources: the same rows however they are asked for, with the distributions they claim."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.workloads import WorkloadError
from palio.workloads.baldoni import Baldoni
from palio.workloads.distributions import Extent, Normal, Numbers, Pareto, Uniform, distinct, mix_bits
from palio.workloads.generated import Generated, workload
from palio.workloads.shen import Letters, Shen
from palio.workloads.xsiena import OPERATORS, Side, XSiena

NAMES = ["eq", "mix", "xsiena", "shen", "shen-letters", "baldoni"]
ALL = [pytest.param(workload(name), id=name) for name in NAMES] + [
    pytest.param(Shen("boxes", attributes=3), id="boxes"),
    pytest.param(Shen("uniform", outside="clip"), id="uniform"),
    pytest.param(Shen("norm-2"), id="norm-2"),
    pytest.param(Baldoni(selective=2), id="selective"),
    pytest.param(XSiena(events_side=Side(Extent(5, 5), Extent(1, 3), names=40), integers=False,
                        filters=Side(Extent(5, 9, Pareto()), Extent(1, 4, Normal()), names=30, names_by=Pareto())),
                 id="small xsiena"),
]  # fmt: skip


@pytest.mark.parametrize("made", ALL)
@pytest.mark.parametrize(("start", "count"), [(0, 0), (0, 1), (999, 3), (1500, 700)])
def test_any_stretch_is_the_same_as_in_the_whole(made: Generated, start: int, count: int) -> None:
    assert made.subscriptions(count, start).to_pylist() == made.subscriptions(2_200).slice(start, count).to_pylist()
    assert made.events(count, start).equals(made.events(2_200).slice(start, count))
    assert made.events(count, start).schema == made.schema


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_names_one_workload(name: str) -> None:
    one, again, other = workload(name, seed=3), workload(name, seed=3), workload(name, seed=4)
    assert one.events(200).equals(again.events(200))
    assert one.subscriptions(200).equals(again.subscriptions(200))
    assert not one.events(200).equals(other.events(200))
    assert not one.subscriptions(200).equals(other.subscriptions(200))


@pytest.mark.parametrize("made", ALL)
def test_every_condition_can_be_read_and_can_match(made: Generated) -> None:
    for where in made.subscriptions(300)["where"].to_pylist():
        assert Filter.parse(where) not in (Filter.nothing, Filter.everything)


@pytest.mark.parametrize(
    ("name", "parameters", "reason"),
    [
        ("nothing", {}, "there is no workload 'nothing'; there are eq"),
        ("shen", {"colour": 1}, "shen has no parameter 'colour'; it has profile"),
        ("shen", {"profile": "norm-3"}, "no profile"),
        ("shen", {"density": 2.0}, "density between"),
        ("shen", {"outside": "drop"}, "kept or clipped"),
        ("shen-letters", {"letters": 60}, "52 letters"),
        ("baldoni", {"selective": 5}, "cannot be selective"),
        ("baldoni", {"matching": 2.0}, "probability"),
        ("baldoni", {"places": 0}, "at least one"),
        ("xsiena", {"operators": ("<>",)}, "operators are among"),
        ("xsiena", {"events_side": Side(Extent(1, 1), Extent(2, 12), names=5)}, "12 names, all different"),
        ("xsiena", {"filters": Side(Extent(1, 1), Extent(0, 2))}, "at least 1"),
        ("xsiena", {"filters": Side(Extent(2, 1), Extent(1, 2))}, "no greater"),
        ("xsiena", {"filters": Side(Extent(1, 1), Extent(1, 2), names=0)}, "at least one name"),
    ],
)
def test_parameters_that_describe_no_workload_are_refused(name: str, parameters: dict[str, Any], reason: str) -> None:
    with pytest.raises(WorkloadError, match=reason):
        workload(name, **parameters)


# Random numbers


def rows(count: int, start: int = 0) -> np.ndarray[Any, Any]:
    return np.arange(start, start + count)


def test_numbers_depend_on_where_they_stand_alone() -> None:
    whole = Numbers(7, 1, rows(1_000)).uniform(2, 5)
    assert (Numbers(7, 1, rows(10, 500)).uniform(2, 5) == whole[500:510]).all()
    assert (Numbers(7, 1, np.array([999, 3])).uniform(2, 3) == whole[[999, 3], :3]).all()
    others = [Numbers(8, 1, rows(1_000)).uniform(2, 5), Numbers(7, 2, rows(1_000)).uniform(2, 5),
              Numbers(7, 1, rows(1_000)).uniform(3, 5), Numbers(7, 1, rows(1_000)).uniform(2, 5, 1)]  # fmt: skip
    for other in others:
        assert not (other == whole).any()
        assert abs(np.corrcoef(other.ravel(), whole.ravel())[0, 1]) < 0.05


def test_no_two_words_become_one() -> None:
    words = np.arange(100_000, dtype=np.uint64)
    assert len(np.unique(mix_bits(words))) == 100_000


def is_like(observed: Counter[int], expected: dict[int, float]) -> bool:
    """Whether the chi-square statistic is within five standard deviations of its mean."""
    total = sum(observed.values())
    statistic = sum((observed.get(k, 0) - total * p) ** 2 / (total * p) for k, p in expected.items())
    assert set(observed) <= set(expected)
    freedom = len(expected) - 1
    return abs(statistic - freedom) < 5 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("distribution", [Uniform(), Normal(), Normal(0.2, 0.5), Pareto(), Pareto(1.5, 4.0)], ids=str)
def test_distributions_are_what_they_say(distribution: Any) -> None:
    units = distribution.units(Numbers(1, 0, rows(10_000)), 0, 5)
    assert ((units >= 0) & (units < 1)).all()
    edges = [distribution.below(place / 20) for place in range(21)]
    assert (edges[0], round(edges[-1], 12)) == (0.0, 1.0)
    expected = {place: edges[place + 1] - edges[place] for place in range(20)}
    assert is_like(Counter(np.floor(units * 20).astype(int).ravel().tolist()), expected)


@pytest.mark.parametrize("size", [12, 1_000])
def test_chosen_names_differ_and_follow_the_distribution(size: int) -> None:
    counts = np.full(4_000, 3)
    found = distinct(Pareto(), size, counts, 5, Numbers(2, 0, rows(4_000)), 1)
    assert (found[:, 3:] == -1).all()
    assert all(len(set(row)) == 3 for row in found[:, :3].tolist())
    edges = [Pareto().below(place / 4) for place in range(5)]
    first = Counter((found[:, 0] * 4 // size).tolist())
    assert is_like(first, {place: edges[place + 1] - edges[place] for place in range(4)})


def test_an_extent_of_one_number_is_that_number() -> None:
    assert set(Extent(7, 7, Normal()).integers(Numbers(1, 0, rows(50)), 0, 1).ravel().tolist()) == {7}


# XSiena


def test_filters_and_events_have_the_sizes_names_and_values_of_the_table() -> None:
    made = XSiena(
        filters=Side(Extent(10, 20), Extent(2, 5), names=300, names_by=Pareto(), values=Extent(0, 9, Normal())),
        events_side=Side(Extent(7, 7), Extent(1, 4), names=200, values=Extent(-5, 5)),
        operators=(">", "="),
    )
    name, operator, value = made.comparisons(rows(5_000))
    assert is_like(Counter((name >= 0).sum(axis=1).tolist()), dict.fromkeys(range(2, 6), 0.25))
    used = name >= 0
    assert set(operator[used].tolist()) == {OPERATORS.index(">"), OPERATORS.index("=")}
    assert (value[used].min(), value[used].max(), name.max() < 300) == (0, 9, True)
    own, values = made.pairs(rows(5_000))
    assert is_like(Counter((own >= 0).sum(axis=1).tolist()), dict.fromkeys(range(1, 5), 0.25))
    assert (values.min(), values.max()) == (-5, 5)
    assert is_like(Counter(values.ravel().tolist()), dict.fromkeys(range(-5, 6), 1 / 11))
    assert 10 <= made.filter_count <= 20
    assert made.event_count == 7
    assert len({XSiena(filters=made.filters, seed=seed).filter_count for seed in range(40)}) > 5


def test_more_names_than_columns_are_json() -> None:
    made = XSiena()
    assert made.schema == pa.schema([("event", pa.string())])
    texts = made.events(20)["event"].to_pylist()
    assert [json.loads(text) for text in texts] == list(made.event_dicts(20))
    assert all(" event.w" in f" {where}" for where in made.subscriptions(20)["where"].to_pylist())
    small = XSiena(
        events_side=Side(Extent(1, 1), Extent(2, 4), names=6), filters=Side(Extent(1, 1), Extent(1, 1), names=6)
    )
    present = [{k: v for k, v in row.items() if v is not None} for row in small.events(50).to_pylist()]
    assert present == list(small.event_dicts(50))
    assert XSiena(form="columns").schema.names[:2] == ["w00000", "w00001"]


# Shen


@pytest.mark.parametrize(
    ("density", "uniform", "first", "second"),
    [(0.001, 0.2512, 0.1696, 0.2145), (0.01, 0.3981, 0.2764, 0.3496), (0.2, 0.7248, 0.5789, 0.7323)],
)
def test_lengths_give_the_density(density: float, uniform: float, first: float, second: float) -> None:
    found = [Shen(profile, density=density).length for profile in ("uniform", "norm-1", "norm-2")]  # type: ignore[arg-type]
    assert found == pytest.approx([uniform, first, second], abs=5e-4)


@pytest.mark.parametrize("profile", ["norm-1", "norm-2", "uniform"])
def test_an_event_matches_the_share_that_was_asked_for(profile: Any) -> None:
    made = Shen(profile, density=0.05)
    low, high = made.ranges(rows(2_000))
    events = made.event_values(rows(500))
    inside = (low[None] <= events[:, None]) & (events[:, None] <= high[None])
    assert inside.all(axis=2).mean() == pytest.approx(0.05, rel=0.1)


def test_boxes_are_between_two_uniform_numbers() -> None:
    low, high = Shen("boxes", attributes=4).ranges(rows(5_000))
    assert (low <= high).all()
    assert (low.mean(), high.mean()) == pytest.approx((1 / 3, 2 / 3), abs=0.01)


def test_outside_is_kept_or_cut_off() -> None:
    assert Shen(density=0.2).ranges(rows(1_000))[0].min() < 0
    assert Shen(density=0.2, outside="clip").ranges(rows(1_000))[0].min() == 0
    assert Shen(outside="clip").event_values(rows(1_000)).max() == 1


def test_subscriptions_come_and_go() -> None:
    operations = list(Shen("boxes").operations(5_000, removals=0.3))
    assert operations == list(Shen("boxes").operations(5_000, removals=0.3))
    alive: set[int] = set()
    for operation in operations:
        if operation.kind == "add":
            assert operation.subscription not in alive
            alive.add(operation.subscription)
        else:
            alive.remove(operation.subscription)
    assert len(alive) == pytest.approx(5_000 * 0.4, rel=0.1)
    with pytest.raises(WorkloadError, match="fewer than half"):
        next(Shen("boxes").operations(1, removals=0.5))


def test_letters_make_words() -> None:
    words = Letters().events(3_000)["pattern"].to_pylist()
    assert {len(word) for word in words} == {3}
    assert is_like(Counter(word[0] for word in words), dict.fromkeys("".join(sorted({w[0] for w in words})), 1 / 52))  # type: ignore[arg-type]


# Baldoni et al.


def test_ranges_are_as_wide_as_the_paper_says() -> None:
    low, high = Baldoni().ranges(rows(20_000))
    length = high - low + 1
    # At the ends of the domain ranges are cut off, so the mean is a little less than a half of 3 %.
    assert length.mean() == pytest.approx(15_000, rel=0.02)
    assert length.max() <= 30_000
    assert length.min(axis=1).mean() == pytest.approx(6_000, rel=0.02)
    assert (low.min() >= 0, high.max() <= 1_000_000) == (True, True)
    narrow = Baldoni(selective=1).ranges(rows(20_000))
    assert (narrow[1] - narrow[0])[:, 0].max() < 1_000
    popular = Counter(np.round((narrow[0] + narrow[1])[:, 0] / 2_000).tolist()).most_common(3)[1:]
    # The first place is at the end of the domain, where ranges are cut off.
    assert popular[0][1] / popular[1][1] == pytest.approx(3 / 2, rel=0.2)


@pytest.mark.parametrize("matching", [0.0, 0.5, 1.0])
def test_events_match_with_the_probability_that_was_asked_for(matching: float) -> None:
    made = Baldoni(matching=matching, subscribers=500)
    matcher = Matcher()
    wants = made.subscriptions(500)
    matcher.add_many(wants["id"].to_pylist(), wants["where"].to_pylist())
    found = matcher.match_batch(made.events(1_000))
    assert len(set(found["row"].to_pylist())) / 1_000 == pytest.approx(matching, abs=0.05)

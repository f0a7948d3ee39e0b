"""Indexes built apart and put together answer as one that was built of all subscriptions."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palio.matching.index_concatenation import concatenate
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from tests.matching.test_index_file import CONDITIONS, EVENTS, rows
from tests.strategies import attributes, readable_conditions


def built_apart(folder: Path, parts: list[list[Subscription]], removed: Collection[str] = ()) -> Matcher:
    paths = []
    for part in parts:
        matcher = Matcher()
        matcher.add_subscriptions(part)
        matcher.remove_many(each.id for each in part if each.id in removed)
        paths.append(folder / f"{len(paths)}.palio")
        matcher.save(paths[-1])
    concatenate(folder / "all.palio", paths)
    return Matcher.open(folder / "all.palio")


def test_all_sorts_of_condition_match_after_concatenation(tmp_path: Path) -> None:
    parts = [[Subscription(f"{part} {id}", where) for id, where in CONDITIONS.items()] for part in range(3)]
    whole = Matcher()
    whole.add_subscriptions([each for part in parts for each in part])
    found = built_apart(tmp_path, [parts[0], [], *parts[1:]])
    assert list(found) == list(whole)
    assert rows(found.match_batch(EVENTS)) == rows(whole.match_batch(EVENTS))
    for event in EVENTS.to_pylist():
        assert found.match(event) == whole.match(event)


def test_what_subscriptions_say_of_themselves_is_kept(tmp_path: Path) -> None:
    given = [
        Subscription("plain", "a = 1"),
        Subscription("owned", "a > 1", subscriber="ops", metadata={"priority": 3}),
        Subscription("zoned", "at > '2024-03-01 22:15:00'", timezone="Europe/Berlin"),
        Subscription("pattern", {"a": [{"numeric": [">", 4]}]}, language="eventbridge"),
    ]
    found = built_apart(tmp_path, [[each] for each in given])
    assert [found[each.id] for each in given] == given
    assert found.numbered_subscribers().to_pylist() == [None, "ops", None, None]


def test_removed_subscriptions_stay_removed(tmp_path: Path) -> None:
    parts = [[Subscription(f"{part}-{at}", f"a > {at}") for at in range(13)] for part in range(3)]
    found = built_apart(tmp_path, parts, removed={"0-3", "1-0", "2-12"})
    assert len(found) == 36
    assert found.match({"a": 100}) == {each.id for part in parts for each in part} - {"0-3", "1-0", "2-12"}
    found.add("2-12", "a > 0")
    found.remove("0-0")
    assert found.match({"a": 0.5}) == {"2-0", "2-12"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    conditions=st.lists(st.lists(readable_conditions(), max_size=6), min_size=1, max_size=4),
    events=st.lists(attributes(), max_size=4),
)
def test_random_conditions_match_after_concatenation(
    tmp_path: Path, conditions: list[list[str]], events: list[dict[str, object]]
) -> None:
    parts = [[Subscription(f"{at}.{n}", where) for n, where in enumerate(part)] for at, part in enumerate(conditions)]
    whole = Matcher()
    whole.add_subscriptions([each for part in parts for each in part])
    found = built_apart(tmp_path, parts)
    for event in events:
        assert found.match(event) == whole.match(event)


def test_no_parts_make_an_empty_index(tmp_path: Path) -> None:
    concatenate(tmp_path / "none.palio", [])
    assert len(Matcher.open(tmp_path / "none.palio")) == 0

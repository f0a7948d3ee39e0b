"""A subscription log: what was committed is there, once, in order."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from palio import DuplicateSubscription, Filter, InvalidSubscription, UnknownSubscription
from palio.errors import PipelineError, VersionNotKept
from palio.matching.subscription import Subscription
from palio.spark import SubscriptionLog
from tests.spark.subscription_log.contents import AT_ONCE, contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_every_version_can_be_come_back_to(log: SubscriptionLog) -> None:
    assert log.version == 2
    assert len(log.at(0)) == 0
    assert contents(log, 1) == {"a": "x = 1", "b": "x = 2"}
    assert contents(log) == {"a": "x = 10"}
    assert log.at(1)["b"] == Subscription("b", "x = 2", "sql", "ada", {"url": "http://here", "tags": [1, None]})
    assert "b" in log.at(1)
    assert repr(log.at(1)) == "<2 subscriptions at version 1>"


def test_changes_are_told_with_their_times(log: SubscriptionLog) -> None:
    first, second = log.versions()
    assert [(each.kind, each.id) for each in second.changes] == [("change", "a"), ("remove", "b")]
    assert first.time <= second.time <= datetime.now(UTC)
    assert second.previous == first.digest
    assert [each.number for each in log.versions(1)] == [2]
    assert log.at(2).digest == second.digest == log.head(2).digest


def test_another_reader_sees_the_same(log: SubscriptionLog) -> None:
    other = SubscriptionLog(f"file://{log.path}")
    assert contents(other) == contents(log)
    log.add("c", "x = 3")
    log.commit()
    assert other.version == 3
    assert contents(other) == contents(log)


def test_nothing_gathered_is_no_version_but_the_first(tmp_path: Path) -> None:
    log = SubscriptionLog(tmp_path / "log")
    assert not log.exists()
    assert log.commit() == 1
    assert log.commit() == 1
    assert log.exists()
    log.add("a", "x = 1")
    log.discard()
    assert log.commit() == 1


def test_a_filter_is_kept_with_its_zone(log: SubscriptionLog) -> None:
    condition = Filter.parse("hour(at) = 3", timezone="America/New_York")
    log.add("zoned", condition)
    log.commit()
    assert log.at()["zoned"].timezone == "America/New_York"
    assert log.at()["zoned"].filter == condition


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda log: log.add("a", "x = 5"), DuplicateSubscription),
        (lambda log: (log.add("n", "x = 5"), log.add("n", "x = 6")), DuplicateSubscription),
        (lambda log: log.remove("b"), UnknownSubscription),
        (lambda log: log.replace("z", "x = 5"), UnknownSubscription),
        (lambda log: (log.remove("a"), log.replace("a", "x = 5")), UnknownSubscription),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    log: SubscriptionLog, change: Callable[[SubscriptionLog], object], error: type[Exception]
) -> None:
    log.add("fine", "x = 1")
    change(log)
    with pytest.raises(error):
        log.commit()
    assert SubscriptionLog(log.path).version == 2
    log.discard()
    log.add("fine", "x = 1")
    assert log.commit() == 3


@pytest.mark.parametrize(
    ("id", "where", "options", "reason"),
    [
        ("a", "x >", {}, "where a value should stand"),
        ("", "x = 1", {}, "an id is empty"),
        (7, "x = 1", {}, "an id is text"),
        ("\ud800", "x = 1", {}, "lone surrogate"),
        ("a", "x = '\ud800'", {}, "what JSON can hold"),
        ("a", "x = 1", {"metadata": {"when": datetime.now(UTC)}}, "what JSON can hold"),
        ("a", "x = 1", {"metadata": {"rate": float("nan")}}, "what JSON can hold"),
        ("a", "x = 1", {"language": "klingon"}, "no condition language"),
    ],
)
def test_a_bad_one_never_comes_into_the_log(
    log: SubscriptionLog, id: Any, where: Any, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidSubscription, match=reason):
        log.add(id, where, **options)
    assert log.commit() == 2


def test_of_many_the_bad_ones_are_set_aside(log: SubscriptionLog) -> None:
    never = Subscription("e", "x = 1", metadata={"rate": float("nan")})
    refused = log.extend([Subscription("c", "x = 3"), Subscription("d", "x >"), Subscription("c", "x = 4"), never])
    assert [each.id for each in refused] == ["c", "e", "d"]
    assert "where a value should stand" in refused[2].reason
    log.commit()
    assert contents(log) == {"a": "x = 10", "c": "x = 3"}


def test_a_snapshot_stands_for_what_was_before(log: SubscriptionLog) -> None:
    log.compact()
    assert [contents(log, version) for version in range(3)] == [{}, {"a": "x = 1", "b": "x = 2"}, {"a": "x = 10"}]
    assert log.oldest == 0
    log.add("c", "x = 3")
    log.commit()
    log.compact(keep=AT_ONCE)
    assert (log.oldest, log.version) == (3, 3)
    assert contents(log) == {"a": "x = 10", "c": "x = 3"}
    with pytest.raises(VersionNotKept, match="version 2 was compacted away; the oldest that is kept is 3"):
        log.at(2)
    with pytest.raises(VersionNotKept, match="version 9 is not there; the latest is 3"):
        log.at(9)
    log.remove("c")
    assert log.commit() == 4
    assert contents(log) == {"a": "x = 10"}
    assert contents(log, 3) == {"a": "x = 10", "c": "x = 3"}


def test_versions_that_were_in_force_lately_are_kept(log: SubscriptionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(days=10)

    monkeypatch.setattr("palio.spark.subscription_log.datetime", Later)
    log.compact()
    log.add("c", "x = 3")
    log.commit()
    log.compact()
    # Version 2 was in force seven days before, so it stays; version 1 was not.
    assert log.oldest == 2
    assert contents(log, 2) == {"a": "x = 10"}


def test_a_writer_that_slept_through_a_compaction_goes_on(log: SubscriptionLog) -> None:
    other = SubscriptionLog(log.path)
    assert other.version == 2
    log.add("c", "x = 3")
    log.commit()
    log.add("d", "x = 4")
    log.commit()
    log.compact(keep=AT_ONCE)
    other.replace("d", "x = 40")
    assert other.commit() == 5
    assert contents(log) == {"a": "x = 10", "c": "x = 3", "d": "x = 40"}


def test_time_does_not_run_backwards(log: SubscriptionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime(1999, 1, 1, tzinfo=tz)

    monkeypatch.setattr("palio.spark.subscription_log.datetime", Slow)
    log.add("c", "x = 3")
    log.commit()
    before, now = list(log.versions(1))
    assert now.time == before.time


def test_a_change_keeps_whose_it_is_unless_told_otherwise(log: SubscriptionLog) -> None:
    log.add("kept", "x = 1", subscriber="ada", metadata={"team": "blue"})
    log.replace("kept", "x = 2")  # in the same version
    log.commit()
    log.replace("kept", "x = 3", metadata={"team": "red"})
    log.commit()
    other = SubscriptionLog(log.path)
    found = other.at()["kept"]
    assert (found.where, found.subscriber, dict(found.metadata)) == ("x = 3", "ada", {"team": "red"})
    other.replace("kept", "x = 4", subscriber=None, metadata=None)
    log.replace("kept", "x = 5", subscriber="bob")
    other.commit()
    log.commit()  # on top of the other's
    found = log.at()["kept"]
    assert (found.where, found.subscriber, dict(found.metadata)) == ("x = 5", "bob", {})


def test_many_are_added_as_mappings_too(tmp_path: Path) -> None:
    log = SubscriptionLog(tmp_path / "log")
    refused = log.extend(
        [
            {"id": "a", "where": "x = 1", "subscriber": "ops", "priority": 3},
            Subscription("b", "x = 2"),
            {"id": 7, "where": {"x": [3]}, "language": "eventbridge"},
            {"id": "a", "where": "x = 4"},
            {"id": "no where"},
            {"ID": "shouted", "WHERE": "x = 1"},
            {"id": "bad", "where": "x >"},
            {"id": "zone", "where": "x > 1", "timezone": "Europe/Oslo"},
        ]
    )
    assert [(each.id, each.reason.partition(";")[0][:32]) for each in refused] == [
        ("a", "another subscription has this id"),
        ("no where", "there is no 'where'"),
        (None, "there is no 'id', but 'ID': call"),
        ("bad", "the condition ends where a value"),
    ]
    assert log.commit() == 1
    found = log.at()
    assert sorted(each.id for each in found) == ["7", "a", "b", "zone"]
    assert (found["a"].subscriber, found["a"].metadata, found["a"].timezone) == ("ops", {"priority": 3}, "UTC")
    assert (found["7"].language, found["zone"].timezone) == ("eventbridge", "Europe/Oslo")


def test_what_is_no_subscription_adds_nothing(tmp_path: Path) -> None:
    log = SubscriptionLog(tmp_path / "log")
    with pytest.raises(PipelineError, match="a mapping with id and where, not str"):
        log.extend([{"id": "a", "where": "x = 1"}, "x = 1"])  # type: ignore[list-item]
    log.commit()
    assert list(log.at()) == []


@pytest.mark.spark
def test_rows_of_a_frame_are_added(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("SELECT 7 AS id, 'x = 1' AS where, named_struct('level', 3) AS route")
    log = SubscriptionLog(tmp_path / "log")
    with pytest.raises(PipelineError, match=r"not a DataFrame: give its \.toLocalIterator\(\)"):
        log.extend(rows)  # type: ignore[arg-type]
    assert log.extend(rows.toLocalIterator()) == ()
    log.commit()
    assert [(each.id, each.metadata) for each in log.at()] == [("7", {"route": {"level": 3}})]

"""The flights that come with Palio, and the subscriptions to them, by what DuckDB makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

import duckdb
import pytest

from palio.workloads.flights import SUBSCRIPTIONS, FlightSubscription, generated_subscriptions, sample


def hearers(subscriptions: Sequence[FlightSubscription]) -> list[int]:
    """How many flights each of them hears of, according to DuckDB."""
    counts = ", ".join(f"count(*) FILTER (WHERE {s.where})" for s in subscriptions)
    connection = duckdb.connect()
    connection.register("flights", sample())
    return list(connection.sql(f"SELECT {counts} FROM flights").fetchall()[0])


def test_the_sample_is_what_its_note_says() -> None:
    flights = sample()
    assert flights.num_rows == 10_000
    assert flights.num_columns == 19
    assert set(flights["origin"].unique().to_pylist()) == {"EWR", "JFK", "LGA"}
    assert flights["month"].unique().to_pylist() == [1, 10, 11, 12, 2, 3, 4, 5, 6, 7, 8, 9]
    assert flights["dep_time"].null_count > 100
    assert str(flights.schema.field("time_hour").type) == "timestamp[us, tz=UTC]"
    folder = files("palio.workloads") / "data"
    assert "CC0" in (folder / "flights.LICENCE.txt").read_text()
    assert len((folder / "flights.parquet").read_bytes()) < 400_000


@pytest.mark.parametrize("subscription", SUBSCRIPTIONS, ids=lambda subscription: subscription.id)
def test_every_hand_written_subscription_hears_of_something(subscription: FlightSubscription) -> None:
    (count,) = hearers([subscription])
    assert 0 < count < 500


def test_ids_are_distinct_and_begin_with_the_subscriber() -> None:
    everyone = [*SUBSCRIPTIONS, *generated_subscriptions(2000)]
    assert len({subscription.id for subscription in everyone}) == len(everyone)
    for subscription in everyone:
        assert subscription.id.startswith(subscription.subscriber + "/")


def test_generated_subscriptions_are_named_by_their_seed_and_extend_each_other() -> None:
    assert generated_subscriptions(300) == generated_subscriptions(500)[:300]
    assert generated_subscriptions(50, seed=1) != generated_subscriptions(50, seed=2)


def test_generated_subscriptions_are_of_many_kinds_and_most_hear_of_something() -> None:
    generated = generated_subscriptions(600)
    assert len({subscription.subscriber for subscription in generated}) == 9
    assert len({subscription.where for subscription in generated}) > 500
    counts = hearers(generated)
    assert sum(count > 0 for count in counts) > 400
    assert max(counts) < 3000

"""Queries that the tests of matching share, and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palio.spark import Rendezvous

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# The rendezvous has so few subscriptions here that buckets must be asked for.
def rendezvous(mapping: str | None = None) -> Rendezvous:
    return Rendezvous(mapping, 4)


def pairs(found: DataFrame) -> set[tuple[int, str]]:
    rows = [(row["id"], row["subscription_id"]) for row in found.select("id", "subscription_id").collect()]
    assert len(rows) == len(set(rows))
    return set(rows)


def wants(*conditions: str) -> list[dict[str, str]]:
    return [{"id": condition, "where": condition} for condition in conditions]

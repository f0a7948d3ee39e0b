"""Sample of real flights with subscriptions, for demonstrations without data of one's own.

A sample of the flights that left New York City in 2013, a dozen subscriptions as people around an airport would write
them, and any number of generated ones, drawn from the routes, aircraft and delays of the sample, so that each can
match.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Flight = dict[str, Any]

_HUBS = ("ORD", "ATL", "CLT", "DTW", "DFW", "IAH", "MSP", "DEN")


@dataclass(frozen=True, slots=True)
class FlightSubscription:
    """A subscription with its condition in SQL and in words."""

    id: str
    subscriber: str
    wants: str
    where: str


def sample() -> pa.Table:
    """10,000 real flights, spread evenly over the year; a cancelled one has no `dep_time`.

    Public domain; the source is named in `data/flights.LICENCE.txt`.
    """
    import pyarrow.parquet as pq

    data = files("palio.workloads") / "data" / "flights.parquet"
    with data.open("rb") as file:
        return pq.read_table(file)


SUBSCRIPTIONS: tuple[FlightSubscription, ...] = (
    FlightSubscription(
        "ops-desk/ua-late",
        "ops-desk",
        "departures of United from Newark more than an hour late",
        "carrier = 'UA' AND origin = 'EWR' AND dep_delay > 60",
    ),
    FlightSubscription(
        "ops-desk/cancelled",
        "ops-desk",
        "flights that never left, on any of the three carriers we handle",
        "dep_time IS NULL AND carrier IN ('UA', 'DL', 'B6')",
    ),
    FlightSubscription(
        "bay-area/pickup",
        "bay-area",
        "arrivals in San Francisco or Oakland between one and three hours late",
        "arr_delay BETWEEN 60 AND 180 AND dest IN ('SFO', 'OAK')",
    ),
    FlightSubscription(
        "crew-rest/red-eye",
        "crew-rest",
        "transcontinental flights that left after ten at night",
        "dep_time >= 2200 AND distance > 2000",
    ),
    FlightSubscription(
        "connections/ord",
        "connections",
        "late arrivals at the hubs in Chicago, Atlanta and Charlotte in the evening bank",
        "dest IN ('ORD', 'ATL', 'CLT') AND sched_arr_time BETWEEN 1700 AND 2000 AND arr_delay > 30",
    ),
    FlightSubscription(
        "compensation/four-hours",
        "compensation",
        "anything that arrived four hours late or more",
        "arr_delay >= 240",
    ),
    FlightSubscription(
        "maintenance/american-fleet",
        "maintenance",
        "our own tail numbers that were long on the way out of La Guardia",
        "tailnum LIKE 'N%AA' AND origin = 'LGA' AND air_time > 200",
    ),
    FlightSubscription(
        "maintenance/no-tail",
        "maintenance",
        "flights whose aircraft nobody wrote down",
        "tailnum IS NULL",
    ),
    FlightSubscription(
        "made-up-time/pilots",
        "made-up-time",
        "left at least half an hour late and still arrived on time",
        "dep_delay >= 30 AND arr_delay <= 0",
    ),
    FlightSubscription(
        "leisure/caribbean",
        "leisure",
        "winter departures to the islands, unless badly delayed",
        "dest IN ('SJU', 'STT', 'BQN', 'PSE') AND (month <= 3 OR month = 12) AND NOT (dep_delay > 90)",
    ),
    FlightSubscription(
        "honolulu/every-day",
        "honolulu",
        "everything that goes to Honolulu",
        "dest = 'HNL'",
    ),
    FlightSubscription(
        "press/thanksgiving",
        "press",
        "two hours late in the week of Thanksgiving, or cancelled",
        "month = 11 AND day BETWEEN 25 AND 30 AND (dep_delay > 120 OR dep_time IS NULL)",
    ),
)
"""A dozen, written by hand."""


def generated_subscriptions(count: int, seed: int = 2013) -> list[FlightSubscription]:
    """Seeded subscriptions over the real columns; a longer list begins with the shorter one.

    Each starts from one flight of the sample and asks for flights like it, in one of nine ways.
    Costs about 20 µs each.
    """
    flights: list[Flight] = sample().to_pylist()
    makers = list(_MAKERS.items())
    weights = [weight for _, (weight, _) in makers]
    subscriptions = []
    for number in range(count):
        # A generator for each number: a subscription does not depend on how many are made.
        choice = Random(f"{seed}/{number}")
        subscriber, (_, make) = choice.choices(makers, weights)[0]
        wants, where = make(choice, choice.choice(flights))
        subscriptions.append(FlightSubscription(f"{subscriber}/{number}", subscriber, wants, where))
    return subscriptions


def _relative(choice: Random, flight: Flight) -> tuple[str, str]:
    where = f"carrier = '{flight['carrier']}' AND flight = {flight['flight']} AND month = {flight['month']}"
    return f"{flight['carrier']}{flight['flight']} in one month", where


def _commuter(choice: Random, flight: Flight) -> tuple[str, str]:
    late = choice.choice([15, 30, 45, 60])
    route = f"origin = '{flight['origin']}' AND dest = '{flight['dest']}'"
    hours = f"sched_dep_time BETWEEN {flight['hour'] * 100} AND {flight['hour'] * 100 + 159}"
    return f"{flight['origin']} to {flight['dest']} around {flight['hour']} h, {late} min late", (
        f"{route} AND {hours} AND dep_delay >= {late}"
    )


def _mechanic(choice: Random, flight: Flight) -> tuple[str, str]:
    if flight["tailnum"] is None:
        return f"{flight['carrier']} without a tail number", (f"tailnum IS NULL AND carrier = '{flight['carrier']}'")
    return f"aircraft {flight['tailnum']}", f"tailnum = '{flight['tailnum']}'"


def _fleet(choice: Random, flight: Flight) -> tuple[str, str]:
    suffix = (flight["tailnum"] or "N14UA")[-2:]
    late = choice.randrange(30, 240, 10)
    return f"tails ending in {suffix}, {late} min late", f"tailnum LIKE '%{suffix}' AND arr_delay > {late}"


def _gate(choice: Random, flight: Flight) -> tuple[str, str]:
    low = choice.randrange(-10, 60, 5)
    return f"{flight['carrier']} at {flight['origin']}, {low} to {low + 30} min", (
        f"origin = '{flight['origin']}' AND carrier = '{flight['carrier']}' AND hour = {flight['hour']} "
        f"AND dep_delay BETWEEN {low} AND {low + 30}"
    )


def _insurer(choice: Random, flight: Flight) -> tuple[str, str]:
    late = choice.randrange(120, 400, 20)
    day = f"month = {flight['month']} AND day = {flight['day']}"
    return f"{late} min late, or cancelled, on one day", f"{day} AND (arr_delay > {late} OR dep_time IS NULL)"


def _hub(choice: Random, flight: Flight) -> tuple[str, str]:
    hubs = sorted({flight["dest"], *choice.sample(_HUBS, 2)})
    late = choice.randrange(20, 180, 10)
    listed = ", ".join(f"'{hub}'" for hub in hubs)
    return f"{late} min late into {', '.join(hubs)}", (
        f"dest IN ({listed}) AND arr_delay > {late} AND sched_arr_time >= {flight['sched_arr_time']}"
    )


def _planner(choice: Random, flight: Flight) -> tuple[str, str]:
    shortest = flight["distance"] // 100 * 100
    return f"{shortest} to {shortest + 99} miles, slow, {flight['carrier']}", (
        f"distance BETWEEN {shortest} AND {shortest + 99} AND carrier = '{flight['carrier']}' "
        f"AND air_time > {(flight['air_time'] or 120) + choice.randrange(0, 30, 5)}"
    )


def _rival(choice: Random, flight: Flight) -> tuple[str, str]:
    early = choice.randrange(5, 40, 5)
    return f"everyone but {flight['carrier']} to {flight['dest']}, {early} min early", (
        f"dest = '{flight['dest']}' AND carrier <> '{flight['carrier']}' AND arr_delay < -{early}"
    )


_MAKERS: dict[str, tuple[int, Callable[[Random, Flight], tuple[str, str]]]] = {
    "relative": (20, _relative),
    "commuter": (20, _commuter),
    "mechanic": (20, _mechanic),
    "gate": (15, _gate),
    "insurer": (10, _insurer),
    "hub": (5, _hub),
    "planner": (5, _planner),
    "fleet": (3, _fleet),
    "rival": (2, _rival),
}

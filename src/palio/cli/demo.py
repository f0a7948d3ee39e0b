"""`palio demo`: real flights against subscriptions, before one has data at hand."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from palio.cli import terminal
from palio.cli.demo_sigma import sigma

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from rich.console import Console
    from rich.table import Table

    from palio.matching.matcher import Matcher
    from palio.workloads.flights import FlightSubscription


_DEFAULT_SUBSCRIPTIONS: Final = 5_000
_MIN_MEASURED_SECONDS: Final = 0.4
_EXAMPLES_PER_SUBSCRIPTION: Final = 2
_MAX_WIDTH: Final = 140  # columns; in wider tables the eye loses the line
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_KIND_MEANING: Final = {
    "relative": "one flight, for a month",
    "commuter": "a route, late, at some hour",
    "mechanic": "one aircraft",
    "gate": "a carrier at an airport",
    "insurer": "a bad day, or cancelled",
    "hub": "late into any of three hubs",
    "planner": "a carrier, by distance, slow",
    "fleet": "tails by their ending, late",
    "rival": "early, on all but one carrier",
}
_EXAMPLE_CONDITION: Final = "dest = 'SFO' AND arr_delay > 60"
_EXAMPLE_FLIGHT: Final = json.dumps({"dest": "SFO", "arr_delay": 12})


@click.group(invoke_without_command=True)
@click.option(
    "--subscriptions", "generated", type=click.IntRange(0), default=_DEFAULT_SUBSCRIPTIONS, show_default=True,
    metavar="N", help="How many subscriptions to generate beside the dozen.",
)  # fmt: skip
@click.option(
    "--events", type=click.IntRange(1), metavar="N",
    help="How many flights to match; the 10,000 of the sample come again where more are asked for.",
)  # fmt: skip
@click.option("--spark", is_flag=True, help="Match on Spark, on all cores of this machine. Needs palio[spark].")
@click.option(
    "--save", "folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
    help="Also write the subscriptions and the flights there, for `palio match` and `palio check`.",
)  # fmt: skip
@click.pass_context
def demo(ctx: click.Context, generated: int, events: int | None, spark: bool, folder: Path | None) -> None:
    """See it work: real flights against thousands of subscriptions.

    The flights are a sample of those that left New York City in 2013. A dozen subscriptions were written by
    hand; the others are generated from the flights.

    \b
    Examples:
      palio demo
      palio demo --subscriptions 100000
      palio demo --spark
      palio demo --save flights
      palio demo sigma
    """
    if ctx.invoked_subcommand is not None:
        return
    import pyarrow as pa

    from palio.workloads.flights import SUBSCRIPTIONS, generated_subscriptions, sample

    with terminal.status("Reading flights and making subscriptions"):
        flights = sample()
        wants = [*SUBSCRIPTIONS, *generated_subscriptions(generated)]
        if events is not None:
            flights = pa.concat_tables([flights] * -(-events // len(flights))).slice(0, events)
        flights = flights.combine_chunks()
    if spark:
        from palio.cli.demo_spark import match_flights_on_spark

        answers, facts = match_flights_on_spark(wants, flights)
    else:
        answers, facts = _match_flights(wants, flights)
    console = terminal.results()
    print_answers(console, wants, len(SUBSCRIPTIONS), flights, answers)
    console.print()
    console.print(terminal.facts(facts))
    if folder is not None:
        _save(folder, wants, flights)
    _print_hints(console, folder)


def _print_hints(console: Console, folder: Path | None) -> None:
    from rich.text import Text

    where = "flights" if folder is None else str(folder)
    hints = [
        ("why one condition matches, or not", f"palio explain \"{_EXAMPLE_CONDITION}\" '{_EXAMPLE_FLIGHT}'"),
        (
            "the same from files" if folder else "the same from files, which this makes",
            f"palio match {where}/wants.jsonl {where}/flights.parquet" if folder else "palio demo --save flights",
        ),
    ]
    console.print()
    console.print(Text("Try next", style="title"))
    for what, command in hints:
        console.print(Text.assemble(("  $ ", "quiet"), command), soft_wrap=True)
        console.print(Text(f"    {what}", style="quiet"), soft_wrap=True)


def _save(folder: Path, wants: list[FlightSubscription], flights: pa.Table) -> None:
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "wants.jsonl", "w", encoding="utf-8") as file:
        for each in wants:
            line = {"id": each.id, "subscriber": each.subscriber, "where": each.where, "wants": each.wants}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    pq.write_table(flights, folder / "flights.parquet")


@dataclass(frozen=True, slots=True)
class Answers:
    """Matches as pairs of a flight's row and a subscription's number."""

    rows: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]

    @classmethod
    def of_ids(cls, rows: npt.NDArray[np.int64], ids: pa.DictionaryArray, wants: list[FlightSubscription]) -> Answers:
        """From the ids of the matching subscriptions."""
        import numpy as np

        number_of = {each.id: number for number, each in enumerate(wants)}
        numbers = np.array([number_of[id] for id in ids.dictionary.to_pylist()], np.int64)
        return cls(rows, numbers[ids.indices.to_numpy()] if len(ids) else np.empty(0, np.int64))


def print_answers(
    console: Console, wants: list[FlightSubscription], written: int, flights: pa.Table, answers: Answers
) -> None:
    import numpy as np
    from rich.text import Text

    counts = np.bincount(answers.numbers, minlength=len(wants))
    console.print()
    console.print(
        Text.assemble(
            ("Palio", "bold cyan"), (" · who would hear of what", "title"), "\n",
            (f"{len(flights):,} real flights out of New York City, 2013", "quiet"), (" × ", "quiet"),
            (terminal.plural(len(wants), "subscription"), "quiet"),
        )
    )  # fmt: skip
    console.print()
    most = max(1, int(counts[:written].max()))
    layout = _side_by_side if console.width >= terminal.WIDE_COLUMNS else _stacked
    table = layout(wants[:written], counts, most, lambda number: _examples(flights, answers, number))
    table.width = min(console.width, _MAX_WIDTH)
    console.print(table)
    if len(wants) > written:
        console.print()
        console.print(_generated(console, wants, written, counts))


def _side_by_side(wants: list[FlightSubscription], counts: Any, most: int, examples: Any) -> Table:
    from rich.table import Column
    from rich.text import Text

    table = terminal.table(
        "who", Column("wants to hear of", ratio=2), terminal.numbers("heard"), Column("", width=12),
        Column("for example (minutes late)", ratio=3, no_wrap=True),
    )  # fmt: skip
    for number, each in enumerate(wants):
        count = int(counts[number])
        table.add_row(
            Text(each.subscriber, style="name"),
            each.wants,
            f"{count:,}",
            terminal.bar(count / most, 12),
            Text("\n".join(examples(number)), style="quiet"),
        )
    return table


def _stacked(wants: list[FlightSubscription], counts: Any, most: int, examples: Any) -> Table:
    from rich.table import Column
    from rich.text import Text

    table = terminal.table(
        "who", Column("wants to hear of, for example (minutes late)", ratio=1), terminal.numbers("heard")
    )
    table.columns.append(Column("", width=8, _index=3))
    for number, each in enumerate(wants):
        count = int(counts[number])
        table.add_row(
            Text(each.subscriber, style="name"),
            Text.assemble(each.wants, *((f"\n  {flight}", "quiet") for flight in examples(number))),
            f"{count:,}",
            terminal.bar(count / most, 8),
        )
    return table


def _examples(flights: pa.Table, answers: Answers, number: int) -> list[str]:
    """A few of the flights that match a subscription, spread over the year."""
    rows = answers.rows[answers.numbers == number]
    chosen = (
        [
            int(rows[len(rows) * (2 * part + 1) // (2 * _EXAMPLES_PER_SUBSCRIPTION)])
            for part in range(_EXAMPLES_PER_SUBSCRIPTION)
        ]
        if len(rows)
        else []
    )
    return [_flight(flights.slice(row, 1).to_pylist()[0]) for row in dict.fromkeys(chosen)]


def _flight(flight: dict[str, Any]) -> str:
    date = f"{flight['day']:>2} {_MONTHS[flight['month'] - 1]}"
    route = f"{flight['carrier']}{flight['flight']:<5}{flight['origin']}→{flight['dest']}"
    if flight["dep_time"] is None:
        return f"{date}  {route}  cancelled"
    arrived = "" if flight["arr_delay"] is None else f", arr {flight['arr_delay']:+}"
    return f"{date}  {route}  dep {flight['dep_delay']:+}{arrived}"


def _generated(console: Console, wants: list[FlightSubscription], written: int, counts: Any) -> Table:
    """The generated subscriptions by kind, with their numbers and matches."""
    from rich.table import Column
    from rich.text import Text

    many: Counter[str] = Counter()
    heard: Counter[str] = Counter()
    silent: Counter[str] = Counter()
    for each, count in zip(wants[written:], counts[written:].tolist(), strict=True):
        many[each.subscriber] += 1
        heard[each.subscriber] += count
        silent[each.subscriber] += count == 0
    room = 12 if console.width >= terminal.WIDE_COLUMNS else 8
    table = terminal.table(
        "generated", "wants to hear of", terminal.numbers("count"),
        terminal.numbers("silent"), terminal.numbers("heard"), Column("", width=room),
    )  # fmt: skip
    most = max(1, *heard.values())
    for kind, count in many.most_common():
        table.add_row(
            Text(kind, style="name"),
            _KIND_MEANING.get(kind, ""),
            f"{count:,}",
            f"{silent[kind]:,}",
            f"{heard[kind]:,}",
            terminal.bar(heard[kind] / most, room),
        )
    return table


def _match_flights(wants: list[FlightSubscription], flights: pa.Table) -> tuple[Answers, list[tuple[str, str]]]:
    """Compile, index and match in this process; the batch is repeated until the time can be measured."""
    from palio.matching.matcher import Matcher
    from palio.matching.subscription import Subscription

    subscriptions = [Subscription(each.id, each.where, subscriber=each.subscriber) for each in wants]
    with terminal.status("Compiling for this machine"):
        started = time.perf_counter()
        # A small matcher compiles the same kernels, so that the times below are without compilation.
        first = Matcher()
        first.add_subscriptions(subscriptions[:100])
        first.match_batch(flights.slice(0, 100))
        compiling = time.perf_counter() - started
    matcher = Matcher()
    with terminal.status(f"Indexing {len(wants):,} subscriptions"):
        started = time.perf_counter()
        matcher.add_subscriptions(subscriptions)
        building = time.perf_counter() - started
    with terminal.status(f"Matching {len(flights):,} flights"):
        found = None
        rounds = 0
        started = time.perf_counter()
        while found is None or time.perf_counter() - started < _MIN_MEASURED_SECONDS:
            found = matcher.match_batch(flights)
            rounds += 1
        matching = (time.perf_counter() - started) / rounds
    answers = Answers.of_ids(found["row"].to_numpy(), found["subscription"].combine_chunks(), wants)
    return answers, list(_facts(matcher, len(flights), len(found), building, compiling, matching))


def _facts(
    matcher: Matcher, events: int, matches: int, building: float, compiling: float, matching: float
) -> Iterator[tuple[str, str]]:
    many = len(matcher)
    each = f"{matcher.statistics().bytes_per_subscription:.0f} bytes each"
    adding = f"{terminal.rate(many, building)} a second"
    yield "indexed", f"{terminal.plural(many, 'subscription')} in {terminal.duration(building)}: {adding}, {each}"
    yield "kernels", f"ready in {terminal.duration(compiling)}; the first run compiles them"
    speed = f"{terminal.rate(events, matching)} events/s"
    answering = f"{terminal.rate(matches, matching)} matches/s"
    yield "matched", f"{events:,} flights in {terminal.duration(matching)}: {speed}, {answering}"
    asked = f"asked one by one that is {terminal.plural(events * many, 'question')}"
    yield "answered", f"{matches:,} matches, {matches / events:.3g} for each flight; {asked}"


demo.add_command(sigma)

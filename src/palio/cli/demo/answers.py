"""Who would hear of which flight, as tables to look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from palio.cli import terminal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from rich.console import Console
    from rich.table import Table

    from palio.workloads.flights import Subscription

_EXAMPLES: Final = 2  # flights shown for each subscription
_WIDEST: Final = 140  # columns; beyond, the eye loses the line
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_KINDS: Final = {
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


@dataclass(frozen=True, slots=True)
class Answers:
    """Who wants which flight: pairs of a row and the number of a subscription."""

    rows: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]

    @classmethod
    def of_ids(cls, rows: npt.NDArray[np.int64], ids: pa.DictionaryArray, wants: list[Subscription]) -> Answers:
        """From the ids of subscriptions."""
        import numpy as np

        number_of = {each.id: number for number, each in enumerate(wants)}
        numbers = np.array([number_of[id] for id in ids.dictionary.to_pylist()], np.int64)
        return cls(rows, numbers[ids.indices.to_numpy()] if len(ids) else np.empty(0, np.int64))


def print_answers(
    console: Console, wants: list[Subscription], written: int, flights: pa.Table, answers: Answers
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
    layout = _side_by_side if console.width >= terminal.WIDE else _stacked
    table = layout(wants[:written], counts, most, lambda number: _examples(flights, answers, number))
    table.width = min(console.width, _WIDEST)
    console.print(table)
    if len(wants) > written:
        console.print()
        console.print(_generated(console, wants, written, counts))


def _side_by_side(wants: list[Subscription], counts: Any, most: int, examples: Any) -> Table:
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


def _stacked(wants: list[Subscription], counts: Any, most: int, examples: Any) -> Table:
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
    """A few of the flights a subscription hears of, spread over the year."""
    rows = answers.rows[answers.numbers == number]
    chosen = (
        [int(rows[len(rows) * (2 * part + 1) // (2 * _EXAMPLES)]) for part in range(_EXAMPLES)] if len(rows) else []
    )
    return [_flight(flights.slice(row, 1).to_pylist()[0]) for row in dict.fromkeys(chosen)]


def _flight(flight: dict[str, Any]) -> str:
    date = f"{flight['day']:>2} {_MONTHS[flight['month'] - 1]}"
    route = f"{flight['carrier']}{flight['flight']:<5}{flight['origin']}→{flight['dest']}"
    if flight["dep_time"] is None:
        return f"{date}  {route}  cancelled"
    arrived = "" if flight["arr_delay"] is None else f", arr {flight['arr_delay']:+}"
    return f"{date}  {route}  dep {flight['dep_delay']:+}{arrived}"


def _generated(console: Console, wants: list[Subscription], written: int, counts: Any) -> Table:
    """The generated ones by kind: how many there are, and how much they hear."""
    from collections import Counter

    from rich.table import Column
    from rich.text import Text

    many: Counter[str] = Counter()
    heard: Counter[str] = Counter()
    silent: Counter[str] = Counter()
    for each, count in zip(wants[written:], counts[written:].tolist(), strict=True):
        many[each.subscriber] += 1
        heard[each.subscriber] += count
        silent[each.subscriber] += count == 0
    room = 12 if console.width >= terminal.WIDE else 8
    table = terminal.table(
        "generated", "wants to hear of", terminal.numbers("count"),
        terminal.numbers("silent"), terminal.numbers("heard"), Column("", width=room),
    )  # fmt: skip
    most = max(1, *heard.values())
    for kind, count in many.most_common():
        table.add_row(
            Text(kind, style="name"),
            _KINDS.get(kind, ""),
            f"{count:,}",
            f"{silent[kind]:,}",
            f"{heard[kind]:,}",
            terminal.bar(heard[kind] / most, room),
        )
    return table

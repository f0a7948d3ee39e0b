"""Comparison of Palio's answers with an oracle's, on every row and by every evaluation path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from palio import Event, Filter, Matcher, PalioError
from tests.oracles.answers import Answer
from tests.oracles.generate import Expr


@dataclass(frozen=True, slots=True)
class Difference:
    """A condition and a row for which Palio and the oracle disagree, and by which way Palio was asked."""

    condition: str
    row: int
    expected: str
    found: str
    asked: str


@dataclass
class Outcome:
    """What a comparison of many conditions found."""

    conditions: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    refused: dict[str, str] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        self.conditions += other.conditions
        self.answers += other.answers
        self.refused |= other.refused
        self.differences += other.differences


class PalioTable:
    """A table as events, for which filters and a matcher are asked."""

    def __init__(self, table: pa.Table, zone: str = "UTC") -> None:
        self.table = table
        self.zone = zone
        self.events = list(Event.from_arrow(table))

    def parse(self, condition: str) -> Filter:
        return Filter.parse(condition, timezone=self.zone)

    def rows(self, wanted: Filter) -> set[int]:
        """The rows that a filter matches, one event at a time."""
        return {row for row, event in enumerate(self.events) if wanted.matches(event)}

    def matcher(self, conditions: Sequence[str | Filter], *, at_once: bool) -> Matcher:
        """A matcher of conditions, each known by its place."""
        matcher = Matcher()
        if at_once:
            matcher.add_many(map(str, range(len(conditions))), conditions)
        else:
            for place, condition in enumerate(conditions):
                matcher.add(str(place), condition)
        return matcher

    def in_a_batch(self, conditions: Sequence[str | Filter]) -> list[set[int]]:
        """The rows that each condition matches, all asked together."""
        matches = self.matcher(conditions, at_once=True).match_batch(self.table)
        found: list[set[int]] = [set() for _ in conditions]
        pairs = zip(matches["row"].to_pylist(), matches["subscription"].to_pylist(), strict=True)
        for row, subscription in pairs:
            found[int(subscription)].add(row)
        return found

    def one_by_one(self, conditions: Sequence[str | Filter]) -> list[set[int]]:
        """The rows that each condition matches, added and asked one after the other."""
        matcher = self.matcher(conditions, at_once=False)
        found: list[set[int]] = [set() for _ in conditions]
        for row, event in enumerate(self.events):
            for subscription in matcher.match(event):
                found[int(subscription)].add(row)
        return found


def compare(palio: PalioTable, conditions: Sequence[str], expected: Sequence[Sequence[Answer]]) -> Outcome:
    """Ask Palio every condition in every way and hold the answers against the oracle's, row by row.

    A condition is asked by itself (matching is TRUE), behind a written NOT and under `~` (matching is FALSE), parsed
    again from its own printed form, and of matchers, in batches and event by event. Rows for which the oracle raises
    are not compared, whatever Palio says.
    """
    outcome = Outcome(conditions=len(conditions))
    parsed: list[tuple[str, Sequence[Answer], Filter, Filter]] = []
    for condition, answers in zip(conditions, expected, strict=True):
        try:
            parsed.append((condition, answers, palio.parse(condition), palio.parse(f"NOT ({condition})")))
        except PalioError as error:
            outcome.refused[condition] = str(error).splitlines()[0]
            continue
        outcome.answers.update(answer.value for answer in answers)
    filters = [each for _, _, wanted, unwanted in parsed for each in (wanted, unwanted)]
    batches, singles = palio.in_a_batch(filters), palio.one_by_one(filters)
    # A text is read in UTC, and many of them at once by a short cut of their own.
    texts = palio.in_a_batch([condition for condition, *_ in parsed]) if palio.zone == "UTC" else batches[::2]
    for place, (condition, answers, wanted, unwanted) in enumerate(parsed):
        asked = {
            "matches": (Answer.TRUE, palio.rows(wanted)),
            "NOT matches": (Answer.FALSE, palio.rows(unwanted)),
            "~ matches": (Answer.FALSE, palio.rows(~wanted)),
            "printed matches": (Answer.TRUE, palio.rows(Filter.parse(str(wanted), timezone=wanted.timezone))),
            "match_batch": (Answer.TRUE, batches[2 * place]),
            "NOT match_batch": (Answer.FALSE, batches[2 * place + 1]),
            "match": (Answer.TRUE, singles[2 * place]),
            "NOT match": (Answer.FALSE, singles[2 * place + 1]),
            "match_batch of texts": (Answer.TRUE, texts[place]),
        }
        for way, (meaning, rows) in asked.items():
            outcome.differences += _differences(condition, answers, way, meaning, rows)
    return outcome


def _differences(
    condition: str, answers: Sequence[Answer], way: str, meaning: Answer, rows: set[int]
) -> list[Difference]:
    found = []
    for row, answer in enumerate(answers):
        if answer is Answer.RAISES or (answer is meaning) == (row in rows):
            continue
        said = meaning.value if row in rows else f"not {meaning.value}"
        found.append(Difference(condition, row, answer.value, said, way))
    return found


def report(
    outcome: Outcome,
    expressions: Sequence[Expr],
    table: pa.Table,
    retry: Callable[[Sequence[str]], Outcome],
    replay: str,
) -> str:
    """What went wrong, each condition narrowed down to its smallest part that goes wrong too, and how to replay it."""
    by_text = {expression.text: expression for expression in expressions}
    wrong = dict.fromkeys(each.condition for each in outcome.differences)
    lines = [f"{len(wrong)} of {outcome.conditions} conditions differ; to see them again: {replay}"]
    for condition in list(wrong)[:10]:
        parts = [part.text for part in by_text[condition].conditions()] if condition in by_text else [condition]
        again = retry(parts)
        smallest = min((each.condition for each in again.differences), key=len, default=condition)
        shown = [each for each in again.differences if each.condition == smallest] or [
            each for each in outcome.differences if each.condition == condition
        ]
        lines.append(f"\n{condition}\n  smallest part: {smallest}")
        lines += [
            f"  row {each.row}: the oracle says {each.expected}, {each.asked} says {each.found}" for each in shown[:4]
        ]
        lines.append(f"  with {_values(table, shown[0].row, smallest)}")
    return "\n".join(lines)


def _values(table: pa.Table, row: int, condition: str) -> dict[str, Any]:
    plain = condition.replace("`", "")
    return {name: table[name][row].as_py() for name in table.column_names if name in plain}

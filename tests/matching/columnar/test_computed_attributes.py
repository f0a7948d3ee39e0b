"""Computed attributes: conditions on expressions, indexed by the values of the expressions, as filters decide them."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from math import inf, nextafter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from palio.errors import ParseError
from palio.events import Event
from palio.filters.expressions.ast import Expression
from palio.filters.filter import Filter
from palio.filters.tree import Leaf
from palio.languages.sql.parser import parse_condition
from palio.matching.columnar import bulk_templates
from palio.matching.columnar.computed_attributes import computed_attribute, computed_name, rewritten_alternatives
from palio.matching.index_concatenation import concatenate
from palio.matching.matcher import Matcher
from tests.matching.suite import ids_by_row

EXPRESSIONS = (
    "a + b",
    "a * b",
    "a - b",
    "a % 2",
    "-a",
    "abs(a - 2)",
    "lower(s)",
    "upper(s)",
    "length(s)",
    "substring(s, 1, 1)",
    "concat(s, 'x')",
    "coalesce(a, 1)",
    "coalesce(s, a)",
    "CAST(s AS INT)",
    "CASE WHEN a > 1 THEN b ELSE s END",
    "if(a > b, a, b)",
    "greatest(a, b)",
    "year(ts)",
    "n.x + a",
    "size(tags)",
    "element_at(tags, 1)",
)
CONSTANTS = ("1", "2", "3", "5", "1.5", "2D", "TRUE", "'x'", "'ab'", "DATE'2024-01-02'")
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, 3, -1, 5, 7, 10**18, 2**63 - 1),
    *(1.5, 2.0, float("nan"), float("inf"), -0.0),
    *("", "x", "X", "ab", "Ab", "5", "1.5", "İ"),
    *(date(2024, 1, 2), datetime(2024, 3, 4, 5, 6, 7, tzinfo=UTC), date(2024, 3, 4), datetime(2024, 1, 2, tzinfo=UTC)),
)
INTERVALS = (
    "INTERVAL 1 DAY",
    "INTERVAL 24 HOURS",
    "INTERVAL '0' SECOND",
    "INTERVAL 2 MONTHS",
    "INTERVAL '86400.000001' SECOND",
)


def matcher_of(texts: list[str]) -> Matcher:
    matcher = Matcher()
    matcher.add_many(map(str, range(len(texts))), texts)
    return matcher


def matches(texts: list[str], event: Any) -> set[str]:
    return {str(at) for at, text in enumerate(texts) if Filter.parse(text).matches(event)}


def computed(matcher: Matcher) -> list[str]:
    # Private: which expressions an index holds shows in nothing but its speed.
    snapshot = matcher._segments.snapshot
    return sorted(each.name.rpartition("\0")[2] for segment in snapshot.segments for each in segment.encoder.computed)


class Conditions:
    """Random conditions and events."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)

    def texts(self, count: int) -> list[str]:
        found: list[str] = []
        while len(found) < count:
            text = self._condition()
            try:
                Filter.parse(text)
            except ParseError:  # kinds that do not go together
                continue
            found.append(text)
        return found + self.choose.choices(found, k=count)  # so that expressions are shared

    def _condition(self) -> str:
        parts = [self._predicate() for _ in range(self.choose.choice((1, 1, 2, 3)))]
        if self.choose.random() < 0.5:
            parts.append(self.choose.choice(("s = 'x'", "a = 1", "b > 1", "a IS NULL")))
        return self.choose.choice((" AND ", " OR ")).join(f"({part})" for part in parts)

    def _predicate(self) -> str:
        constant = self.choose.choice(CONSTANTS)
        expression = self.choose.choice(EXPRESSIONS)
        compared = f"{expression} {self.choose.choice(('=', '<>', '<', '<=', '>', '>='))} {constant}"
        text = self.choose.choice(
            (
                *(compared, compared, f"({compared}) IS TRUE", f"({compared}) IS NOT TRUE"),
                *(f"{expression} IN ({constant}, {constant})", f"{expression} BETWEEN 1 AND 3"),
                *(f"{expression} IS NULL", f"{expression} IS NOT NULL", f"{constant} < {expression}"),
                *("a < b", "a = b", "(a < b) IS NULL", f"array_contains(tags, {constant})"),
                *(
                    "lower(s) LIKE '%x%'",
                    "upper(s) RLIKE '^[A-Z]'",
                    "upper(s) = upper('ab')",
                    "lower(s) >= lower('AB')",
                ),
                *("instr(s, 'b') > 0", "locate('x', lower(s)) <> 1", "contains(upper(s), 'A')", "lower(s) ILIKE 'A%'"),
                *self._intervals(),
            )
        )
        return f"NOT ({text})" if self.choose.random() < 0.3 else text

    def _intervals(self) -> list[str]:
        """Differences of times compared with intervals."""
        operator = self.choose.choice(("=", "<>", "<", "<=", ">", ">="))
        interval = self.choose.choice(INTERVALS)
        return [f"te - ts {operator} {interval}", f"{interval} {operator} abs(te - ts)",
                f"coalesce(te - ts, INTERVAL 1 DAY) BETWEEN INTERVAL '-1' DAY AND {interval}"]  # fmt: skip

    def event(self, arrays: bool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in ("a", "b", "s", "ts", "te"):
            if self.choose.random() < 0.8:
                found[name] = self._array() if arrays and self.choose.random() < 0.3 else self.choose.choice(VALUES)
        if self.choose.random() < 0.6:
            found["tags"] = self._array()
        if self.choose.random() < 0.6:
            object = {"x": self.choose.choice(VALUES)}
            found["n"] = [object, {"x": 1}] if arrays and self.choose.random() < 0.5 else object
        return found

    def _array(self) -> list[Any]:
        return self.choose.choices(VALUES, k=self.choose.randrange(4))

    def table(self, count: int) -> pa.Table:
        def column(*values: Any) -> list[Any]:
            return self.choose.choices((None, *values), k=count)

        return pa.table(
            {
                "a": column(0, 1, 2, 3, 2**62),
                "b": column(1.5, 2.0, 0.0, -0.0, float("nan")),
                "s": column("x", "X", "Ab", "5", ""),
                "ts": column(datetime(2024, 1, 1), datetime(2023, 6, 1)),
                "te": column(datetime(2024, 1, 1), datetime(2024, 1, 2, 0, 0, 0, 1)),
                "tags": column([], ["x"], ["x", "ab"], [None]),
                "n": [{"x": value} for value in column(1, 2)],
            }
        )


@pytest.mark.parametrize("seed", range(6))
def test_they_decide_as_filters_do(seed: int) -> None:
    given = Conditions(seed)
    texts = given.texts(40)
    matcher = matcher_of(texts)
    assert computed(matcher)
    events = [given.event(arrays=bool(seed % 2)) for _ in range(40)]
    expected = [matches(texts, event) for event in events]
    assert [matcher.match(event) for event in events] == expected
    assert ids_by_row(matcher.match_batch(events), len(events)) == expected
    table = given.table(40)
    rows = [matches(texts, event) for event in Event.from_arrow(table)]
    assert ids_by_row(matcher.match_batch(table), table.num_rows) == rows


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 350))
def test_they_decide_as_filters_do_for_thousands_of_conditions(seed: int) -> None:
    test_they_decide_as_filters_do(seed)


def test_an_expression_is_one_attribute_whatever_it_is_compared_with() -> None:
    texts = [f"lower(s) = 'v{n}'" for n in range(20)] + [f"lower( s ) IN ('w{n}', 'v1')" for n in range(5)]
    matcher = matcher_of(texts)
    assert computed(matcher) == ["lower(s)"]
    assert matcher.match({"s": "V1"}) == {"1", "20", "21", "22", "23", "24"}


@pytest.mark.parametrize("zone", ["UTC", "America/Sao_Paulo"])
def test_intervals_of_time_are_one_attribute_whatever_they_are_compared_with(zone: str, tmp_path: Path) -> None:
    texts = [f"te - ts > INTERVAL {n} HOURS" for n in range(20)] + [f"INTERVAL {n} DAYS <= te - ts" for n in range(5)]
    matcher = Matcher()
    for at, text in enumerate(texts):
        matcher.add(str(at), text, timezone=zone)
    matcher.merge()
    assert computed(matcher) == ["(te - ts)"]
    assert matcher.statistics().slow == 0
    matcher.save(tmp_path / "index")
    times = [None, 5, "x", date(2024, 2, 17), date(2024, 2, 18), datetime(2024, 2, 18, 2, tzinfo=UTC)]
    events = [{"ts": one, "te": other} for one in times for other in times]
    expected = [{str(at) for at, text in enumerate(texts) if Filter.parse(text, timezone=zone).matches(event)}
                for event in events]  # fmt: skip
    assert sum(map(bool, expected)) > 3
    for each in (matcher, Matcher.open(tmp_path / "index")):
        assert [each.match(event) for event in events] == expected
        assert ids_by_row(each.match_batch(events), len(events)) == expected


def test_a_rare_expression_is_evaluated_on_candidates_where_the_rest_selects() -> None:
    texts = [f"k = {n} AND a * {n} + b > 5" for n in range(10)]
    matcher = matcher_of(texts)
    assert computed(matcher) == []
    assert matcher.match({"k": 3, "a": 2, "b": 0}) == {"3"}
    assert computed(matcher_of([f"a * {n} + b > 5" for n in range(3)])) == [f"((a * {n}) + b)" for n in range(3)]


@pytest.mark.parametrize("text", [*EXPRESSIONS, "a < b", "date_format(ts, 'yyyy')", "ts - ts", "`odd name` + 1"])
@pytest.mark.parametrize("zone", ["UTC", "America/Sao_Paulo"])
def test_a_name_says_the_expression(text: str, zone: str) -> None:
    expression = parse_condition(text, timezone=zone)
    found = computed_attribute(computed_name(expression, zone))
    assert (found.expression, found.timezone) == (expression, zone)


def test_the_zone_is_a_part_of_the_name() -> None:
    matcher = Matcher()
    for number in range(8):
        zone = ("UTC", "Asia/Tokyo")[number % 2]
        matcher.add(str(number), "hour(ts) = 3", timezone=zone)
    matcher.merge()
    assert len(computed(matcher)) == 2
    assert matcher.match({"ts": datetime(2024, 1, 1, 3, tzinfo=UTC)}) == {"0", "2", "4", "6"}
    assert matcher.match({"ts": datetime(2024, 1, 1, 18, tzinfo=UTC)}) == {"1", "3", "5", "7"}


def test_a_column_of_that_name_is_another_attribute() -> None:
    matcher = matcher_of([*(f"lower(s) = 'v{n}'" for n in range(8)), "`lower(s)` = 'v1'"])
    table = pa.table({"s": ["V1", "V2"], "lower(s)": ["v2", "v1"]})
    assert ids_by_row(matcher.match_batch(table), 2) == [{"1"}, {"2", "8"}]


ARRAYS: list[Any] = [
    {"a": [1, 2], "b": [3, 4]},
    {"a": list(range(100)), "b": list(range(100))},
    {"a": list(range(200)), "b": 5, "k": "x"},
    {"n": [{"x": 1}, {"x": 4}], "a": 2},
    {"a": [], "b": 3},
    {"a": [None], "b": [3], "k": "x"},
]


@pytest.mark.parametrize("event", ARRAYS, ids=range(len(ARRAYS)))
def test_one_element_is_chosen_of_every_array(event: Any) -> None:
    """Also where there are too many choices to compute: the filters of these subscriptions decide."""
    texts = [f"a + b = {n}" for n in range(8)] + [f"a + b > {n} AND a < {n}" for n in range(8)]
    texts += [f"n.x + a = {n}" for n in range(8)] + ["k = 'x'", "a = 1", "a IS NULL", "(a + b = 3) IS NOT TRUE"]
    matcher = matcher_of(texts)
    assert matcher.match(event) == matches(texts, event)
    assert ids_by_row(matcher.match_batch([event] * 40), 40) == [matches(texts, event)] * 40
    matcher.remove_many(["0", "3", "9", "24"])
    assert matcher.match(event) == matches(texts, event) - {"0", "3", "9", "24"}


@pytest.mark.parametrize("event", [{"x": [True, 9]}, {"x": [9, "t"]}, {"x": [9, 8]}, {"x": 9}, {"x": [9], "y": ["t"]}])
@pytest.mark.parametrize("search", ["any_value_ilike('%t%')", "NOT any_value_ilike('%t%')"])
def test_a_search_sees_all_elements_whichever_an_expression_chooses(event: Any, search: str) -> None:
    where = f"x + 1 > 9 AND {search}"
    matcher = Matcher({"a": where})
    matcher.merge()
    assert matcher.match(event) == ({"a"} if Filter.parse(where).matches(event) else set())
    assert matcher.match_batch([event]).num_rows == Filter.parse(where).matches(event)


def test_they_are_saved_and_put_together(tmp_path: Path) -> None:
    texts = [f"lower(s) = 'v{n}' AND a < b AND array_contains(tags, -{n})" for n in range(8)]
    events = [{"s": f"V{n}", "a": n, "b": 4, "tags": list(range(-9, 1))} for n in range(8)]
    parts = []
    for part in range(2):
        matcher = Matcher()
        matcher.add_many([f"{part}/{n}" for n in range(8)], texts)
        parts.append(tmp_path / f"{part}.palio")
        matcher.save(parts[-1])
        assert [len(Matcher.open(parts[-1]).match(event)) for event in events] == [1, 1, 1, 1, 0, 0, 0, 0]
    concatenate(tmp_path / "both.palio", parts)
    both = Matcher.open(tmp_path / "both.palio")
    assert both.match(events[2]) == {"0/2", "1/2"}
    assert both.match({"s": "V2", "a": [9, 1], "b": list(range(90)), "tags": [5, -2]}) == {"0/2", "1/2"}


NUMBERS = (1, 2, 2**53, 2**53 + 1, Decimal("1.0"), Decimal("1.5"), 1.0, 1.5, float(2**53), float("nan"), -0.0, 0)


def test_the_constants_of_array_contains_are_looked_up() -> None:
    constants = [
        "1",
        "2",
        "1.0",
        "1.5",
        "1D",
        "1.5D",
        "0",
        "9007199254740993",
        "9007199254740992D",
        "'1'",
        "'x'",
        "TRUE",
    ]
    constants += ["'1'", "'x'", "DATE'2024-01-02'", "CAST('NaN' AS DOUBLE)", "X'00'"]
    texts = [f"array_contains(tags, {each})" for each in constants]
    matcher = matcher_of(texts)
    assert matcher.statistics().slow == 1  # NaN is no literal
    compare_over_arrays(texts, matcher)


def test_the_constants_that_exists_compares_with_are_looked_up() -> None:
    looked_up = ["'x'", "'y z'", "1", "2", "0", "-1", "'É'", "9007199254740991"]
    compared = ["'1'", "1.0", "1.5D", "9007199254740992", "'true'", "'2024-01-02'", "TRUE", "DATE'2024-01-02'"]
    texts = [f"exists(tags, t -> {'t = ' + each if at % 3 else each + ' = t'})" for at, each in enumerate(looked_up)]
    matcher = matcher_of(texts)
    assert matcher.statistics().slow == matcher.statistics().residuals == matcher.statistics().computed == 0
    texts += [f"exists(tags, t -> t = {each})" for each in compared]
    texts += ["exists(tags, t -> t = 'x' OR t = 1)", "NOT exists(tags, t -> t = 'x')", "exists(tags, t -> a = 'x')"]
    texts += ["exists(tags, t -> t <> 'x')", "exists(tags, t -> t = 'x') AND a = 1"]
    compare_over_arrays(texts, matcher_of(texts))


def compare_over_arrays(texts: list[str], matcher: Matcher) -> None:
    choose = random.Random(7)
    pool = (*NUMBERS, *VALUES, "1")
    arrays = [tuple(choose.choices(NUMBERS, k=2)) for _ in range(80)]
    arrays += [tuple(choose.choices(pool, k=choose.randrange(5))) for _ in range(200)]
    events = [{"tags": list(array)} for array in arrays]
    expected = [matches(texts, event) for event in events]
    assert [matcher.match(event) for event in events] == expected
    assert ids_by_row(matcher.match_batch(events), len(events)) == expected
    for values in (["x", None, "1", "x"], [1, 2, None, 2**53 + 1], [1.0, float("nan"), 0.0], [date(2024, 1, 2)]):
        table = pa.table({"tags": [choose.choices(values, k=choose.randrange(4)) for _ in range(50)] + [None, []]})
        rows = [matches(texts, event) for event in Event.from_arrow(table)]
        assert ids_by_row(matcher.match_batch(table), table.num_rows) == rows


@pytest.mark.parametrize("copies", [1, 4])
def test_an_interval_of_time_is_not_null(copies: int) -> None:
    texts = ["(ts - t IS NOT NULL) OR (lower(s) = 'x')", "ts - t IS NULL"] * copies
    matcher = matcher_of(texts)
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    for event in ({"ts": moment, "t": moment}, {"ts": moment}, {"s": "X"}, {}):
        assert matcher.match(event) == matches(texts, event)
        assert ids_by_row(matcher.match_batch([event] * 40), 40) == [matches(texts, event)] * 40


def test_tests_of_computed_values_are_saved(tmp_path: Path) -> None:
    """Patterns, and sets on which kinds of number disagree."""
    texts = ["upper(`e-mail`) RLIKE '^[A-Z]+@'", "lower(`e-mail`) LIKE '%a%b'", "signum(coalesce(`e-mail`, 1)) = 1"]
    texts += ["coalesce(a, 0.5D) IN (1, 9007199254740993)", "lower(s) LIKE 'x_%'"]
    matcher = matcher_of(texts * 4)
    matcher.save(tmp_path / "index.palio")
    opened = Matcher.open(tmp_path / "index.palio")
    for event in ({"e-mail": "ab@c"}, {"e-mail": "aXb"}, {"e-mail": 5, "a": 1}, {"a": 2**53 + 1, "s": "XY"}, {}):
        assert opened.match(event) == matcher.match(event) == matches(texts * 4, event)


def test_attributes_are_those_of_events() -> None:
    matcher = matcher_of([*(f"lower(s) = 'v{n}' AND size(tags) = {n}" for n in range(8))])
    assert matcher.attributes == {"s", "tags"}


def near(center: str, step: str) -> list[Any]:
    """Numbers of all kinds at and beside the ends of an interval."""
    ends = [Decimal(center) - Decimal(step), Decimal(center) + Decimal(step), Decimal(center)]
    floats = [float(end) for end in ends]
    floats += [nextafter(each, side) for each in floats for side in (-inf, inf)]
    exact = [end + Decimal(side).scaleb(-20) for end in ends for side in (-1, 0, 1)]
    return [
        *floats,
        *exact,
        *(Decimal(f"{each:.15f}") for each in floats[:3]),
        *(int(end) for end in ends),
        *(str(end) for end in ends),
    ]


def test_kinds_of_number_that_disagree_have_an_interval_each() -> None:
    centers = ["5.06", "5.00", "4.97", "0.1", "9007199254740993.5"]
    texts = [f"abs(price - {center}) < {step}" for center in centers for step in ("0.03", "0.03D")]
    texts += [f"NOT (price + 0.1 < {center})" for center in centers]
    both = "abs(price - {0}) < 0.03 AND abs(qty - {0}) <= 3 AND abs(k - {0}) < 3"
    texts += [both.format(center) for center in centers]
    matcher = matcher_of(texts)
    assert matcher.statistics().residuals <= len(centers)  # three disagreements are too many alternatives
    values = [value for center in centers for value in near(center, "0.03")]
    events = [{"price": value, "qty": value, "k": 3} for value in values]
    events += [{"price": first, "qty": second, "k": Decimal("3.1")} for first, second in pairwise(values)]
    expected = [matches(texts, event) for event in events]
    assert [matcher.match(event) for event in events] == expected
    assert ids_by_row(matcher.match_batch(events), len(events)) == expected
    for kind in (float, int, str):
        own = [value for value in values if type(value) is kind]
        table = pa.table({"price": own, "qty": own, "k": [3] * len(own)})
        rows = [matches(texts, event) for event in Event.from_arrow(table)]
        assert ids_by_row(matcher.match_batch(table), table.num_rows) == rows


SHIFTS = (
    "abs(price - {k}) < {c}",
    "abs({k} + price) <= {c}",
    "price - {k} BETWEEN -{c} AND {c}",
    "abs(price - {k}) BETWEEN {c} AND 7",
    "NOT (abs(price - -{k}) >= {c})",
    "price - {k} IN (1, {c})",
)


@pytest.mark.parametrize("shift", SHIFTS)
def test_sets_that_are_shifted_in_bulk_are_those_that_filters_have(shift: str) -> None:
    some = random.Random(shift)
    wholes = ["0", "7", "8", *(str(some.randrange(40)) for _ in range(4))]
    fractions = ["5.06", "9.97", "0.1", "3.25", *(f"{some.uniform(0, 40):.3f}" for _ in range(4)), "1234567890123.4567"]
    for centers in (wholes, fractions):
        for step in ("0.03", "3"):
            texts = [shift.format(k=center, c=step) for center in centers]
            matcher = matcher_of(texts)
            assert matcher.statistics().computed == 1  # of the attribute as the sum reads it
            sides = [center if "- {k}" in shift else f"-{center}" for center in some.sample(centers, 3)]
            events = [{"price": value} for center in sides for value in near(center, step)]
            assert [matcher.match(event) for event in events] == [matches(texts, event) for event in events]


def test_conditions_that_differ_in_what_is_subtracted_are_rewritten_together(monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[Expression] = []

    def rewritten_alone(expression: Expression, wants: bool, timezone: str) -> list[Leaf] | None:
        alone.append(expression)
        return rewritten_alternatives(expression, wants, timezone)

    monkeypatch.setattr(bulk_templates, "rewritten_alternatives", rewritten_alone)
    matcher_of([f"abs(price - {n / 10}) < 3" for n in range(200)])
    assert not alone


@pytest.mark.parametrize("seed", range(4))
def test_the_newest_subscriptions_decide_as_filters_do(seed: int) -> None:
    given = Conditions(seed)
    equal = ("lower(s) = 'x'", "lower(s) = '5'", "a + b = {}", "a % 2 IN (0, {})", "abs(a - 2) = {} AND b > 1", "a < b")
    texts = given.texts(20) + [
        text.format(n) for text in (*equal, "size(tags) = {}", "year(ts) = 2024") for n in range(3)
    ]
    matcher = Matcher()
    for number, text in enumerate(texts):
        matcher.add(str(number), text)
    assert matcher.statistics().live == len(texts)
    events = [given.event(arrays=bool(seed % 2)) for _ in range(40)] + [{"s": 5}, {"a": True, "b": 1.0}, {"tags": []}]
    assert [matcher.match(event) for event in events] == [matches(texts, event) for event in events]
    matcher.remove_many(["20", "25"])
    assert matcher.match({"s": "X"}) == matches(texts, {"s": "X"}) - {"20", "25"}


def test_an_expression_counts_once_whatever_kinds_have_intervals_of_it() -> None:
    statistics = matcher_of([f"abs(price - {n}.06) < 3" for n in range(8)]).statistics()
    assert (statistics.computed, statistics.residuals, statistics.slow) == (1, 0, 0)


def test_the_newest_subscriptions_are_found_by_computed_values() -> None:
    matcher = Matcher()
    for n in range(600):
        matcher.add(f"text {n}", f"lower(s) = 'v{n}'")
        matcher.add(f"number {n}", f"a + b = {n}")
    # Those that must all be looked at are sealed after some hundreds.
    assert matcher.statistics().live == 1200
    assert matcher.match({"s": "V7", "a": 3, "b": 4.0}) == {"text 7", "number 7"}
    assert matcher.match({"s": ["V7", "V8"], "a": [3, 4], "b": 4}) == {"text 7", "text 8", "number 7", "number 8"}

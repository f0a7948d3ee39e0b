"""Tests of expression programs against the scalar evaluator, and of matching with them against filters."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from palio.errors import ParseError
from palio.events import Event
from palio.filters.expressions.ast import Call, Expression, walk
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.filter import Filter
from palio.languages.sql.parser import parse_condition
from palio.matching.columnar.axes import Axes
from palio.matching.columnar.axes_builder import AxesBuilder, Region
from palio.matching.columnar.computed_columns import MIN_PROGRAM_EXPRESSIONS
from palio.matching.columnar.expression_program import BLOCK_ROWS, ExpressionProgram, is_compilable
from palio.matching.columnar.layout import FALSE, TRUE
from palio.matching.columnar.native import address_of
from palio.matching.columnar.vector_compiler import Part
from palio.matching.columnar.vector_evaluation import BatchEvaluator
from palio.matching.matcher import Matcher
from tests.filters.expressions.generator import FORMS, Generator
from tests.matching.columnar.random_columns import random_columns
from tests.matching.columnar.test_vector_evaluation import ROWS, rows_of
from tests.matching.suite import ids_by_row
from tests.oracles.seeds import seeds

FORMED = """
    i + j ; i - j ; i * j ; i / j ; i % j ; -i ; abs(i) ; d + e ; d - i ; d * n ; d / e ; d % e ; -d ; abs(d) ; i + 0.5D
    i = j ; i <> j ; i < j ; i <= j ; i > j ; i >= j ; d = e ; d <> e ; d < e ; d <= e ; d > e ; d >= e ; i < d
    t < u ; ts >= us ; b = c ; b < c ; i <=> j ; i BETWEEN j AND n ; d BETWEEN i AND e
    b AND c ; b OR c ; NOT b ; b IS TRUE ; b IS NOT TRUE ; b IS FALSE ; i > 3 AND d < e OR c ; (i < j) IS NULL
    length(s) + i ; year(ts) * 12 + month(ts) ; (i + j) * (i - j) ; i * 3 + j * 5 - n ; s IS NULL OR i > j
"""
EXPRESSIONS = [each.strip() for line in FORMED.split("\n") for each in line.split(" ; ") if each.strip()]


def codes_of(program: ExpressionProgram, leaves: list[Any], count: int) -> list[set[int]]:
    """The codes that a program gives for each row of a batch."""
    bound = program.bind(leaves, count)
    found: list[set[int]] = []
    for first in range(0, count, BLOCK_ROWS):
        rows = min(BLOCK_ROWS, count - first)
        many = 0
        while True:
            codes, lengths = np.empty((rows, max(1, many)), np.int64), np.zeros(rows, np.int32)
            needed = bound.add_codes(first, rows, address_of(codes), codes.shape[1], address_of(lengths))
            if needed <= codes.shape[1]:
                break
            many = needed
        found += [set(codes[row, : lengths[row]].tolist()) for row in range(rows)]
    return found


def axes_for(values: list[list[Any]]) -> Axes:
    """Axes that tell all values of a column from each other; numbers that are asked for begin somewhere."""
    builder = AxesBuilder()
    for axis, column in enumerate(values):
        builder.declare(axis)
        for value in column:
            if isinstance(value, bool):
                builder.fixed(axis, TRUE if value else FALSE, TRUE if value else FALSE)
            elif isinstance(value, int | float):
                builder.equal(axis, Region.NUMBER, value)
    return builder.finish()[0]


def check(expressions: list[Expression], columns: dict[str, pa.Array], zone: str = "UTC") -> int:
    """Compare the codes of all expressions that have a program with those of their values; how many there were."""
    evaluator = BatchEvaluator(columns, ROWS, zone)
    rows = rows_of(columns, ROWS)
    parts: list[Part] = []
    values: list[list[Any]] = []
    for expression in expressions:
        part = evaluator.compiler.part(expression)
        if part is not None and is_compilable(part):
            parts.append(part)
            values.append([compile_expression(expression, zone)(row, {}) for row in rows])
    # Of every other column only some values are asked for, and others must give no code.
    axes = axes_for([column if axis % 2 else column[: ROWS // 4] for axis, column in enumerate(values)])
    program = ExpressionProgram([(part, axis) for axis, part in enumerate(parts)], axes)
    found = codes_of(program, [evaluator.vector(part) for part in program.leaves], ROWS)
    for row in range(ROWS):
        for axis, column in enumerate(values):
            value = column[row]
            got = {code for code in found[row] if code >> 32 == axis}
            slot = None if value is None else axes.slot(axis, value)
            if slot is not None and axes.asked_slots(axis)[0] <= slot <= axes.asked_slots(axis)[1]:
                assert got == {axis << 32 | slot}, (parts[axis].operation, value, rows[row])
            else:
                assert not got, (parts[axis].operation, value, rows[row])
    return len(parts)


@pytest.mark.parametrize("seed", range(4))
def test_codes_are_those_of_the_values_of_every_operation(seed: int) -> None:
    columns = random_columns(Random(seed), ROWS)
    expressions = [parse_condition(text) for text in EXPRESSIONS]
    check(expressions, columns)


def test_every_operation_has_a_program() -> None:
    columns = typed_columns(Random(1), ROWS)
    assert check([parse_condition(text) for text in EXPRESSIONS], columns) == len(EXPRESSIONS)


def compare_many(seed: int, batches: int, each: int) -> int:
    random = Random(seed)
    compared = 0
    for _ in range(batches):
        expressions: list[Expression] = []
        for _ in range(each):
            generator = Generator(random.randrange(2**32))
            try:
                text = generator.call(random.choice(list(FORMS)), random.choice((1, 2, 3)))
                expressions += [part for part in walk(parse_condition(text)) if isinstance(part, Call)]
            except ParseError:
                continue
        compared += check(expressions, random_columns(random, ROWS))
    return compared


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_codes_are_those_of_the_values_of_random_expressions(seed: int) -> None:
    assert compare_many(seed, batches=4, each=40) > 0


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(1000, 20))
def test_codes_are_those_of_the_values_of_thousands_of_random_expressions(seed: int) -> None:
    compare_many(seed, batches=20, each=50)


# Matching


INTEGERS = (0, 1, 2, 3, -1, -7, 100, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63))
DOUBLES = (0.0, -0.0, 1.5, 2.0, -2.5, 1e18, math.inf, -math.inf, math.nan)
_POOLS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys("ijn", INTEGERS),
    **dict.fromkeys("de", DOUBLES),
    **dict.fromkeys("bc", (True, False)),
    "s": ("", "a", "abc", "7"),
}
_TYPES = {**dict.fromkeys("ijn", pa.int64()), **dict.fromkeys("de", pa.float64()), **dict.fromkeys("bc", pa.bool_())}


def typed_columns(random: Random, rows: int) -> dict[str, pa.Array]:
    columns = random_columns(random, rows)
    for name, pool in _POOLS.items():
        columns[name] = pa.array(random.choices((None, *pool), k=rows), _TYPES.get(name, pa.string()))
    for name, stored, kind in (
        *((name, pa.int32(), pa.date32()) for name in "tu"),
        *((name, pa.int64(), pa.timestamp("us", "UTC")) for name in ("ts", "us")),
    ):
        columns[name] = pa.array(random.choices([None, 0, 1, 20_000], k=rows), stored).cast(kind)
    return columns


class Conditions:
    """Random comparisons of different expressions with constants."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def number(self, depth: int) -> str:
        if depth == 0:
            return self.random.choice(("i", "j", "n", "d", "e", "2", "-3", "1.5D", str(2**40)))
        left, right = self.number(depth - 1), self.number(depth - 1)
        return self.random.choice(
            (
                *(f"({left} {sign} {right})" for sign in ("+", "-", "*", "*", "%", "/")),
                *(f"(- {left})", f"abs({left})", f"(length(s) + {left})"),
            )
        )

    def truth(self, depth: int) -> str:
        sign = self.random.choice(("=", "<>", "<", "<=", ">", ">="))
        simple = f"{self.number(depth)} {sign} {self.number(1)}"
        other = self.random.choice(("b", "c", "d > e", "i IS NULL"))
        return self.random.choice((simple, simple, f"({simple}) AND {other}", f"({simple}) OR {other}"))

    def texts(self, count: int) -> list[str]:
        found: dict[str, None] = {}
        while len(found) < count:
            constant = self.random.choice(("0", "1", "-4", "2.5", "1e18D", "double('NaN')", str(2**62)))
            sign = self.random.choice(("=", "<>", "<", "<=", ">", ">="))
            compared = f"{self.number(self.random.choice((1, 2, 3)))} {sign} {constant}"
            text = self.random.choice((compared, compared, compared, self.truth(1), f"i = 1 AND {compared}"))
            text = f"NOT ({text})" if self.random.random() < 0.2 else text
            try:
                Filter.parse(text)
            except ParseError:
                continue
            found[text] = None
        return list(found)

    def event(self, several_kinds: bool) -> dict[str, Any]:
        any_value = [value for pool in _POOLS.values() for value in pool]
        event: dict[str, Any] = {}
        for name, pool in _POOLS.items():
            if self.random.random() < 0.85:
                odd = several_kinds and self.random.random() < 0.2
                event[name] = self.random.choice(any_value if odd else pool)
                if odd and self.random.random() < 0.2:
                    event[name] = self.random.choices(any_value, k=2)
        return event


def matcher_of(texts: list[str]) -> Matcher:
    matcher = Matcher(background=False)
    matcher.add_many(map(str, range(len(texts))), texts)
    return matcher


def wanted_by(filters: list[Filter], event: Any) -> set[str]:
    return {str(at) for at, each in enumerate(filters) if each.matches(event)}


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_different_expressions_decide_as_filters_do(seed: int, tmp_path: Path) -> None:
    given = Conditions(seed)
    texts = given.texts(3 * MIN_PROGRAM_EXPRESSIONS)
    filters = [Filter.parse(text) for text in texts]
    matcher = matcher_of(texts)
    table = pa.table(typed_columns(given.random, ROWS)).select(list(_POOLS))
    assert ids_by_row(matcher.match_batch(table), ROWS) == [wanted_by(filters, row) for row in Event.from_arrow(table)]
    matcher.save(tmp_path / "index")
    opened = Matcher.open(tmp_path / "index")
    for several_kinds in (False, True):
        events = [given.event(several_kinds) for _ in range(ROWS)]
        expected = [wanted_by(filters, event) for event in events]
        assert ids_by_row(matcher.match_batch(events), ROWS) == expected
        assert [matcher.match(event) for event in events] == expected
        assert [opened.match(event) for event in events] == expected


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(1000, 60))
def test_thousands_of_different_expressions_decide_as_filters_do(seed: int, tmp_path: Path) -> None:
    test_different_expressions_decide_as_filters_do(seed, tmp_path)


def test_a_batch_of_many_blocks_with_many_matches_per_row() -> None:
    texts = [f"a * {n} + b > {n}" for n in range(200)]
    matcher = matcher_of(texts)
    rows = 3 * BLOCK_ROWS + 7
    # A few at first, then all: the room for codes grows on the way.
    a = np.where(np.arange(rows) < BLOCK_ROWS, 0, 5)
    found = ids_by_row(matcher.match_batch(pa.table({"a": a, "b": np.arange(rows) % 3})), rows)
    for row in (0, 1, 2, BLOCK_ROWS - 1, BLOCK_ROWS, rows - 1):
        assert found[row] == {str(n) for n in range(200) if int(a[row]) * n + row % 3 > n}


def test_an_integer_beyond_64_bits_is_no_column() -> None:
    texts = [f"a * {n} > 5" for n in range(1, 50)] + [f"a + {n} IS NOT NULL" for n in range(50)]
    matcher = matcher_of(texts)
    for event in ({"a": 2**70}, {"a": 1}, {"a": "7"}, {}):
        assert matcher.match(event) == wanted_by([Filter.parse(text) for text in texts], event)


@pytest.mark.parametrize("bound", ["-9223372036854775808", "-1e30D", "9223372036854775807", "1e30D"])
@pytest.mark.parametrize("comparison", ["<", "<=", ">", ">="])
def test_bounds_at_the_ends_of_integers_have_no_values_beyond(comparison: str, bound: str) -> None:
    wheres = {str(n): f"a * {n} + b {comparison} {bound}" for n in range(1, 41)}
    matcher = Matcher()
    matcher.add_many(wheres)
    for event in ({"a": -(2**62), "b": 0}, {"a": 2**62, "b": 2**62 - 1}, {"a": 0, "b": -(2**63)}, {"a": 1.5, "b": 2}):
        expected = {id for id, where in wheres.items() if Filter.parse(where).matches(event)}
        assert matcher.match(event) == expected
        assert set(matcher.match_batch([event] * 100).column("subscription").to_pylist()) == expected

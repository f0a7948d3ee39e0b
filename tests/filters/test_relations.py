"""Tests of covers and overlaps: Jerzak's tables, algebraic laws, and exhaustive small domains."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import InvalidArgument
from palio.filters import relations
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.expressions.static_analysis import preserves_equality
from palio.filters.filter import Filter
from palio.filters.kinds import MISSING
from palio.filters.relations import _Comparison
from palio.filters.tree import And, Leaf, Node, Or
from palio.languages.sql.parser import parse_condition
from tests.strategies import (
    attributes,
    conjunctions,
    decimal_twins,
    filters,
    plain_conditions,
    readable_conditions,
    scalar_attributes,
)

parse = Filter.parse


def predicates(text: str) -> Filter:
    """A filter as Jerzak's tables write it: `x>5; y<8; z=*`."""
    parts = [part.strip().replace("=*", " IS NOT NULL") for part in text.split(";")]
    return parse(" AND ".join(parts))


class TestTheTablesOfJerzak:
    """Tables 2.1 to 2.3, operators restored."""

    @pytest.mark.parametrize(
        ("wanted", "event", "matched"),
        [
            ("y<8", {"y": 8}, False),
            ("x=*", {"x": 7}, True),
            ("x>5", {"x": 7}, True),
            ("x>5", {"x": 7, "y": 10}, True),
            ("x>5; y<8", {"x": 7}, False),
            ("x>5; y<8", {"x": 7, "y": 5}, True),
            ("temp>25", {"temp": 30}, True),
        ],
    )
    def test_matching(self, wanted: str, event: dict[str, Any], matched: bool) -> None:
        assert predicates(wanted).matches(event) is matched

    @pytest.mark.parametrize(
        ("one", "two", "covers", "is_covered"),
        [
            ("y<8", "y<8", True, True),
            ("x>5", "y>5", False, False),
            ("x>5", "x>8", True, False),
            ("x>5", "x>8; y>5", True, False),
            ("x>5; y>5", "x>8", False, False),
            ("x!=5", "x>8", True, False),
            ("x!=5", "x=5", False, False),
            ("x>5", "x<8", False, False),
            ("x>=5", "x>5", True, False),
        ],
    )
    def test_covering(self, one: str, two: str, covers: bool, is_covered: bool) -> None:
        assert predicates(one).covers(predicates(two)) is covers
        assert predicates(two).covers(predicates(one)) is is_covered

    @pytest.mark.parametrize(
        ("one", "two", "thesis", "open_", "closed"),
        [
            ("y<8", "y<8", True, True, True),
            ("x>5", "y>5", False, True, False),
            ("x>5", "x<8", True, True, True),
            ("x>5", "x<8; y>5", True, True, True),
            ("x!=5", "x<8", True, True, True),
            ("x!=5", "x=5", False, False, False),
            ("x=5", "x>=5", True, True, True),
            ("x>5; y<3", "x<8; y>5", True, False, False),
        ],
    )
    def test_overlapping(self, one: str, two: str, thesis: bool, open_: bool, closed: bool) -> None:
        for first, second in ((predicates(one), predicates(two)), (predicates(two), predicates(one))):
            assert first.overlaps(second) is open_
            assert first.overlaps(second, mode="open") is open_
            assert first.overlaps(second, mode="closed") is closed
            assert first.overlaps(second, mode="thesis") is thesis

    def test_a_mode_nobody_knows_is_refused(self) -> None:
        with pytest.raises(InvalidArgument, match="open, closed, thesis"):
            parse("x > 5").overlaps(parse("x > 5"), mode="wide")  # type: ignore[arg-type]


# All pairs of one operator and one of three values, and `*`: 19 x 19 constraints (Jerzak §2.3, dense domain).
CONSTRAINTS: list[tuple[str, int]] = [("*", 0), *product(["=", "<>", "<", "<=", ">", ">="], [1, 2, 3])]
_APPLY: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def constraint(op: str, value: Any) -> Filter:
    return parse("x IS NOT NULL" if op == "*" else f"x {op} {value}")


def covers_by_table(a: str, x: int, b: str, y: int) -> bool:
    """The printed table, row by row."""
    if a == "*":
        return True
    if b == "*":
        return False
    rows: dict[str, dict[str, bool]] = {
        "=": {"=": x == y},
        "<>": {"=": x != y, "<>": x == y, "<": x >= y, "<=": x > y, ">": x <= y, ">=": x < y},
        "<": {"=": y < x, "<": y <= x, "<=": y < x},
        "<=": {"=": y <= x, "<": y <= x, "<=": y <= x},
        ">": {"=": y > x, ">": y >= x, ">=": y > x},
        ">=": {"=": y >= x, ">": y >= x, ">=": y >= x},
    }
    return rows[a].get(b, False)


def overlaps_by_table(a: str, x: int, b: str, y: int) -> bool:
    if "*" in (a, b):
        return True
    if a == "=":
        return _APPLY[b](x, y)
    if b == "=":
        return _APPLY[a](y, x)
    if "<>" in (a, b) or a[0] == b[0]:
        return True
    low, high = ((a, x), (b, y)) if a[0] == ">" else ((b, y), (a, x))
    inclusive = low[0] == ">=" and high[0] == "<="
    return low[1] <= high[1] if inclusive else low[1] < high[1]


@pytest.mark.parametrize(("a", "x"), CONSTRAINTS)
def test_every_pair_of_constraints_relates_as_the_table_says(a: str, x: int) -> None:
    for b, y in CONSTRAINTS:
        assert constraint(a, x).covers(constraint(b, y)) is covers_by_table(a, x, b, y), (b, y)
        assert constraint(a, x).overlaps(constraint(b, y)) is overlaps_by_table(a, x, b, y), (b, y)


WORDS = ["a", "b", "aa", "ab", "ba", "bb"]
STRING_CONSTRAINTS = list(product(["=", "pf", "sf", "ss"], WORDS))
_STRING_TESTS: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "pf": str.startswith,
    "sf": str.endswith,
    "ss": operator.contains,
}


def string_constraint(op: str, word: str) -> Filter:
    return parse(f"s = '{word}'" if op == "=" else f"s LIKE '{'%' * (op != 'pf')}{word}{'%' * (op != 'sf')}'")


@pytest.mark.parametrize(("a", "x"), STRING_CONSTRAINTS)
def test_every_pair_of_string_constraints_relates_as_the_rules_say(a: str, x: str) -> None:
    for b, y in STRING_CONSTRAINTS:
        one, two = string_constraint(a, x), string_constraint(b, y)
        covers = x in y if a == "ss" else b in ("=", a) and _STRING_TESTS[a](y, x)
        assert one.covers(two) is covers, (b, y)
        if "=" in (a, b):
            overlaps = _STRING_TESTS[b](x, y) if a == "=" else _STRING_TESTS[a](y, x)
        elif a == b != "ss":
            overlaps = _STRING_TESTS[a](x, y) or _STRING_TESTS[a](y, x)
        else:
            overlaps = True
        assert one.overlaps(two) is overlaps, (b, y)


# One value for every place that the literals 0, 1, 2, 3 and 5 can tell apart, of every kind.
UNIVERSE: list[Any] = [
    *range(-1, 7),
    *(Decimal(n) / 2 for n in range(-1, 13)),
    *(n / 2 for n in range(-1, 13)),
    float("inf"), float("-inf"), float("nan"), MISSING, None, True, "", "1",
]  # fmt: skip


def events_over(names: str) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in zip(names, values, strict=True) if value is not MISSING}
        for values in product(UNIVERSE, repeat=len(names))
    ]


ONE, TWO = events_over("a"), events_over("ab")


class TestConjunctionsOfEnumerableSetsAreDecidedExactly:
    @given(conjunctions(["a"]), conjunctions(["a"]))
    def test_on_one_attribute(self, f: Filter, g: Filter) -> None:
        self._check(f, g, ONE)

    @given(conjunctions(["a", "b"]), conjunctions(["a", "b"]))
    def test_on_two_attributes(self, f: Filter, g: Filter) -> None:
        self._check(f, g, TWO)

    def _check(self, f: Filter, g: Filter, events: list[dict[str, Any]]) -> None:
        matches = [(f.matches_attributes(event), g.matches_attributes(event)) for event in events]
        assert f.covers(g) is all(wide or not narrow for wide, narrow in matches)
        assert f.overlaps(g) is any(wide and narrow for wide, narrow in matches)
        assert (f == g) is all(wide is narrow for wide, narrow in matches)
        assert (f == Filter.nothing) is not any(wide for wide, _ in matches)
        assert (f == Filter.everything) is all(wide for wide, _ in matches)

    @given(conjunctions(["a", "b"]), conjunctions(["a", "b"]))
    def test_mutual_covering_is_equality(self, f: Filter, g: Filter) -> None:
        assert (f.covers(g) and g.covers(f)) is (f == g)
        assert f.covers(f & g)
        assert (f & g == f) is g.covers(f)


class TestAnyFilter:
    @given(filters(), filters(), filters(), st.lists(attributes(), min_size=1, max_size=6))
    def test_covers_is_sound_reflexive_and_transitive(
        self, f: Filter, g: Filter, h: Filter, events: list[dict[str, Any]]
    ) -> None:
        for one, two, three in ((f, g, h), (f | g, f, f & h), (f | g | h, f | g, g), (f, f & g, f & g & h)):
            assert one.covers(one)
            assert not (one.covers(two) and two.covers(three)) or one.covers(three)
            for event in events:
                if one.covers(two) and two.matches_attributes(event):
                    assert one.matches_attributes(event)

    @given(filters(arrays=False), filters(arrays=False), st.lists(scalar_attributes(), min_size=1, max_size=6))
    def test_filters_that_match_one_event_overlap(self, f: Filter, g: Filter, events: list[dict[str, Any]]) -> None:
        for event in events:
            if f.matches_attributes(event) and g.matches_attributes(event):
                assert f.overlaps(g)
                assert g.overlaps(f)
                if f.is_conjunction and g.is_conjunction and not f.attributes.isdisjoint(g.attributes):
                    assert f.overlaps(g, mode="closed")

    @given(filters(), filters(), st.lists(attributes(), min_size=1, max_size=6))
    def test_filters_that_match_one_event_with_arrays_overlap(
        self, f: Filter, g: Filter, events: list[dict[str, Any]]
    ) -> None:
        for event in events:
            if f.matches_attributes(event) and g.matches_attributes(event):
                assert f.overlaps(g, single_valued=False)
        assert f.overlaps(g, single_valued=False) or not f.overlaps(g)

    @pytest.mark.parametrize(
        ("one", "two", "event"),
        [
            ("x < 3", "x > 5", {"x": [1, 9]}),
            ("x = 'a' AND y = 1", "x = 'b' AND y = 2", {"x": ["a", "b"], "y": [1, 2]}),
            ("x IS NULL", "x = 5", {"x": [None, 5]}),
            ("x > y", "NOT (x > y)", {"x": [1, 9], "y": 5}),
            ("x LIKE 'a%b'", "x NOT LIKE 'a%b'", {"x": ["ab", "b"]}),
            ("x + 1 > 3", "NOT (x + 1 > 3)", {"x": [1, 9]}),
        ],
    )
    def test_two_elements_of_one_array_may_satisfy_two_filters(self, one: str, two: str, event: dict[str, Any]) -> None:
        f, g = parse(one), parse(two)
        assert f.matches(event)
        assert g.matches(event)
        assert not f.overlaps(g)
        for mode in ("open", "closed", "thesis"):
            assert f.overlaps(g, mode, single_valued=False)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("one", "two"),
        [
            ("typeof(x) = 'missing'", "x = 5"),
            ("array_contains(x, 2)", "NOT array_contains(x, 2)"),
            ("size(x) = 2 AND y = 1", "NOT (size(x) = 2) AND y = 2"),
        ],
    )
    def test_what_is_said_of_an_event_as_a_whole_still_excludes(self, one: str, two: str) -> None:
        assert not parse(one).overlaps(parse(two), single_valued=False)

    @given(filters(), filters())
    def test_overlapping_is_symmetric_and_closed_is_narrower(self, f: Filter, g: Filter) -> None:
        for mode in ("open", "closed", "thesis"):
            assert f.overlaps(g, mode=mode) is g.overlaps(f, mode=mode)  # type: ignore[arg-type]
        assert f.overlaps(g) or not f.overlaps(g, mode="closed")

    @given(filters(), filters())
    def test_and_narrows_and_or_widens(self, f: Filter, g: Filter) -> None:
        assert Filter.everything.covers(f)
        assert f.covers(Filter.nothing)
        assert (f | g).covers(f)
        assert f & (f | g) == f

    @pytest.mark.parametrize(("narrow", "wide"), [("0 AND 0", "0 AND 1"), ("1 AND 1", "0 AND 1")])
    def test_an_implied_condition_on_a_computed_value_is_dropped(self, narrow: str, wide: str) -> None:
        computed = "CASE WHEN b THEN a ELSE b END"  # whose kind is not known
        f, g = (parse(f"b IS NOT NULL AND {computed} BETWEEN {bounds}") for bounds in (narrow, wide))
        assert f & g == g & f == f
        assert f & (f | g) == f

    @given(filters(), scalar_attributes())
    def test_attributes_a_filter_does_not_read_change_nothing(self, f: Filter, event: dict[str, Any]) -> None:
        more = {**event, "unheard": 1, "of": "x"}
        assert f.matches_attributes(event) is f.matches_attributes(more)
        only = {name: value for name, value in event.items() if name in f.attributes}
        assert f.matches_attributes(only) is f.matches_attributes(event)


# The classes of filters are those that docs/language.md, 9, names for each law.
conjunctions_of_anything = filters().filter(lambda each: each.is_conjunction)


@st.composite
def on_one_attribute(draw: Callable[..., Any]) -> Filter:
    """Any combination of conditions that intervals hold, on one attribute."""
    wanted = parse(draw(plain_conditions(["a"])))
    for _ in range(draw(st.integers(0, 4))):
        other = parse(draw(plain_conditions(["a"])))
        wanted = draw(st.sampled_from([wanted & other, wanted | other, ~wanted]))
    return wanted


class TestLaws:
    @given(conjunctions_of_anything, filters())
    def test_a_conjunction_covers_what_is_left_of_it(self, f: Filter, g: Filter) -> None:
        assert f.covers(f & g)
        assert f | (f & g) == f

    @given(conjunctions_of_anything, conjunctions_of_anything, conjunctions_of_anything)
    def test_conjunctions_combine_in_any_order(self, f: Filter, g: Filter, h: Filter) -> None:
        assert (f & g) & h == f & (g & h) == (f & h) & g

    @given(on_one_attribute(), on_one_attribute(), on_one_attribute())
    def test_conditions_on_one_attribute_are_a_boolean_algebra(self, f: Filter, g: Filter, h: Filter) -> None:
        assert (f & g) & h == f & (g & h)
        assert (f | g) | h == f | (g | h)
        assert f & (g | h) == (f & g) | (f & h)
        assert f | (g & h) == (f | g) & (f | h)
        assert f & (f | g) == f == f | (f & g)
        assert (f & g == f) is g.covers(f) is (f | g == g)

    def test_large_filters_are_absorbed_as_small_ones_are(self) -> None:
        wanted = parse(" AND ".join(f"(a{n} = 1 OR b{n} > c{n} OR d{n} LIKE '%x%')" for n in range(8)))
        other = parse("e = 1 OR f = 2")
        assert not wanted.is_conjunction
        assert wanted & (wanted | other) == wanted == wanted | (wanted & other)
        assert wanted.covers(wanted & other)

    @pytest.mark.parametrize(
        ("wide", "narrow"),
        [
            ("year(t) = 2024", "t = TIMESTAMP'2024-05-05 00:00:00'"),
            ("x >= x", "x = 1e308"),
            ("abs(x) > 5", "x = -7"),
            ("abs(x) > 5", "x IN (-7, 6, 3) AND x <> 3"),
            ("upper(s) = 'A'", "s = 'a'"),
            ("length(s) = 2 AND s LIKE '%b'", "s IN ('ab', 'bb')"),
        ],
    )
    def test_a_computed_condition_is_asked_of_values_that_are_listed(self, wide: str, narrow: str) -> None:
        assert parse(wide).covers(parse(narrow))
        assert parse(wide) & parse(narrow) == parse(narrow)

    def test_one_value_does_not_answer_for_its_twin(self) -> None:
        """The decimals 1.0 and 1.00 are equal, and are written differently."""
        wanted = parse("CAST(x AS STRING) = '1.0'")
        assert not wanted.covers(parse("x = 1"))
        assert (wanted & parse("x = 1")).matches({"x": Decimal("1.0")})
        assert not (wanted & parse("x = 1")).matches({"x": Decimal("1.00")})

    @given(readable_conditions(["a"]), decimal_twins())
    def test_what_is_blind_to_twins_cannot_tell_them_apart(self, condition: str, twins: tuple[Any, Any]) -> None:
        expression = parse_condition(condition)
        if preserves_equality(expression):
            first, second = (compile_expression(expression)({"a": twin}, {}) for twin in twins)
            assert first == second


class TestAttributesThatOnlyResidualsRead:
    def test_closed_overlap_knows_them(self) -> None:
        one, two = parse("coalesce(x, y) = 5"), parse("x = 5")
        assert one.overlaps(two)
        assert one.overlaps(two, mode="closed")

    def test_a_residual_excludes_its_opposite(self) -> None:
        wanted = parse("x > y")
        assert not wanted.overlaps(~wanted)
        assert wanted & ~wanted == Filter.nothing


def plainly_covers(wide: Node, narrow: Node) -> bool:
    """The rules of covering as they are written, every child compared with every other."""
    if isinstance(narrow, Or):
        return all(plainly_covers(wide, child) for child in narrow.children)
    if isinstance(wide, And):
        return all(plainly_covers(child, narrow) for child in wide.children)
    if isinstance(wide, Or) and any(plainly_covers(child, narrow) for child in wide.children):
        return True
    if isinstance(narrow, And):
        return any(plainly_covers(wide, child) for child in narrow.children)
    if isinstance(wide, Leaf) and isinstance(narrow, Leaf):
        return wide.attribute == narrow.attribute and wide.values.covers(narrow.values)
    return wide == narrow


def many_alternatives(random: Random) -> str:
    def condition() -> str:
        name, number = random.choice("abc"), random.randint(0, 4)
        forms = ("{} = {}", "{} > {}", "{} <= {}", "{} <> {}", "{} IN ({}, 9)", "{} LIKE '{}%'", "{} IS NULL OR a = {}")
        form = random.choice((*forms, "{} BETWEEN {} AND 7", "upper({}) = '{}'", "{} = '{}'", "{} + 1 > {}"))
        return f"({form.format(name, number)})"

    alternatives = [
        " AND ".join(condition() for _ in range(random.randint(1, 3))) for _ in range(random.randint(9, 24))
    ]
    return f" {random.choice(('OR', 'OR', 'AND'))} ".join(f"({each})" for each in alternatives)


@pytest.mark.parametrize("seed", range(20))
def test_covering_of_many_alternatives_is_that_of_the_plain_rules(seed: int) -> None:
    random = Random(seed)
    one, two = Filter.parse(many_alternatives(random)), Filter.parse(many_alternatives(random))
    for wide, narrow in ((one, two), (two, one), (one | two, two), (one, one & two), (~one, two), (one, one)):
        expected = plainly_covers(wide.tree, narrow.tree)
        assert relations.covers(wide.tree, narrow.tree) is expected
        assert _Comparison().covers(wide.tree, narrow.tree) is expected


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("(a{n} = 1 AND b{n} > 2)", "(a{n} = 1 AND b{n} > 3)"),
        ("(a = {n} AND b > {n})", "(a = {n} AND b > {n} + 1)"),
        ("(a = '{n}' AND b > {n})", "(a = '{n}' AND b > 1{n})"),
        ("(a BETWEEN {n} AND {n} + 2 AND b > 1)", "(a BETWEEN {n} AND {n} + 1 AND b > 1)"),
    ],
)
def test_covering_of_a_thousand_alternatives_takes_few_steps(wide: str, narrow: str) -> None:
    one, two = (Filter.parse(" OR ".join(form.format(n=n) for n in range(1_000))) for form in (wide, narrow))
    comparison = _Comparison()
    assert comparison.covers(one.tree, two.tree)
    assert comparison.steps < 60_000
    comparison = _Comparison()
    assert not comparison.covers(one.tree, (~one).tree)
    assert comparison.steps < 600_000  # it gives up

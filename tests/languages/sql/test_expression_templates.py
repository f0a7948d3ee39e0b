"""Templates of expressions: read from their literals alone, conditions mean what the parser says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import InvalidSubscription, ParseError
from palio.events.event import Event
from palio.filters.filter import Filter
from palio.languages.sql.lowering import lower_filter
from palio.languages.sql.parser import parse_condition
from palio.languages.sql.skeletons import split_literals
from palio.languages.sql.template_cache import BoundTemplate, TemplateCache
from palio.languages.sql.template_predicates import ExpressionPredicate, Form
from palio.matching.columnar import bulk_load
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from tests.languages.sql.samples import ZONES
from tests.strategies import is_readable, scalars

NUMBERS = st.one_of(
    st.integers(0, 20).map(str),
    st.integers(0, 10**18 - 1).map(str),
    st.integers(-(10**6), 10**6).map(str),
    st.sampled_from(["1.0", "1.00", "0.1", "0.10", "2.5", "-1.5", "999999999.999999999", "1234567890123456789.5"]),
    st.sampled_from(["1e3", "2.5D", "-0.0D", "1e-300", "1e308", "9223372036854775807", "-9223372036854775808", "NULL"]),
    st.just("0." + "1" * 37),
)
TEXTS = st.one_of(
    st.sampled_from(["x", "X", "", "it''s", "true", "7", "2024-01-01", "a%", "%b_", "é", "- 1", "abc", '"', "--"]),
    st.text("abx%_'7", max_size=4).map(lambda text: text.replace("'", "''")),
    st.sampled_from([r"a\\_", r"\%", r"\'", r"a\\\\%", r"\u0041", r"\ud800", r"\\d"]),
).map("'{}'".format)
DAYS = st.dates().map("DATE '{}'".format) | st.sampled_from(["DATE '0001-01-01'", "DATE '2024-02-30'", "NULL"])
MOMENTS = st.sampled_from(
    ["TIMESTAMP '2024-01-01 10:00:00'", "TIMESTAMP '0001-01-01 00:00:00'", "DATE '2024-01-01'", "TIMESTAMP '2024-1-1'",
     "TIMESTAMP '2024-01-01'", "TIMESTAMP '2024-01-01T00:00:00.000001'", "TIMESTAMP '2024-01-01 00:00:00.5'",
     "TIMESTAMP '1969-12-31 23:59:59.999999'", "TIMESTAMP '2024-01-01 00:00:00+01:00'", "DATE '2024'", "DATE 'epoch'",
     "TIMESTAMP '2024-02-30 00:00:00'", "TIMESTAMP '2024-01-01 24:00:00'", "TIMESTAMP '2024-01-01 00:00:00.'",
     "TIMESTAMP_NTZ '2024-01-01 00:00:00.1234567'", "DATE '9999-12-31'", "DATE '1900-02-29'", "DATE '2000-02-29'"]
)  # fmt: skip
SIZES = st.integers(-1, 5).map(str)
NAMES = ("a", "b", "c")
# Of plain attributes, whose literals are read in columns.
PLAIN_FORMS = [
    "{x} {o} {n}", "{x} BETWEEN {n} AND {n}", "{x} >= {n} AND {x} < {n}", "{x} IN ({n}, {n})", "{x} NOT IN ({n}, {n})",
    "{x} {o} {d}", "{x} {o} {m}", "{x} BETWEEN {d} AND {m}", "{x} BETWEEN {m} AND {m}", "{x} IN ({m}, {m})",
    "{x} NOT IN ({d}, {m})", "{x} {o} {t}", "{x} BETWEEN {t} AND {t}", "{x} IS DISTINCT FROM {n}", "{x} <=> {m}",
    "{x} LIKE {t}", "{x} NOT LIKE {t}", "{x} RLIKE {t}", "{x} {o} {n} OR {y} {o} {d}", "{x} {o} {t} AND {y} {o} {n}",
]  # fmt: skip
FORMS = [
    "{x} + {n} > {n}", "{x} * {y} <= {n}", "abs({x} - {n}) < {n}", "{x} + {y} BETWEEN {n} AND {n}", "{n} - {x} = {n}",
    "{x} * {n} + {y} * {n} > {n}", "({x} + {n}) * {n} IN ({n}, {n})", "{x} % {n} = {n}", "{x} / {n} > {n}",
    "-{x} > {n}", "lower({x}) = {t}", "upper({x}) IN ({t}, {t}, {t})", "substring({x}, {s}, {s}) = {t}",
    "left({x}, {s}) = {t}", "coalesce({x}, {t}) = {t}", "coalesce({x}, {n}) > {n}", "nullif({x}, {t}) <> {t}",
    "concat({x}, {t}) LIKE {t}", "CAST({x} AS INT) = {n}", "CAST({x} AS DECIMAL({s}, {s})) > {n}",
    "CAST({x} AS STRING) = {t}", "{x} < {y}", "year({x}) = {n}", "to_date({x}) = {d}", "to_date({x}) < {m}",
    "{x} + INTERVAL '1' DAY > {m}", "{x} = {y} + {n}", "date_trunc('DAY', {x}) <= {m}",
    "date_format({x}, 'yyyy') = {t}", "date_add({x}, {s}) > {d}", "{x} > {n} * {n}",
    "CASE WHEN {x} > {n} THEN {t} ELSE {t} END = {t}", "CASE {x} WHEN {n} THEN {n} WHEN {n} THEN {n} END > {n}",
    "IF({x} IN ({n}, {n}), {n}, {y}) >= {n}", "greatest({x}, {n}) < {n}", "length({x}) = {s}", "size({x}) > {s}",
    "array_contains({x}, {t})", "array_contains({x}, {n})", "{x} RLIKE {t}", "lower({x}) RLIKE {t}",
    "{x} LIKE {t} ESCAPE '/'", "({x} + {n} > {n}) IS NULL", "({x} + {y} > {n}) IS NOT TRUE", "{x} <=> {y}",
    "{x} + {n} <=> {n}", "{x} BETWEEN {n} AND {y}", "{x} BETWEEN {y} AND {y} + {n}",
    "startswith(lower({x}), {t})", "locate({t}, {x}) = {s}",
    "lower({x}) = lower({t})", "upper({t}) >= upper({x})", "{x} + {n} > {n} + {n}",
    "{x} + {n} BETWEEN {n} - {n} AND {n}",
    "to_date({x}) > date_add({d}, {s})", "to_date({x}) = CAST({t} AS DATE)", "{x} - {y} > CAST({m} AS TIMESTAMP) - {m}",
    "{x} - {y} {o} INTERVAL {s} HOURS", "INTERVAL '{s}' DAY {o} abs({x} - {y})", "{x} + INTERVAL {s} MINUTES > {y}",
    "{x} - {y} BETWEEN INTERVAL -1 DAY AND INTERVAL '{s} days'", "{x} - {y} IN (INTERVAL {s} DAYS, INTERVAL 1 DAY)",
    "length({x}) > length({t}) + {n}", "contains(upper({x}), {t})", "upper({x}) ILIKE {t}", "endswith(lower({x}), {t})",
    "instr({x}, {t}) > 0", "locate({t}, lower({x})) = 1", "instr({x}, {t}) <= 0", "1 <> locate({t}, {x})",
    "round({x}, {s}) = {n}", "{x} IN ({y}, {n})", "{x} || {y} = {t}", "size({x}.d) = {s}",
]  # fmt: skip
CONTEXTS = [
    "{}", "{}", "NOT ({})", "{} AND b = 'x'", "a IS NOT NULL AND {}", "b IS NOT NULL AND NOT ({} AND a IS NOT NULL)",
    "c > 3 AND {}", "a IS NULL OR {}", "({}) IS FALSE",
    "NOT ({} AND c < 5)",
]  # fmt: skip


@st.composite
def families(draw: Any) -> list[str]:
    """Conditions of one form with other literals, some of which they have in common."""
    shape = draw(st.sampled_from(CONTEXTS)).format(draw(st.sampled_from(FORMS) | st.sampled_from(PLAIN_FORMS)))
    while "{o}" in shape:
        shape = shape.replace("{o}", draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="])), 1)
    x, y = draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMES))
    holes = {"{n}": NUMBERS, "{t}": TEXTS, "{d}": DAYS, "{m}": MOMENTS, "{s}": SIZES}
    pool = {hole: [draw(each), draw(each)] for hole, each in holes.items()}
    found = []
    for _ in range(draw(st.integers(1, 9))):
        text = shape.replace("{x}", x).replace("{y}", y)
        for hole, each in holes.items():
            while hole in text:
                text = text.replace(hole, draw(st.sampled_from(pool[hole]) | each), 1)
        found.append(text)
    return found


@pytest.fixture(autouse=True)
def _every_skeleton_in_bulk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_load, "_MAX_SINGLE_ROWS", 0)
        yield


def without_templates(text: str, zone: str) -> Filter | None:
    try:
        return lower_filter(parse_condition(text, timezone=zone), text, zone)
    except ParseError:
        return None


@given(families(), st.sampled_from(ZONES))
def test_a_bound_template_gives_what_parsing_gives(texts: list[str], zone: str) -> None:
    for text in texts:
        expected, bound = without_templates(text, zone), BoundTemplate.parse(text, zone)
        if expected is None:
            assert bound is None
        if expected is not None and bound is not None:
            made = bound.filter()
            assert made.tree == expected.tree
            assert ~made == ~expected
            assert made.digest == expected.digest


_events = st.lists(
    st.dictionaries(st.sampled_from(NAMES), scalars() | st.lists(scalars(), max_size=2).map(tuple)), max_size=4
)


@given(families(), _events, st.sampled_from(ZONES))
def test_in_bulk_and_one_by_one_they_match_what_their_filters_match(texts: list[str], events: Any, zone: str) -> None:
    filters = {str(at): without_templates(each, zone) for at, each in enumerate(texts)}
    readable = {id: each for id, each in filters.items() if each is not None}
    many, one = Matcher(), Matcher()
    subscriptions = [Subscription(id, texts[int(id)], timezone=zone) for id in readable]
    many.add_subscriptions(subscriptions)
    for each in subscriptions:
        one.add(each.id, each.where, timezone=zone)
    sealed = Matcher()
    for each in subscriptions:
        sealed.add(each.id, each.where, timezone=zone)
    sealed.merge()
    for event in map(Event, events):
        expected = {id for id, each in readable.items() if each.matches(event)}
        assert many.match(event) == one.match(event) == sealed.match(event) == expected


# Read once, filled ever after.
@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_a_template(form: str) -> None:
    holes = {"o": ">", "n": "3", "t": "'x'", "s": "2", "d": "DATE '2024-01-01'", "m": "TIMESTAMP '2024-01-01 10:00:00'"}
    text = form.format(x="a", y="b", **holes)
    assert is_readable(text)
    found = split_literals(text)
    assert found is not None
    assert TemplateCache().template(found[0], text) is not None


BULK = [
    "lower(name) = 'x{}'", "a + b > {}", "a * b > {}.5", "CAST(code AS INT) = {}",
    "to_date(ts) = DATE '2024-01-{:02}'", "year(ts) = {} AND city = 'x'", "bid > ask AND city = 'x{}'",
    "size(tags) = {} AND city = 'x'", "x * {} > y", "coalesce(city, '-') = 'x{}'", "substring(name, 1, 3) = 'a{:02}'",
    "substring(name, 2, 3) = 'a{:02}'", "left(a, {}) = 'x'", "array_contains(tags, 'x{}')", "name LIKE 'a%{}%c'",
    "name RLIKE 'a[b-d]+{}'", "a * {} + b * 2 > 100", "a < b AND c = {}",
    "CASE WHEN a > 5 THEN 'x' ELSE 'y' END = 'x{}'", "lower(a) IN ('x{}', 'y')", "NOT (a + b BETWEEN 1 AND {})",
    "CAST(a AS DECIMAL(10, 2)) > {}", "ts + INTERVAL '1' HOUR > TIMESTAMP '2024-01-{:02} 00:00:00'",
    "a * {} > b AND c = 'x'",
]  # fmt: skip


@pytest.mark.parametrize("form", BULK)
def test_conditions_of_a_known_skeleton_are_not_parsed(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wheres = [form.format(number) for number in range(1, 29)]
    Matcher().add_many(["0"], wheres[:1])
    monkeypatch.setattr(bulk_load.Subscription, "filter", property(lambda self: pytest.fail(f"parsed: {self.where}")))
    matcher = Matcher()
    matcher.add_many([str(number) for number in range(len(wheres))], wheres)
    assert len(matcher) == len(wheres)


def test_conditions_that_differ_in_what_they_compute_have_attributes_of_their_own() -> None:
    matcher = Matcher()
    wheres = [f"x * {number % 3} > y" for number in range(30)]
    matcher.add_many([str(number) for number in range(30)], wheres)
    assert matcher.match({"x": 2, "y": 1}) == {str(at) for at in range(30) if at % 3}
    assert matcher.statistics().computed == 3


def test_a_scale_is_a_part_of_what_is_computed() -> None:
    # 1.0 / 3 has fewer digits than 1.00 / 3.
    wheres = [f"x * {scale} / 3 = y" for scale in ("1.0", "1.00") for _ in range(5)]
    one, many = Matcher(), Matcher()
    many.add_many([str(number) for number in range(10)], wheres)
    for number, where in enumerate(wheres):
        one.add(str(number), where)
    one.merge()
    for event in ({"x": 1, "y": 0.3333333333333333}, {"x": 3, "y": 1}):
        expected = {str(at) for at, where in enumerate(wheres) if Filter.parse(where).matches(event)}
        assert one.match(event) == many.match(event) == expected


def test_a_faulty_regular_expression_among_many_is_named() -> None:
    wheres = [f"name RLIKE 'a{number}'" for number in range(20)]
    wheres[13] = "name RLIKE 'a('"
    with pytest.raises(InvalidSubscription, match="13"):
        Matcher().add_many([str(number) for number in range(20)], wheres)
    matcher = Matcher()
    matcher.add("good", "name RLIKE 'a1'")
    with pytest.raises((InvalidSubscription, ParseError)):
        matcher.add("bad", "name RLIKE 'a('")


def test_too_many_digits_are_refused_whatever_was_read_before() -> None:
    Filter.parse("a * 1.5 * 2.5 > 1")
    Filter.parse("a * 1.6 * 2.6 > 1")
    with pytest.raises(ParseError, match="digits"):
        Filter.parse("a * 1.6 * 0.12345678901234567890123 > 1")


def test_templates_that_differ_in_fixed_literals_are_bounded() -> None:
    cache = TemplateCache()
    for number in range(200):
        text = f"a + INTERVAL {number} DAYS 1 HOUR > b"
        found = split_literals(text)
        assert found is not None
        template = cache.template(found[0], text)
        assert (template is None) is (number >= 64)


def test_the_form_follows_the_literals_that_are_filled_in() -> None:
    text = "substring(a, 1, 3) = 'abc'"
    found = split_literals(text)
    assert found is not None
    template = TemplateCache().template(found[0], text)
    assert template is not None
    assert isinstance(template.condition, ExpressionPredicate)
    assert template.condition.form is Form.PLAIN
    other = template.specialise({0: 2}, [2, 3, "abc"]).condition
    assert isinstance(other, ExpressionPredicate)
    assert other.form is Form.COMPUTED

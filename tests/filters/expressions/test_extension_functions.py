"""Tests of Palio's own functions: networks, whole-event patterns, foreign conditions, CloudEvents text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter, Matcher, ParseError
from palio.filters import registry
from palio.filters.computed import foreign
from palio.filters.expressions.extension_functions import cesql_integer, cloudevents_text
from palio.filters.kinds import KINDS, Kind, position_of
from palio.filters.sql_writer import leaf_to_sql
from palio.filters.tree import Leaf
from palio.filters.value_sets import STRINGS, ValueSet
from tests.strategies import OF_KIND


@pytest.mark.parametrize(
    ("address", "network", "inside"),
    [
        ("10.1.2.3", "10.0.0.0/8", True),
        ("11.1.2.3", "10.0.0.0/8", False),
        ("10.1.2.3", "10.1.2.3/32", True),
        ("10.1.2.3", "10.1.2.77/24", True),
        ("2001:db8::1", "2001:db8::/32", True),
        ("2001:0DB8:0:0::1", "2001:db8::/32", True),
        ("10.1.2.3", "::/0", False),
        ("no address", "0.0.0.0/0", False),
        ("", "0.0.0.0/0", False),
        (5, "0.0.0.0/0", False),
        (None, "0.0.0.0/0", False),
    ],
)
def test_an_address_is_within_a_network_or_not(address: Any, network: str, inside: bool) -> None:
    wanted = Filter.parse(f"ip_in_network(source, '{network}')")
    assert wanted.matches({"source": address}) is inside
    assert (~wanted).matches({"source": address}) is (isinstance(address, str) and not inside)
    assert Filter.parse(str(wanted)) == wanted


@pytest.mark.parametrize(
    ("condition", "event", "holds"),
    [
        ("any_value_like('%evil%')", {"a": "an evil deed"}, True),
        ("any_value_like('%evil%')", {"a": "EVIL"}, False),
        ("any_value_ilike('%evil%')", {"a": "EVIL"}, True),
        ("any_value_ilike('%evil%')", {"deep": {"er": [{"x": 1}, {"x": "evil"}]}}, True),
        ("any_value_like('47')", {"code": 47}, True),
        ("any_value_rlike('^4[0-9]$')", {"code": 47}, True),
        ("any_value_like('%')", {}, False),
        ("any_value_like('%')", {"a": None}, False),
        ("NOT any_value_like('%evil%')", {"a": ["good", "evil"]}, False),
        ("NOT any_value_like('%evil%')", {"a": ["good", "better"]}, True),
        ("a = 1 AND any_value_like('%x%')", {"a": [1, 2], "b": "x"}, True),
    ],
)
def test_some_value_of_an_event_has_a_form(condition: str, event: dict[str, Any], holds: bool) -> None:
    wanted = Filter.parse(condition)
    assert wanted.reads_whole_event
    assert wanted.matches(event) is holds
    assert Filter.parse(str(wanted)) == wanted
    assert str(wanted.explain(event)).startswith("✓" if holds else "✗")
    matcher = Matcher()
    matcher.add_many(["it", "other"], [condition, "a = 'nobody'"])
    assert ("it" in matcher.match(event)) is holds
    assert (matcher.match_batch([event])["subscription"].to_pylist() == ["it"]) is holds


def test_a_batch_of_columns_is_searched_whole() -> None:
    matcher = Matcher()
    matcher.add("evil", "any_value_ilike('%evil%')")
    table = pa.table({"a": ["Evil", "x", None], "b": [1, 2, 3], "c": [["x"], ["so evil"], []]})
    assert matcher.match_batch(table)["row"].to_pylist() == [0, 1]


@pytest.mark.parametrize(
    "condition",
    [
        "ip_in_network(a, 'nowhere')", "ip_in_network(a, b)", "any_value_rlike('(')", "any_value_like(a)",
        "any_value_like('x\\\\')", "condition_in('nothing', 'x')", "condition_in(a, 'x')", "any_value_like()",
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_when_read(condition: str) -> None:
    with pytest.raises(ParseError):
        Filter.parse(condition)


class Odd:
    """A language of one form, `odd NAME`: whether a number is odd; NULL for what is none."""

    def __init__(self, text: str) -> None:
        if not text.startswith("odd "):
            raise ParseError(text, 0, "this is not odd")
        self.name = text[4:]

    @property
    def attributes(self) -> frozenset[str]:
        return frozenset(self.name.split("+"))

    def __call__(self, event: Mapping[str, Any]) -> bool | None:
        values = [event.get(name) for name in self.name.split("+")]
        return sum(values) % 2 == 1 if all(isinstance(value, int) for value in values) else None  # type: ignore[arg-type]


@pytest.fixture
def odd() -> Iterator[None]:
    registry.register(
        "odd",
        lambda text, **options: Filter.of_tree(foreign("odd", text), lambda: foreign("odd", text, False)),
        Odd,
    )
    yield
    # Functions cannot be unregistered; other tests must not see this one.
    del registry._registered["odd"], registry._compilers["odd"]
    registry.parser_for.cache_clear()
    registry.condition_in.cache_clear()


@pytest.mark.usefixtures("odd")
@pytest.mark.parametrize(("text", "condition"), [("odd a", "condition_in('odd', 'odd a')"), ("odd a+b", None)])
def test_a_condition_of_another_language_is_one_of_ours(text: str, condition: str | None, tmp_path: Path) -> None:
    wanted = Filter.parse(text, language="odd")
    assert condition is None or str(wanted) == condition
    assert Filter.parse(str(wanted)) == wanted
    assert wanted.attributes == Odd(text).attributes
    event = {"a": 4, "b": 3} if "b" in text else {"a": 3}
    assert wanted.matches(event)
    assert not (~wanted).matches(event)
    assert (~wanted).matches({"a": 2, "b": 2})
    assert not wanted.matches({"a": "x"})
    assert not (~wanted).matches({"a": "x"})
    matcher = Matcher()
    matcher.add_many(["it"], [text], language="odd")
    matcher.save(tmp_path / "odd.palio")
    opened = Matcher.open(tmp_path / "odd.palio")
    assert opened.match(event) == matcher.match(event) == {"it"}


@pytest.mark.usefixtures("odd")
def test_a_condition_that_its_language_refuses_is_refused() -> None:
    with pytest.raises(ParseError, match="not odd"):
        Filter.parse("condition_in('odd', 'even a')")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (ValueSet.kinds(Kind.MISSING), "typeof(x) = 'missing'"),
        (ValueSet.kinds(Kind.NULL), "typeof(x) = 'void'"),
        (ValueSet.kinds(Kind.MISSING, Kind.NULL), "x IS NULL"),
        (ValueSet.kinds(*KINDS[1:]), "typeof(x) <> 'missing'"),
        (ValueSet.points(["a", None]), "typeof(x) = 'void' OR x = 'a'"),
        (ValueSet.points(["a"]).complement(), "(x = 'a') IS NOT TRUE"),
        (STRINGS.complement(), "(x LIKE '%') IS NOT TRUE"),
    ],
)
def test_what_is_missing_and_what_is_null_are_told_apart(values: ValueSet, text: str) -> None:
    assert leaf_to_sql("x", values)[0] == text
    assert Filter.parse(text).tree == Leaf("x", values)


@given(st.integers(-(2**40), 2**40), st.sampled_from(["", "+"]), st.integers(0, 30))
def test_an_integer_within_32_bits_is_read_with_sign_and_zeros(number: int, plus: str, zeros: int) -> None:
    sign = "-" if number < 0 else plus
    text = f"{sign}{'0' * zeros}{abs(number)}"
    assert cesql_integer(text) == (number if -(2**31) <= number < 2**31 else None)


@pytest.mark.parametrize("text", ["", "+", "-", " 1", "1 ", "1.0", "1e3", "0x1", "1_0", "٣", "--1", "+-1", "1\n", "²"])
def test_nothing_else_is_an_integer(text: str) -> None:
    assert cesql_integer(text) is None


def test_long_texts_of_digits_are_read_quickly() -> None:
    assert cesql_integer("0" * 1_000_000 + "7") == 7
    assert cesql_integer("9" * 1_000_000) is None


@pytest.mark.parametrize("kind", [Kind.DECIMAL, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP, Kind.INTEGER, Kind.BOOLEAN])
@given(data=st.data())
def test_values_have_the_same_text_where_they_have_the_same_position(kind: Kind, data: st.DataObject) -> None:
    one, two = data.draw(OF_KIND[kind]), data.draw(OF_KIND[kind])
    assert (cloudevents_text(one) == cloudevents_text(two)) is (position_of(kind, one) == position_of(kind, two))


@given(OF_KIND[Kind.DECIMAL] | OF_KIND[Kind.FLOAT])
def test_no_decimal_or_float_is_taken_for_an_integer(number: Any) -> None:
    text = cloudevents_text(number)
    assert text is not None
    assert cesql_integer(text) is None
    if isinstance(number, Decimal) or number - number == 0:
        assert Decimal(text) == Decimal(repr(number) if isinstance(number, float) else number)


def test_sql_has_both_as_functions() -> None:
    wanted = Filter.parse("cesql_int(a) = 7 AND cesql_string(b) = '1.5'")
    assert wanted.matches({"a": "+007", "b": 1.50})
    assert not wanted.matches({"a": 7, "b": 1.5})
    assert not wanted.matches({"a": "7", "b": b"1.5"})
    assert Filter.parse(str(wanted)) == wanted

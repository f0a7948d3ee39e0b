"""Templates: with other literals, a template gives the filter that the parser gives for the whole text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import ParseError
from palio.filters.explanation import as_written
from palio.filters.filter import Filter
from palio.languages.grammar import InvalidLiteral
from palio.languages.sql.skeletons import split_literals
from palio.languages.sql.template_cache import BoundTemplate, TemplateCache
from palio.languages.sql.template_parameters import DECIMAL, DOUBLE, INTEGER, LIST, STRING, UnboundLiteral
from tests.languages.sql.samples import FRAGMENTS, ZONES, parsed
from tests.oracles.generate import Generator
from tests.strategies import STRINGS, conditions, usual_conditions

# Other literals of each kind: what a skeleton may be filled with.
_texts = st.sampled_from(STRINGS) | st.text(max_size=4)
_quoted = st.builds(
    lambda text, quote: quote + text.replace("\\", "\\\\").replace(quote, quote * 2) + quote,
    _texts | st.sampled_from(["a%", "%a%", "_b", "2024-02-30", "epoch", "now", "00FF", "x--", "/*", "5 DAY"]),
    st.sampled_from(["'", '"']),
)
_escaped = st.sampled_from(
    [r"'a\\_b'", r"'\n'", r"'it\'s'", r'"\""', r"'\u00e9'", r"'\ud83d'", r"'\U00110000'", r"'\\%'", r"'x\_%'",
     r"r'\d+'", r'R"a\"', "r'it'", r"'\101'", "'\\\n'"]
)  # fmt: skip
OTHERS = {
    INTEGER: st.integers(0, 2**63 - 2).map(str) | st.sampled_from(["0", "007", "1", "2024", "9223372036854775806"]),
    DECIMAL: st.sampled_from(["0.0", "3.5", "1.50", "0.1", "9007199254740992.5", f"1.{'1' * 40}"]),
    DOUBLE: st.sampled_from(["1d", "2.5D", "1e5", "1E-3", "3.5e+2", "1e400", "0e0", "9007199254740993D"]),
    STRING: _quoted | _escaped,
}


_LISTED = re.compile(f"([^(]*[\1-\4]){LIST}")


def with_lists(skeleton: str, length: int) -> str:
    """A skeleton with a mark for each of the literals of a list."""
    return _LISTED.sub(lambda found: ", ".join([found[1]] * length), skeleton)


def filled(skeleton: str, literals: list[str]) -> str:
    remaining = iter(literals)
    return "".join(next(remaining) if part in OTHERS else part for part in skeleton)


def check_all_of_its_skeleton(text: str, draw: Any) -> None:
    """Whatever the literals, the template of a text's skeleton gives what the parser gives."""
    found = split_literals(text)
    if found is None:
        return
    skeleton, literals = found
    if LIST not in skeleton and sum(part in OTHERS for part in skeleton) != len(literals):
        return
    template = TemplateCache().template(skeleton, text)
    timezone = draw(st.sampled_from(ZONES))
    for _ in range(3):
        each = with_lists(skeleton, draw(st.integers(1, 5)))
        other = filled(each, [draw(OTHERS[part]) for part in each if part in OTHERS])
        recut = split_literals(other)
        if recut is None or template is None or recut[0] != skeleton:
            continue  # the last where a quote stands in a name, and with other literals pairs with another
        expected = parsed(other, timezone)
        try:
            given_values = template.parse_literals(recut[1], timezone)
        except UnboundLiteral:
            continue  # parsed
        except InvalidLiteral:
            assert expected is None
            continue
        assert expected is not None
        made = BoundTemplate(template, given_values, timezone).filter()
        assert made == expected
        assert made.digest == expected.digest
        assert made.tree == expected.tree
        assert ~made == ~expected
        assert as_written(made.written) == as_written(expected.written)


@given(conditions(), st.data())
def test_conditions_over_the_whole_grammar(text: str, data: st.DataObject) -> None:
    check_all_of_its_skeleton(text, data.draw)


@given(usual_conditions(), st.data())
def test_conditions_as_subscribers_mostly_write_them(text: str, data: st.DataObject) -> None:
    check_all_of_its_skeleton(text, data.draw)


@given(st.integers(0, 10**9), st.data())
def test_conditions_as_they_are_compared_with_spark(seed: int, data: st.DataObject) -> None:
    check_all_of_its_skeleton(Generator(seed).condition().text, data.draw)


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join), st.data())
def test_texts_that_are_hardly_conditions(text: str, data: st.DataObject) -> None:
    check_all_of_its_skeleton(text, data.draw)


_lists = st.builds(
    "{} {} {}{}".format,
    st.sampled_from(["", "NOT", "b = 1 AND", "b IN (1, 'x') OR", "b IN (2) AND NOT"]),
    st.sampled_from(["a", "b", "c.d"]),
    st.sampled_from(
        [
            *["IN (1, 2)", "in(1.5)", "NOT IN ( 'x' , 'y')", "IN (-1, -2)", "IN (DATE '2024-01-01')", "IN (1, 'x')"],
            *["IN (1, NULL)", "= 1 OR a = 2", "= 'x' OR a = 'y' OR a = 'z'", "= 1 OR a = 'x'", "= 1e3 OR a = 2e3"],
        ]
    ),
    st.sampled_from(["", " AND b > 3", " OR a = 'x'", " AND c.d = 'z' AND b < 9"]),
)


@given(_lists | st.builds("({}) IS NOT TRUE".format, _lists), st.data())
def test_lists_of_any_length(text: str, data: st.DataObject) -> None:
    check_all_of_its_skeleton(text, data.draw)


@pytest.mark.parametrize("listed", ["('x')", "('x', 'y')", "( 'x','y' ,'z')", f"({', '.join(['1' * 9] * 5000)})"])
def test_the_length_of_a_list_is_no_part_of_its_skeleton(listed: str) -> None:
    text = f"a > 1 AND b IN {listed} AND c = 'z'"
    found = split_literals(text)
    assert found is not None
    skeleton, literals = found
    kind = INTEGER if "1" in listed else STRING
    assert skeleton == f"a > {INTEGER} AND b IN ({kind}{LIST}) AND c = {STRING}"
    template = TemplateCache().template(skeleton, text)
    assert template is not None
    assert len(template.parameters) == 3
    expected = [1, tuple(each if kind == STRING else int(each) for each in re.findall(r"[xyz]|1{9}", listed)), "z"]
    assert template.parse_literals(literals, "UTC") == expected


# Every spelling of what subscriptions mostly are has a template, and so is parsed once however often it comes.
@pytest.mark.parametrize(
    "text",
    [
        "a = 'v1' AND b = 'w2'",
        "a='v1' and b=='w2'",
        "  a   =\n'v1'\tAnd b<>2 ",
        "ip = '10.0.3.4'",
        "a = '773' AND b = \"w\"",
        "a = 'v1' AND b >= 1 AND b <= 9",
        "a IN ('x', 'y') AND b NOT IN (1, 2)",
        "a LIKE 'v%' AND b NOT LIKE '%w' AND c ILIKE '%u%'",
        "startswith(a, 'x') AND contains(b, 'y')",
        "a = 'v' OR b > 7",
        "NOT (a = 'v' OR b > 7) AND c != 3",
        "a > DATE'2024-01-01' AND b < TIMESTAMP '2024-01-01 10:00:00'",
        "raw = X'00FF'",
        "a > 3.5 AND b < -2 AND c >= 1e3 AND d <= 2D",
        "5 < a AND 'x' = b",
        "a IS NULL AND b IS NOT NULL AND flag AND NOT other",
        "a <=> 5 AND b IS DISTINCT FROM 'x'",
        "(a > 5) IS TRUE AND (b = 'x') IS NOT FALSE",
        "a = 'it''s' AND `odd name` = 1 AND c.d.e = 2",
        "delay BETWEEN 60 AND 180 AND dest IN ('SFO','OAK') AND carrier LIKE 'U%'",
    ],
)
def test_usual_conditions_are_parsed_once(text: str) -> None:
    found = split_literals(text)
    assert found is not None
    assert TemplateCache().template(found[0], text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "a = 'x' 'y'",
        "a >",
        "1 = 1",
        "typeof(a) = 'int'",
        "in_timezone('+01:00', a > 1)",
        "condition_in('jms', 'a > 1')",
    ],
)
def test_what_a_template_cannot_hold_has_none(text: str) -> None:
    found = split_literals(text)
    assert found is not None
    assert TemplateCache().template(found[0], text) is None


def test_a_literal_that_has_no_value_is_an_error_where_it_stands() -> None:
    for _ in range(3):
        Filter.parse("t > DATE'2024-01-01'")
        with pytest.raises(ParseError, match="is no date"):
            Filter.parse("t > DATE'2024-13-01'")
        with pytest.raises(ParseError, match="surrogate"):
            Filter.parse("t = '\ud800'")
        with pytest.raises(ParseError, match="no time zone"):
            Filter.parse("t > DATE'2024-01-02'", timezone="Nowhere")


def test_a_format_is_checked_although_its_skeleton_is_known() -> None:
    for number in range(6):
        Filter.parse(f"format_string('%s', a) = '{number}'")
    with pytest.raises(ParseError):
        Filter.parse("format_string('%d %d', a) = 'x'")

"""Filling literals into the template of a skeleton gives what reading the whole text gives."""

from __future__ import annotations

import threading
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import ParseError
from palio.filters.filter import Filter
from palio.languages.grammar import InvalidLiteral
from palio.languages.sql import template_cache
from palio.languages.sql.lowering import lower_filter
from palio.languages.sql.parser import parse_condition
from palio.languages.sql.template_cache import BoundTemplate, TemplateCache, split_literals
from palio.languages.sql.templates import DECIMAL, DOUBLE, INTEGER, STRING
from tests.oracles.generate import Generator
from tests.strategies import STRINGS, conditions, usual_conditions

ZONES = ["UTC", "America/New_York", "Asia/Tokyo"]

# Other literals of each kind: what a skeleton may be filled with.
_texts = st.sampled_from([text for text in STRINGS if "\\" not in text]) | st.text(max_size=4).filter(
    lambda text: "\\" not in text
)
_quoted = st.builds(
    lambda text, quote: quote + text.replace(quote, quote * 2) + quote,
    _texts | st.sampled_from(["a%", "%a%", "_b", "2024-02-30", "epoch", "now", "00FF", "x--", "/*", "5 DAY"]),
    st.sampled_from(["'", '"']),
)
OTHERS = {
    INTEGER: st.integers(0, 10**18 - 1).map(str) | st.sampled_from(["0", "007", "1", "2024"]),
    DECIMAL: st.sampled_from(["0.0", "3.5", "1.50", "0.1", "9007199254740992.5", f"1.{'1' * 40}"]),
    DOUBLE: st.sampled_from(["1d", "2.5D", "1e5", "1E-3", "3.5e+2", "1e400", "0e0", "9007199254740993D"]),
    STRING: _quoted,
}


def parsed(text: str, timezone: str) -> Filter | None:
    """The filter of a text by the long way; None where it is refused."""
    try:
        return lower_filter(parse_condition(text, timezone=timezone), text, timezone)
    except ParseError:
        return None


def filled(skeleton: str, literals: list[str]) -> str:
    remaining = iter(literals)
    return "".join(next(remaining) if part in OTHERS else part for part in skeleton)


def check_all_of_its_skeleton(text: str, draw: Any) -> None:
    """Whatever the literals, the template of a text's skeleton gives what the parser gives."""
    found = split_literals(text)
    if found is None:
        return
    skeleton, literals = found
    if sum(part in OTHERS for part in skeleton) != len(literals):
        return
    template = TemplateCache().template(skeleton, text)
    timezone = draw(st.sampled_from(ZONES))
    for _ in range(3):
        other = filled(skeleton, [draw(OTHERS[part]) for part in skeleton if part in OTHERS])
        recut = split_literals(other)
        if recut is None or template is None or recut[0] != skeleton:
            continue  # the last where a quote stands in a name, and with other literals pairs with another
        expected = parsed(other, timezone)
        try:
            given_values = template.parse_literals(recut[1], timezone)
        except InvalidLiteral:
            assert expected is None
            continue
        assert expected is not None
        made = BoundTemplate(template, given_values, timezone).filter()
        assert made == expected
        assert made.digest == expected.digest
        assert made.tree == expected.tree
        assert ~made == ~expected


@given(conditions(), st.data())
def test_conditions_over_the_whole_grammar(text: str, data: st.DataObject) -> None:
    check_all_of_its_skeleton(text, data.draw)


@given(usual_conditions(), st.data())
def test_conditions_as_subscribers_mostly_write_them(text: str, data: st.DataObject) -> None:
    check_all_of_its_skeleton(text, data.draw)


@given(st.integers(0, 10**9), st.data())
def test_conditions_as_they_are_compared_with_spark(seed: int, data: st.DataObject) -> None:
    check_all_of_its_skeleton(Generator(seed).condition().text, data.draw)


FRAGMENTS = [
    "a", "b1", "x", "r", "DATE", "date ", "TIMESTAMP", "X", " = ", "=", " AND ", " and\n", " OR ", "NOT ", " IN (", ")",
    ", ", " BETWEEN ", " LIKE ", " ILIKE ", " IS NULL", " <=> ", " <> ", "-", "+", "1", "22", "1.5", ".5", "1.", "1e5",
    "5L", "1d", "'x'", "'it''s'", "''", "'", '"y"', "`n1`", "`a'b`", "--", "/*", "*/", "\n", " ", "\\", "\x01", "\x04",
    "é", "e5", "_", "(", ".", "INTERVAL ", " DAY", " ESCAPE ", "TRUE", "NULL", "1.2.3", "99999999999999999999",
]  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join), st.data())
def test_texts_that_are_hardly_conditions(text: str, data: st.DataObject) -> None:
    check_all_of_its_skeleton(text, data.draw)


@given(
    st.lists(st.sampled_from([*FRAGMENTS, "a = 1", " AND b = 'x'"]), max_size=8).map("".join),
    st.sampled_from(ZONES),
)
def test_what_is_read_by_its_skeleton_is_what_is_parsed(text: str, timezone: str) -> None:
    expected = parsed(text, timezone)
    for _ in range(3):  # seen never, once, twice before
        bound = BoundTemplate.read(text, timezone)
        assert bound is None or (expected is not None and bound.filter() == expected)


@given(
    st.lists(st.sampled_from([*FRAGMENTS, "a = 1", " AND b = 'x'"]), max_size=8).map("".join),
    st.sampled_from(ZONES),
)
def test_a_text_is_bound_at_first_sight_where_it_has_a_template(text: str, timezone: str) -> None:
    template_cache.TEMPLATES.__init__()  # type: ignore[misc]
    bound = BoundTemplate.parse(text, timezone)
    if bound is not None:
        assert bound.filter() == parsed(text, timezone)
    template_cache.TEMPLATES.__init__()  # type: ignore[misc]
    repeated = [BoundTemplate.read(text, timezone) for _ in range(3)]
    assert (bound is None) == (repeated[-1] is None)


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
    ["a + 1 > 2", "a > b", "upper(a) = 'X'", "a LIKE 'x/%' ESCAPE '/'", "a RLIKE '1'", "a = 'x' 'y'", "a >", "1 = 1"],
)
def test_what_a_template_cannot_hold_has_none(text: str) -> None:
    found = split_literals(text)
    assert found is not None
    assert TemplateCache().template(found[0], text) is None


@pytest.mark.parametrize("text", ["a = '\\n'", "a = 1 -- 2", "a = 1 /* 2 */", f"a = {'9' * 19}", "x" * 20_001])
def test_what_cutting_could_get_wrong_is_not_cut(text: str) -> None:
    assert split_literals(text) is None


def test_a_literal_that_has_no_value_is_an_error_where_it_stands() -> None:
    for _ in range(3):
        Filter.parse("t > DATE'2024-01-01'")
        with pytest.raises(ParseError, match="is no date"):
            Filter.parse("t > DATE'2024-13-01'")
        with pytest.raises(ParseError, match="surrogate"):
            Filter.parse("t = '\ud800'")
        with pytest.raises(ParseError, match="no time zone"):
            Filter.parse("t > DATE'2024-01-02'", timezone="Nowhere")


def test_the_number_of_templates_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_cache, "_MAX_TEMPLATES", 10)
    known = TemplateCache()
    for number in range(100):
        for _ in range(2):
            text = f"a{'b' * number} = 1"
            known.template_if_repeated(split_literals(text)[0], text)  # type: ignore[index]
    # How many it keeps is visible nowhere else.
    assert len(known._templates) <= 10
    assert len(known._seen_once) <= 10
    long = f"a IN ({', '.join(map(str, range(3000)))})"
    assert known.template(split_literals(long)[0], long) is None  # type: ignore[index]


def test_many_threads_may_read_conditions_of_new_skeletons_at_once() -> None:
    wrong: list[str] = []

    def read(seed: int) -> None:
        chance = Random(seed)
        for _ in range(150):
            text = f"n{chance.randrange(40)} > {chance.randrange(9)} AND b = '{chance.randrange(9)}'"
            if Filter.parse(text) != parsed(text, "UTC"):
                wrong.append(text)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


conjuncts = st.lists(usual_conditions() | conditions() | st.sampled_from(FRAGMENTS), min_size=2, max_size=4)


@given(conjuncts, st.sampled_from([" AND ", " and ", " AND NOT ", " OR "]), st.sampled_from(ZONES))
def test_a_conjunction_of_known_conjuncts_is_what_is_parsed(parts: list[str], between: str, timezone: str) -> None:
    text = between.join(parts)
    template_cache.TEMPLATES.__init__()  # type: ignore[misc]
    for _ in range(2):  # each is known when it is seen again
        for part in parts:
            BoundTemplate.read(part, timezone)
    # The second reading goes by what the first has learned; the others put it together in other ways.
    for each in (text, text, between.join(reversed(parts)), "".join(parts), f"{between}{text}", f"{text}{between}1"):
        found = BoundTemplate.read(each, timezone)
        if found is not None:
            expected = parsed(each, timezone)
            assert expected is not None
            assert found.filter() == expected
            assert str(~found.filter()) == str(~expected)


@pytest.mark.parametrize(
    "text",
    [
        "a = 1 AND b = 'x'", "b = 'x' AND a = 1", "a BETWEEN 1 AND 5 AND b = 'x AND y'",
        "c AND NOT a = 1 AND d IS NULL",
        "s LIKE 'a%' AND t > DATE'2024-01-01' AND a >= -1.5",
    ],
)  # fmt: skip
def test_conjunctions_of_new_skeletons_need_no_parser(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("a = 1", "b = 'x'", "a BETWEEN 1 AND 2", "c", "NOT a = 1", "d IS NULL", "s LIKE 'x'",
                 "t > DATE'2000-01-01'", "a >= -1.5"):  # fmt: skip
        for _ in range(2):
            BoundTemplate.read(each)
    monkeypatch.setattr(template_cache, "make_template", None)
    # Templates of whole conjunctions are taken away, so that only those of conjuncts are left.
    monkeypatch.setattr(
        template_cache.TEMPLATES,
        "_templates",
        {k: v for k, v in template_cache.TEMPLATES._templates.items() if "AND" not in k or "BETWEEN" in k},
    )
    found = BoundTemplate.read(text)
    assert found is not None
    assert found.filter() == parsed(text, "UTC")


@pytest.mark.parametrize(
    "text",
    [
        "b = 'y' AND a = 2", "a BETWEEN 3 AND 4 AND b = 'it''s' AND a = -1", "a = 1 AND b = 'y AND a = 2'",
        "a = 1b = 'x'", "a = 1 b = 'x'", " AND a = 1 AND b = 'x'", "a = 1 AND b = 'x' AND 5", "a = 1 AND 5 AND b = 'x'",
        "a BETWEEN 1 AND b = 'x'", "a BETWEEN 1 AND 5 AND 6", "a = 1 AND b = 'x' OR c", "a = 1 AND b = \"x\"",
        "a = 1 AND b = 'x' -- a = 1", "a = 1 AND b = 'x\\'' AND a = 1", "a = 1 AND b = 1234567890123456789012",
        "a = 1.5 AND b = 'x'", "a = 1 AND b = 'x' ", "a = \1 AND b = 'x'", "5 > a AND b = 'x'", "5 AND b = 'x'",
    ],
)  # fmt: skip
def test_what_was_learned_of_conjuncts_is_not_put_together_wrongly(text: str) -> None:
    for each in ("a = 1", "b = 'x'", "a BETWEEN 1 AND 2", "a = -1", "5 > a", "c"):
        for _ in range(2):
            BoundTemplate.read(each)
            BoundTemplate.read(f"{each} AND z = 7")
    for _ in range(2):
        BoundTemplate.read("c = 1 AND a = 1 AND b = 'x' AND a BETWEEN 1 AND 2 AND a = -1 AND 5 > a")
    expected = parsed(text, "UTC")
    found = BoundTemplate.read(text)
    assert found is None or found.filter() == expected

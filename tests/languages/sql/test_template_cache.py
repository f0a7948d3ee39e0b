"""Cache of templates: literals and conjuncts are cut as the parser cuts them; bound conditions mean the same."""

from __future__ import annotations

import threading
from functools import reduce
from operator import and_
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.events.event import Event
from palio.filters.filter import Filter
from palio.languages.sql import template_cache
from palio.languages.sql.skeletons import (
    LITERAL_MARKS,
    locate_list,
    locate_literals,
    split_all_conjuncts,
    split_conjuncts,
    split_literals,
)
from palio.languages.sql.template_cache import BoundConjunction, BoundTemplate, TemplateCache
from palio.languages.sql.template_parameters import LIST
from tests.languages.sql.samples import FRAGMENTS, ZONES, parsed
from tests.languages.sql.test_templates import with_lists
from tests.strategies import NAMES, conditions, scalar_attributes, usual_conditions

texts = usual_conditions() | conditions() | st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)

# --- literals and conjuncts --------------------------------------------------------------------------------


@given(texts)
def test_the_pieces_of_a_text_are_the_text(text: str) -> None:
    found = split_literals(text)
    if found is None:
        return
    skeleton, literals = found
    listed = locate_list(text)
    assert len(listed) == len(literals) - sum(part in LITERAL_MARKS for part in skeleton) + (LIST in skeleton)
    each = with_lists(skeleton, len(listed))
    remaining = iter(literals)
    whole = "".join(next(remaining) if part in LITERAL_MARKS else part for part in each)
    # The blanks of a list are no part of its mark.
    assert whole == text if LIST not in skeleton else whole.replace(" ", "") == text.replace(" ", "")
    assert next(remaining, None) is None
    assert [text[start:end] for _, start, end in locate_literals(text)] == literals


@pytest.mark.parametrize("text", ["a = \\n", "a = 1 -- 2", "a = 1 /* 2 */", "a = 9223372036854775807", "x" * 1_000_001])
def test_what_cutting_could_get_wrong_is_not_cut(text: str) -> None:
    assert split_literals(text) is None


@given(st.lists(usual_conditions() | st.sampled_from(FRAGMENTS), min_size=1, max_size=4).map(" AND ".join))
def test_conjuncts_joined_are_the_text_and_mean_what_it_means(text: str) -> None:
    parts = split_conjuncts(text)
    if parts is None:
        return
    assert " AND ".join(parts) == text
    whole, filters = parsed(text, "UTC"), [parsed(part, "UTC") for part in parts]
    if whole is None:
        assert None in filters
    elif None not in filters:
        assert reduce(and_, filters) == whole


@given(st.lists(st.lists(usual_conditions(), min_size=1, max_size=3).map(" AND ".join), min_size=1, max_size=4))
def test_texts_split_together_are_split_as_each_alone(several: list[str]) -> None:
    parts, counts = split_all_conjuncts(several)
    assert sum(counts) == len(parts)
    rest = iter(parts)
    for text, count in zip(several, counts, strict=True):
        mine = [next(rest) for _ in range(count)]
        alone = split_conjuncts(text)
        if alone is not None:
            assert mine == alone
        elif mine != [text]:
            # Uncertain, or an AND within quotes: some part then has an open quote, and no parser accepts it.
            assert not mine or any(parsed(part, "UTC") is None for part in mine)


# --- cache -------------------------------------------------------------------------------------------------


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
    long = " OR ".join([f"a{number} = 1" for number in range(600)])
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


# --- conjunctions of known conjuncts -----------------------------------------------------------------------

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


SIMPLE = ["a = 1", "b = 'x'", "c BETWEEN 1 AND 2", "b LIKE 'a%'", "a <> -3"]


@given(st.lists(st.sampled_from(SIMPLE), min_size=2, max_size=4), st.lists(scalar_attributes(), max_size=5))
def test_a_conjunction_bound_by_parts_is_that_of_the_whole(parts: list[str], events: list[Any]) -> None:
    template_cache.TEMPLATES.__init__()  # type: ignore[misc]
    text = " AND ".join(parts)
    whole = BoundTemplate.parse(text)
    assert isinstance(whole, BoundTemplate | BoundConjunction)
    template_cache.TEMPLATES.__init__()  # type: ignore[misc]
    for part in parts:
        BoundTemplate.parse(part)
    by_parts = BoundTemplate.parse(text)
    assert isinstance(by_parts, BoundConjunction)
    expected = parsed(text, "UTC")
    assert expected is not None
    names = {part.split()[0] for part in parts}
    for bound in (whole, by_parts):
        assert bound.tree() == expected.tree
        assert set(bound.needed) == names
        assert [bound.mentions({name}) for name in NAMES] == [name in names for name in NAMES]
        assert [bound.holds(event) for event in events] == [expected.matches(Event(event)) for event in events]
    assert list(whole.strings(9)) == list(by_parts.strings(9))

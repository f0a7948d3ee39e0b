"""Reading conditions by their skeletons, in bulk or one by one, gives what their filters mean."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import palio
from palio.events import Event
from palio.filters.filter import Filter
from palio.languages.sql import template_cache
from palio.languages.sql.skeletons import split_literals as cut_text
from palio.languages.sql.template_cache import BoundTemplate, TemplateCache
from palio.matching.columnar import bulk_kernels as kernels
from palio.matching.columnar import bulk_load, split_texts
from palio.matching.columnar.conditions import ConditionsBuilder
from palio.matching.columnar.split_texts import SplitTexts
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from tests.languages.sql.test_templates import FRAGMENTS, OTHERS, ZONES, filled, with_lists
from tests.strategies import attributes, is_readable, scalar_attributes, usual_conditions

integers = st.integers(-(10**15) + 1, 10**15 - 1) | st.integers(-3, 3)
names = st.sampled_from(["a", "b.c", "day", "_x1", "order.id", "Z"])
beginnings = st.sampled_from(["", "true", "Yes", "n", "nan", "-NaN", "inf", "+Infinity", "epoch", "1", "2024", "x"])
anything = st.builds(str.__add__, beginnings, st.text(max_size=3)) | st.builds(
    str.__add__, st.text(max_size=2), beginnings
)
strings = anything.filter(lambda text: "'" not in text and "\\" not in text) | st.sampled_from(
    ["abc", "x y", "nan", "true", "t1", "10", "2024-01-01", "é", "A", "inf ", " b", ""]
)
comparisons = st.one_of(
    st.builds("{} {} {}".format, names, st.sampled_from(["=", "<", "<=", ">", ">=", "<>"]), integers),
    st.builds("{} {} '{}'".format, names, st.sampled_from(["=", "<", ">="]), strings),
    st.builds("{} BETWEEN {} AND {}".format, names, integers, integers),
)
texts = st.lists(comparisons, min_size=1, max_size=4).map(" AND ".join)
values = st.one_of(
    integers,
    strings,
    st.floats(),
    st.booleans(),
    st.none(),
    st.decimals(-5, 5, places=1),
    st.lists(integers | strings, max_size=3),
)
events = st.dictionaries(st.sampled_from(["a", "day", "_x1", "Z"]), values).flatmap(
    lambda flat: st.fixed_dictionaries({"b": st.fixed_dictionaries({"c": values})}).map(lambda b: {**flat, **b})
)


@pytest.fixture(autouse=True)
def _every_skeleton_in_bulk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_load, "_MAX_SINGLE_ROWS", 0)
        yield


@st.composite
def alike(draw: Any) -> list[str]:
    """Conditions of a few skeletons, with several literals each."""
    found: list[str] = []
    for text in draw(st.lists(usual_conditions(), min_size=1, max_size=4)):
        cut = cut_text(text)
        found.append(text)
        if cut is None or ("\6" not in cut[0] and sum(part in OTHERS for part in cut[0]) != len(cut[1])):
            continue
        for _ in range(2):
            skeleton = with_lists(cut[0], draw(st.integers(1, 4)))
            found.append(filled(skeleton, [draw(OTHERS[part]) for part in skeleton if part in OTHERS]))
    return [text for text in found if is_readable(text)]


@given(alike(), st.lists(attributes(), max_size=5), st.sampled_from(ZONES))
def test_what_is_read_in_bulk_means_what_the_filters_mean(
    wheres: list[str], some: list[dict[str, Any]], zone: str
) -> None:
    subscriptions = [Subscription(str(at), where, timezone=zone) for at, where in enumerate(wheres)]
    filters = {each.id: each.filter for each in subscriptions}
    matcher = Matcher()
    matcher.add_subscriptions(subscriptions)
    for event in map(Event, some):
        assert matcher.match(event) == {id for id, each in filters.items() if each.matches(event)}


@given(alike(), st.lists(attributes(), max_size=5))
def test_so_does_what_is_added_one_by_one(wheres: list[str], some: list[dict[str, Any]]) -> None:
    matcher = Matcher()
    for at, where in enumerate(wheres):
        matcher.add(str(at), where)
    filters = {str(at): Filter.parse(where) for at, where in enumerate(wheres)}
    for event in map(Event, some):
        assert matcher.match(event) == {id for id, each in filters.items() if each.matches(event)}


@given(usual_conditions().filter(is_readable), st.lists(scalar_attributes(), max_size=5), st.sampled_from(ZONES))
def test_a_template_asked_without_a_tree_says_the_same(where: str, some: list[dict[str, Any]], zone: str) -> None:
    bound = next((found for _ in range(2) if (found := BoundTemplate.read(where, zone)) is not None), None)
    if bound is not None:
        meant = Filter.parse(where, timezone=zone)
        assert [bound.holds(event) for event in some] == [meant.matches(Event(event)) for event in some]


@given(st.lists(texts.filter(is_readable), min_size=1, max_size=12), st.lists(events, max_size=5))
def test_comparisons_with_arbitrary_strings(wheres: list[str], some: list[dict[str, Any]]) -> None:
    one, many = Matcher(), Matcher()
    many.add_many([str(number) for number in range(len(wheres))], wheres)
    for number, where in enumerate(wheres):
        one.add(str(number), where)
    for event in some:
        expected = {str(n) for n, where in enumerate(wheres) if Filter.parse(where).matches(event)}
        assert many.match(event) == expected
        assert one.match(event) == expected


@given(st.lists(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join), max_size=6))
def test_the_compiled_reader_cuts_as_the_other_does(lines: list[str]) -> None:
    # The kernel's output arrays are compared with the plain split; nothing public returns them.
    cut = SplitTexts(lines, "UTC")
    for at, line in enumerate(lines):
        number = int(cut._skeleton_of[at])
        expected = cut_text(line)
        if number < 0:
            continue  # what it leaves to the other
        begin, end = cut._spans[number].tolist()
        skeleton = cut._skeleton_text[begin:end].tobytes().decode()
        spans = cut._literals[cut._starts[at] : cut._starts[at + 1]].tolist()
        assert expected == (skeleton, [cut._raw[start:end].decode() for start, end in spans])


_members = st.sampled_from(
    ["1", "-2", "'a'", "'it''s'", '"b"', "2.5", "1e3", "DATE '2024-01-01'", "x'00'", "NULL", "-- 1", "c",
     r"'\''", r"r'\'", r'R"a"', "DATE r'2024-01-01'", "9223372036854775806", "xr'a'"]
)  # fmt: skip
_listed = st.builds(
    lambda each, count, comma: comma.join([*each, *[each[0]] * count]),
    st.lists(_members, min_size=1, max_size=2),
    st.integers(0, 4),
    st.sampled_from([", ", ",", " , ", ",\n"]),
)
lists = st.builds(
    "{}{}({}{}){}".format,
    st.sampled_from(["a", "a ", "`a` NOT ", "5", "'x'", "begin", "a.in (1) OR b "]),
    st.sampled_from(["IN ", "in", "iN  ", "IN\t", ""]),
    st.sampled_from(["", " "]),
    _listed,
    st.sampled_from(["", " AND c = 1", " AND b IN (1, 2)", " OR b in ('x')"]),
)


@given(st.lists(lists, max_size=6))
def test_the_compiled_reader_finds_the_lists_that_the_other_finds(lines: list[str]) -> None:
    test_the_compiled_reader_cuts_as_the_other_does.hypothesis.inner_test(lines)  # type: ignore[attr-defined]


_quoted = strings.map("'{}'".format)
_alike = st.lists(integers.map(str), min_size=1, max_size=20) | st.lists(_quoted, min_size=1, max_size=20)
_mixed = st.lists(st.sampled_from(["1.5", "2", "DATE '2024-01-01'", "'x'", "-1"]), min_size=1, max_size=3)
listed_texts = st.builds(
    "{} {} ({}){}".format,
    st.sampled_from(["a", "b.c", "day"]),
    st.sampled_from(["IN", "NOT IN"]),
    (_alike | _mixed).map(", ".join),
    st.sampled_from(["", " AND Z > 1", " OR Z = 'x' OR Z = 'y'", " AND a IN ('x', 'y')"]),
) | st.builds(lambda name, each: " OR ".join([f"{name} = {value}" for value in each]), names, _alike)


@given(st.lists(listed_texts.filter(is_readable), min_size=1, max_size=12), st.lists(events, max_size=5))
def test_lists_of_all_lengths(wheres: list[str], some: list[dict[str, Any]]) -> None:
    one, many = Matcher(), Matcher()
    many.add_many([str(number) for number in range(len(wheres))], wheres)
    for number, where in enumerate(wheres):
        one.add(str(number), where)
    for event in some:
        expected = {str(n) for n, where in enumerate(wheres) if Filter.parse(where).matches(event)}
        assert many.match(event) == expected
        assert one.match(event) == expected


def test_lists_of_thousands_of_values_are_read_in_bulk() -> None:
    lengths = range(1, 6000, 500)
    words = {length: ", ".join([f"'w{at * 7 % (1000 + length)}'" for at in range(length)]) for length in lengths}
    wheres = [f"a IN ({words[length]}) AND b = {length}" for length in lengths]
    matcher = Matcher()
    matcher.add_many(map(str, range(len(wheres))), wheres)
    filters = list(map(Filter.parse, wheres))
    for event in [{"a": f"w{word}", "b": length} for word in (0, 7, 500, 6001) for length in lengths]:
        assert matcher.match(event) == {str(at) for at, each in enumerate(filters) if each.matches(event)}


def test_texts_are_read_in_parts_of_so_many_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_texts, "_CHUNK_CHARACTERS", 40)
    matcher = Matcher()
    matcher.add_many(map(str, range(50)), [f"a = 'v{number}' AND b > {number}" for number in range(50)])
    assert [len(matcher.match({"a": f"v{number}", "b": 100})) for number in range(50)] == [1] * 50


def test_usual_conditions_are_read_by_the_compiled_reader() -> None:
    read = ["a = 1", "a='it''s' AND b <= 2.5", "a = 'é'", "`a 1` = 5e3 OR c", "a = '\\n'", "a = r'\\d'", "`é 1` = 1"]
    left = ["é = 1", "a = 1 -- 2", "", "a = '\\'", "a = \\n", "a = r'", "a = 9223372036854775807"]
    # As above: the numbers of the skeletons are in no public result.
    skeletons_of_lines = SplitTexts([*read, *left], "UTC")._skeleton_of.tolist()
    assert [number >= 0 for number in skeletons_of_lines] == [True] * len(read) + [False] * len(left)


@given(st.lists(st.text(max_size=3), max_size=20))
def test_equal_pieces_have_equal_numbers(pieces: list[str]) -> None:
    raw = [piece.encode() for piece in pieces]
    ends = np.cumsum([len(each) for each in raw], dtype=np.int32)
    starts = (ends - [len(each) for each in raw]).astype(np.int32)
    numbers, firsts = np.empty(len(raw), np.int64), np.empty((len(raw), 2), np.int32)
    joined = b"".join(raw) + b"\0"
    text = np.frombuffer(joined, np.uint8)
    count = kernels.number_texts(text, starts, ends, kernels.hash_table_for(len(raw)), numbers, firsts)
    distinct = list(dict.fromkeys(pieces))
    assert count == len(distinct)
    assert numbers.tolist() == [distinct.index(piece) for piece in pieces]
    assert [joined[start:end].decode() for start, end in firsts[:count].tolist()] == distinct


USUAL = [
    "a = 'v{0}' AND b = 'w{1}'",
    "a='v{0}' and b=='w{1}'",
    "ip = '10.0.{0}.{1}'",
    "a = '{0}' AND b = 'w{1}'",
    "a = 'v{0}' AND b >= {0} AND b <= {1}",
    "a IN ('v{0}', 'u{1}') AND b > {0}",
    "a NOT IN ('v{0}', 'u{1}') AND b <> {0}",
    "a IN ({0}, -{1}, 7)",
    " OR ".join([f"a = 'v{{0}}{number}'" for number in range(40)]),
    "b < 9 AND (" + " OR ".join([f"a = {{0}}{number}" for number in range(40)]) + ")",
    "a LIKE 'v{0}%' AND b > {1}",
    "a LIKE '%v{0}%' AND b NOT LIKE 'u{1}%'",
    r"a LIKE 'v{0}\\_%' AND b = 'it\'s {1}'",
    r"a RLIKE r'^v{0}\d+' AND `é` > 822337203685477580{1}",
    "a = 'v{0}' OR b > {1}",
    "(a = 'v{0}' AND b > {1}) OR (c = 'w{1}' AND d < {0})",
    "NOT (a = 'v{0}' AND b > {1})",
    "a > DATE'2024-01-{0:02}' AND b = {1}",
    "a BETWEEN TIMESTAMP'2024-01-{0:02} 10:00:00' AND TIMESTAMP'2024-02-{1:02} 10:00:00'",
    "a > {0}.{1} AND b < {1}e{0} AND c <> {0}.5D",
    "a IS NOT NULL AND b = 'w{0}' AND c IS NULL AND d",
    "{0} < a AND 'w{1}' = b",
    "delay BETWEEN {0} AND {1} AND dest IN ('S{0}','OAK') AND carrier LIKE 'U{1}%'",
]


@pytest.mark.parametrize("form", USUAL)
def test_usual_skeletons_need_no_filter(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand conditions of one skeleton the parser sees one."""
    parsed: list[str] = []
    parse = template_cache.make_template
    monkeypatch.setattr(template_cache, "TEMPLATES", TemplateCache())
    monkeypatch.setattr(split_texts, "TEMPLATES", template_cache.TEMPLATES)
    monkeypatch.setattr(template_cache, "make_template", lambda text, *cuts: parsed.append(text) or parse(text, *cuts))
    monkeypatch.setattr(ConditionsBuilder, "add", lambda *_: pytest.fail("a filter was made"))
    wheres = [form.format(number % 28 + 1, number % 9 + 1) for number in range(1_000)]
    matcher = Matcher()
    matcher.add_many(map(str, range(1_000)), wheres)
    assert len(parsed) == 1
    assert len(matcher) == 1_000


@pytest.mark.parametrize("member", ["'v{}'", "{}", "-{}", "{}.5", "1e{}", "DATE '2024-01-{:02}'"])
@pytest.mark.parametrize("form", ["a IN ({})", "a NOT IN ({}) AND b = 1", "b IN (1, 2, -3) AND a IN ({})"])
def test_lists_of_many_lengths_are_parsed_once(form: str, member: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = template_cache.make_template
    monkeypatch.setattr(template_cache, "TEMPLATES", TemplateCache())
    monkeypatch.setattr(split_texts, "TEMPLATES", template_cache.TEMPLATES)
    monkeypatch.setattr(template_cache, "make_template", lambda text, *cuts: parsed.append(text) or parse(text, *cuts))
    monkeypatch.setattr(ConditionsBuilder, "add", lambda *_: pytest.fail("a filter was made"))
    members = [member.format(1 + number % 28) for number in range(60)]
    wheres = [form.format(", ".join(members[: 1 + number % 50])) for number in range(300)]
    matcher = Matcher()
    matcher.add_many(map(str, range(300)), wheres)
    assert len(parsed) == 1


@pytest.mark.parametrize(
    "text", ["true\x01", "nan\x02", "yes\x7f", "Infinity\x00", "\x1f inf", "x\x01", "\ud800", "10.0.3.4"]
)
def test_a_text_is_read_as_all_it_may_be(text: str) -> None:
    where = f"flag = '{text}'"
    values = [True, False, float("nan"), float("inf"), text, text.strip("\x01"), 1]
    one, many = Matcher(), Matcher()
    one.add("before", "flag = 'x'")
    one.add("before that", "flag = 'y'")
    try:
        meant = Filter.parse(where)
    except palio.ParseError:
        with pytest.raises(palio.InvalidSubscription):
            one.add("a", where)
        with pytest.raises(palio.InvalidSubscription):
            many.add_many([f"{number}" for number in range(40)], [where] * 40)
        return
    one.add("a", where)
    many.add_many([f"{number}" for number in range(40)], [where] * 40)
    for value in values:
        expected = meant.matches(palio.Event({"flag": value}))
        assert ("a" in one.match(palio.Event({"flag": value}))) is expected
        assert len(many.match(palio.Event({"flag": value}))) == 40 * expected


NEGATED_PATTERNS = (
    "a NOT LIKE '%v{}%'", "a NOT LIKE 'v{}'", "a NOT LIKE 'v{}%'", "a NOT LIKE '%'", "a NOT ILIKE 'V{}%x'",
    "a NOT RLIKE 'v[{}]'", "NOT contains(a, 'v{}')", "a NOT LIKE '%v{}%' AND b > 1", "NOT (a LIKE '_v{}%')",
)  # fmt: skip


@pytest.mark.parametrize("form", NEGATED_PATTERNS)
def test_patterns_that_must_not_match_mean_what_their_filters_mean(form: str) -> None:
    wheres = {str(number): form.format(number) for number in range(20)}
    values: list[Any] = [None, "", "v3", "xv3", "V3", "xv12y", "v1x", 3, True, date(2024, 1, 1), b"v3"]
    events = [{"a": value, "b": number} for value in values for number in (0, 2)] + [{"b": 2}]
    matcher = Matcher()
    matcher.add_many(list(wheres), list(wheres.values()))
    for event in events:
        assert matcher.match(event) == {id for id, where in wheres.items() if Filter.parse(where).matches(event)}


def test_what_is_too_long_for_the_parser_is_too_long_for_all() -> None:
    where = f"a = '{'x' * 2_000_000}'"
    with pytest.raises(palio.InvalidSubscription, match="2,000,000"):
        Matcher().add("a", where)
    with pytest.raises(palio.InvalidSubscription, match="2,000,000"):
        Matcher().add_many([f"{number}" for number in range(20)], [*["a = 1"] * 19, where])


def test_a_faulty_one_among_many_of_its_skeleton_is_named() -> None:
    wheres = [f"t > DATE'2024-01-{day:02}'" for day in range(1, 40)]
    with pytest.raises(palio.InvalidSubscription, match=r"'31'(.|\n)*is no date"):
        Matcher().add_many(map(str, range(len(wheres))), wheres)
    with pytest.raises(palio.InvalidSubscription, match="no time zone"):
        Matcher().add_subscriptions([Subscription(str(n), f"x = {n}", timezone="Nowhere") for n in range(20)])


def test_every_language_and_zone_may_come_in_one_bulk() -> None:
    some = [Subscription(f"s{n}", f"x = {n}", timezone=ZONES[n % 3]) for n in range(60)]
    some += [Subscription(f"e{n}", {"x": [n]}, "eventbridge") for n in range(3)]
    some += [Subscription(f"f{n}", Filter.parse(f"x > {n + 57}")) for n in range(3)]
    matcher = Matcher()
    matcher.add_subscriptions(some)
    assert matcher.match({"x": 59}) == {"s59", "f0", "f1"}
    assert matcher.match({"x": 2}) == {"s2", "e2"}


@given(
    st.lists(
        st.lists(usual_conditions() | comparisons, min_size=1, max_size=4).map(" AND ".join).filter(is_readable),
        min_size=3,
        max_size=12,
    ),
    st.lists(attributes(), max_size=5),
    st.sampled_from(ZONES),
)
def test_conjunctions_of_many_skeletons_mean_what_their_filters_mean(
    wheres: list[str], some: list[dict[str, Any]], zone: str
) -> None:
    subscriptions = [Subscription(str(at), where, timezone=zone) for at, where in enumerate(wheres)]
    filters = {each.id: each.filter for each in subscriptions}
    matcher = Matcher()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_load, "_MAX_SINGLE_ROWS", 2)
        matcher.add_subscriptions(subscriptions)
    for event in map(Event, some):
        assert matcher.match(event) == {id for id, each in filters.items() if each.matches(event)}


def test_conjunctions_of_many_skeletons_need_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    from palio.workloads import mix

    wheres = mix().subscriptions(400)["where"].to_pylist()
    monkeypatch.setattr(bulk_load, "_MAX_SINGLE_ROWS", 8)
    monkeypatch.setattr(ConditionsBuilder, "add", None)
    matcher = Matcher()
    matcher.add_many([str(at) for at in range(len(wheres))], wheres)
    assert len(matcher) == len(wheres)


@pytest.mark.parametrize("mark", ["\1", "\2", "\3", "\4", "\5"])
def test_names_may_contain_what_stands_for_a_literal(mark: str) -> None:
    name, other = f"level {mark}", "level 3"
    many, one = Matcher(), Matcher()
    texts = [f"`{name}` = {number}" for number in range(12)] + [f"`{other}` = {number}" for number in range(12)]
    many.add_many([str(at) for at in range(24)], texts)
    for at, text in enumerate(texts):
        one.add(str(at), text)
    for matcher in (many, one):
        assert matcher.match({name: 5}) == {"5"}
        assert matcher.match({other: 5}) == {"17"}


small = st.integers(0, 4)
simple = st.builds("{} {} {}".format, st.sampled_from("ab"), st.sampled_from(["=", "<>", "<", ">="]), small)
between = st.builds("{} BETWEEN {} AND {}".format, st.sampled_from("ab"), small, small)
parts = (
    simple | between | st.builds("NOT {}".format, simple | between) | st.builds("({} OR {})".format, simple, between)
)
arrays = st.dictionaries(st.sampled_from("abc"), small | st.lists(small, max_size=3))


@given(st.lists(st.lists(parts, min_size=1, max_size=3).map(" AND ".join), min_size=1, max_size=4), st.lists(arrays))
def test_arrays_mean_the_same_to_the_new_and_to_the_indexed(wheres: list[str], some: list[dict[str, Any]]) -> None:
    new, indexed = Matcher(), Matcher()
    for at, where in enumerate(wheres * 3):  # their skeletons are known from the second on
        new.add(str(at), where)
    indexed.add_many([str(at) for at in range(3 * len(wheres))], wheres * 3)
    for event in map(Event, some):
        expected = {str(at) for at, where in enumerate(wheres * 3) if Filter.parse(where).matches(event)}
        assert new.match(event) == expected
        assert indexed.match(event) == expected


def test_a_live_segment_is_sealed_to_what_its_texts_mean_whatever_the_order_of_conjuncts() -> None:
    forms = (
        "price > {0} AND symbol = 's{1}'",
        "symbol = 's{1}' AND price > {0}",
        "price > -{0} AND size BETWEEN {1} AND {0}",
        "size <> {1} AND symbol IN ('s{1}', 's0') AND day >= DATE '2024-01-0{1}'",
        "symbol LIKE 's{1}%' AND price > {0}.5",
        "price > size + {0}",
        "symbol = 's{1}' OR price < {0}",
    )
    wheres = [
        form.format(20 + number % 40, number % 9 + 1) for number in range(400) for form in forms[number % 7 :][:1]
    ]
    matcher = Matcher(background=False)
    for number, where in enumerate(wheres):
        matcher.add(str(number), where)
    filters = [Filter.parse(where) for where in wheres]
    events = [
        {"price": price, "symbol": f"s{price % 11}", "size": price % 30, "day": date(2024, 1, 1 + price % 12)}
        for price in range(-60, 80, 3)
    ]
    expected = [{str(number) for number, each in enumerate(filters) if each.matches(event)} for event in events]
    assert [matcher.match(event) for event in events] == expected
    found = matcher.match_batch(events)  # which seals
    assert matcher.statistics().live == 0
    by_row: list[set[str]] = [set() for _ in events]
    for row, id in zip(found["row"].to_pylist(), found["subscription"].to_pylist(), strict=True):
        by_row[row].add(id)
    assert by_row == expected

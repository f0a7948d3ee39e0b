"""Elements, keys, parts and conditions on elements, on events without a schema."""

from __future__ import annotations

from typing import Any

import pytest

from palio import Filter, Matcher, ParseError

TRUE: list[tuple[str, dict[str, Any]]] = [
    ("a[0] = 5", {"a": [5, 6]}),
    ("a[2] IS NULL AND get(a, -1) IS NULL AND element_at(a, -1) = 6", {"a": [5, 6]}),
    ("get(a, i) = 6 AND a[i - 1] = 5", {"a": [5, 6], "i": 1}),
    ("a[0] IS NULL", {"a": 5}),
    ("m['k'] = 5 AND element_at(m, 'k') = 5 AND m.k = 5", {"m": {"k": 5}}),
    ("m['a b'].c[1] = 5 AND m['a.b'] = 1", {"m": {"a b": {"c": [1, 5]}, "a.b": 1}}),
    ("items[1].sku = 'b' AND items.sku[0] = 'a'", {"items": [{"sku": "a"}, {"sku": "b"}]}),
    ("a[0][1] IS NULL", {"a": [[5, 6]]}),
    ("map_contains_key(m, 'k') AND NOT map_contains_key(m, 'l')", {"m": {"k": None}}),
    ("exists(a, x -> x > 2) AND NOT exists(a, x -> x > 3)", {"a": [1, 3]}),
    ("exists(a, x -> x > 2) IS NULL AND exists(a, x -> x = 1)", {"a": [1, None]}),
    ("exists(a, x -> x > 2) IS NULL AND exists(b, x -> x > 2) IS NULL", {"a": 3}),
    ("NOT exists(a, x -> x > 2) AND forall(a, x -> x > 2)", {"a": []}),
    ("forall(a, x -> x > 0 AND x < most) AND NOT forall(a, x -> x > 1)", {"a": [1, 2], "most": 3}),
    ("exists(a, `date` -> date LIKE 'b%' AND length(DATE) = 2)", {"a": ["a", "bc"]}),
    ("split(s, ',')[0] = 'a' AND split(s, ',')[2] IS NULL", {"s": "a,b"}),
    ("element_at(split(s, ','), -1) = 'b' AND size(split(s, ',')) = 2", {"s": "a,b"}),
    ("array_contains(split(s, ','), 'b') AND NOT array_contains(split(s, ','), 'c')", {"s": "a,b"}),
    ("split(s, '')[1] = 'b' AND split(s, '', 2)[1] = 'bc' AND size(split(s, 'x*')) = 4", {"s": "abc"}),
    ("split(s, '[0-9]', 2)[1] = 'b2' AND split(s, '[0-9]', 1)[0] = s", {"s": "a1b2"}),
    ("size(split(s, '')) = 1 AND split(s, ',')[0] = ''", {"s": ""}),
    ("v:a.b[1]::int = 2 AND variant_get(v, '$.a.b[0]', 'string') = '1'", {"v": {"a": {"b": [1, "2"]}}}),
    ("from_utc_timestamp(t, 'America/New_York') = TIMESTAMP'2024-03-10 03:30:00Z'", {"t": "2024-03-10 07:30:00Z"}),
    ("to_utc_timestamp('2024-11-03 01:30:00', z) = TIMESTAMP'2024-11-03 05:30:00Z'", {"z": "America/New_York"}),
    ("from_utc_timestamp(t, 'nowhere') IS NULL", {"t": "2024-03-10 07:30:00Z"}),
]


@pytest.mark.parametrize(("condition", "event"), TRUE, ids=[condition for condition, _ in TRUE])
def test_a_condition_is_true_everywhere_and_its_negation_nowhere(condition: str, event: dict[str, Any]) -> None:
    wanted = Filter.parse(condition)
    assert wanted.matches(event)
    assert not (~wanted).matches(event)
    assert Filter.parse(str(wanted)) == wanted
    matcher = Matcher({"yes": condition, "no": f"NOT ({condition})"})
    assert matcher.match(event) == {"yes"}
    found = matcher.match_batch([event, event])
    assert found.column("subscription").to_pylist() == ["yes", "yes"]


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("a[0", "behind an index stands ]"),
        ("upper(a)[0] = 'A'", "elements are those of an attribute"),
        ("get(m, 'k') = 1", "get() takes an array"),
        ("split(s, ',') = 'a'", "split() makes an array"),
        ("split(s, ',')[i] = 'a'", "the index behind split()"),
        ("split(s, t)[0] = 'a'", "the regular expression and what is behind it of split()"),
        ("exists(a, x > 2)", "behind the name of the elements"),
        ("exists(a, x -> exists(b, y -> x = y))", "exists cannot stand within"),
        ("exists(items, i -> i.sku = 'a')", "the elements of exists() and forall() are single values"),
        ("map_contains_key(m, k)", "the key that map_contains_key looks for"),
        ("variant_get(v, 'a', 'int') = 1", "a path begins with $"),
        ("filter(a, x -> x > 2) = 1", "filter() runs a function over an array"),
    ],
)
def test_what_no_event_can_answer_is_refused(condition: str, reason: str) -> None:
    with pytest.raises(ParseError) as error:
        Filter.parse(condition)
    assert error.value.reason.startswith(reason)

"""Random patterns and random events, of few names and values, so that they meet."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "c", "e f", "$x", "`"])
TEXTS = st.one_of(
    st.sampled_from(["", "a", "A", "ab", "aB", "abc", "b", "*", "\\", "%", "_", "é", "É", "ß", "SS", "σ", "1", "true"]),
    st.text(st.sampled_from('abAB*\\%_.é"'), max_size=5),
)
ADDRESSES = st.sampled_from(["10.0.0.1", "10.1.2.3", "11.0.0.1", "2001:db8::1", "2001:db9::", "::1", "10.0.0"])
NETWORKS = st.sampled_from(["10.0.0.0/8", "10.0.0.0/24", "0.0.0.0/0", "10.1.2.3/31", "2001:db8::/32", "::/1"])
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, -0.5, 1.0, 2.5, 1e-6, 300, 300.0, 3e2, 5_000_000_000, -5e9, 0.1, 0.30000000000000004]),
)
ANY_NUMBER = st.one_of(NUMBERS, st.sampled_from([2**53 + 1, 2**63, 123456789012, 1e300, -1e300, 5e-324]))
SCALARS = st.one_of(st.none(), st.booleans(), TEXTS, ADDRESSES, ANY_NUMBER)


@st.composite
def wildcards(draw: st.DrawFn) -> str:
    """A text with a few `*`, no two side by side, and everything else that needs it behind a backslash."""
    parts = draw(st.lists(TEXTS, min_size=1, max_size=3))
    return "*".join(part.replace("\\", "\\\\").replace("*", "\\*") or "x" for part in parts)


def ranges() -> st.SearchStrategy[list[Any]]:
    single = st.tuples(st.sampled_from(["=", "<", "<=", ">", ">="]), NUMBERS).map(list)
    bounds = st.lists(NUMBERS, min_size=2, max_size=2, unique_by=float).map(lambda pair: sorted(pair, key=float))
    double = st.tuples(st.sampled_from([">", ">="]), st.sampled_from(["<", "<="]), bounds).map(
        lambda drawn: [drawn[0], drawn[2][0], drawn[1], drawn[2][1]]
    )
    return st.one_of(single, double)


def tests() -> st.SearchStrategy[dict[str, Any]]:
    """One test of a value, of every sort."""
    some_texts = st.one_of(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
    parts = TEXTS.filter(bool)
    some_parts = st.one_of(parts, st.lists(parts, min_size=1, max_size=3))
    ignoring_case = st.fixed_dictionaries({"equals-ignore-case": TEXTS})
    excluded = st.one_of(
        some_texts,
        NUMBERS,
        st.lists(NUMBERS, min_size=1, max_size=3),
        st.fixed_dictionaries({"prefix": some_parts}),
        st.fixed_dictionaries({"suffix": some_parts}),
        st.fixed_dictionaries({"equals-ignore-case": some_texts}),
        st.fixed_dictionaries({"wildcard": st.one_of(wildcards(), st.lists(wildcards(), min_size=1, max_size=2))}),
    )
    operands = {
        "exactly": TEXTS,
        "prefix": st.one_of(TEXTS, ignoring_case),
        "suffix": st.one_of(TEXTS, ignoring_case),
        "equals-ignore-case": TEXTS,
        "wildcard": wildcards(),
        "anything-but": excluded,
        "numeric": ranges(),
        "cidr": NETWORKS,
        "exists": st.booleans(),
    }
    return st.one_of(*(st.fixed_dictionaries({name: operand}) for name, operand in operands.items()))


LISTS = st.lists(st.one_of(SCALARS, tests()), min_size=1, max_size=3)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    fields = st.dictionaries(NAMES, st.one_of(LISTS, inner), min_size=1, max_size=3)
    choices = st.fixed_dictionaries({"$or": st.lists(st.one_of(fields, inner), min_size=2, max_size=3)})
    mixed = st.tuples(fields, choices, st.booleans()).map(
        lambda drawn: {**drawn[0], **drawn[1]} if drawn[2] else {**drawn[1], **drawn[0]}
    )
    return st.one_of(fields, mixed, choices)


def patterns() -> st.SearchStrategy[dict[str, Any]]:
    """A valid pattern: fields, nested objects and `$or` at any level, fields named twice among them."""
    fields = st.dictionaries(NAMES, LISTS, min_size=1, max_size=3)
    return _objects(st.recursive(fields, _objects, max_leaves=4)).filter(lambda made: len(json.dumps(made)) < 4_000)


def events(names: st.SearchStrategy[str] = NAMES) -> st.SearchStrategy[dict[str, Any]]:
    """An event with objects and arrays in each other."""
    values = st.recursive(
        SCALARS,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
        max_leaves=8,
    )
    return st.dictionaries(names, values, max_size=4)


def scalar_events() -> st.SearchStrategy[dict[str, Any]]:
    """An event without arrays."""
    values = st.recursive(SCALARS, lambda inner: st.dictionaries(NAMES, inner, max_size=3), max_leaves=6)
    return st.dictionaries(NAMES, values, max_size=4)

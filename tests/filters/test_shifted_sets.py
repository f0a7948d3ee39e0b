"""Sets shifted in closed form: what the search over all values of a kind finds, wherever the closed form applies."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters import rewriting
from palio.filters.expressions.ast import Attribute, Call, Literal
from palio.filters.rewriting import canonical_range
from palio.languages.sql.parser import parse_condition

_numbers = st.one_of(
    st.integers(-20, 20).map(str),
    st.integers(0, 10**18).map(str),
    st.decimals(-1000, 1000, places=3).map(lambda number: f"{number:f}"),
    st.decimals(-(10**9), 10**9, places=9).map(lambda number: f"{number:f}"),
    st.sampled_from(
        ["0.1", "0.10", "999.999", "1000", "0.000000000000000000001", "123456789012345.678", "9.99", "1e3"]
    ),
)
_forms = st.sampled_from(
    [
        *["abs(x - {k}) < {c}", "abs({k} + x) <= {c}", "x - {k} BETWEEN {c} AND {d}", "x + {k} = {c}"],
        *["x + {k} IN ({c}, {d})", "abs(x + {k} - {d}) <= {c}", "round(x - {k}) = {c}", "{k} - x BETWEEN {c} AND {d}"],
    ]
)


def by_search(text: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(rewriting, "shifted", lambda values, by: None)
        rewriting._pull_back.cache_clear()
        found = canonical_range(parse_condition(text), True, "UTC")
    rewriting._pull_back.cache_clear()
    return found


@given(_forms, _numbers, _numbers, _numbers)
def test_the_search_finds_the_same(form: str, k: str, c: str, d: str) -> None:
    text = form.format(k=k, c=c, d=d)
    with pytest.MonkeyPatch.context() as patch:
        expected = by_search(text, patch)
    assert canonical_range(parse_condition(text), True, "UTC") == expected


@pytest.mark.parametrize("constant", [5, Decimal("5.06")])
def test_a_bounded_set_is_shifted_without_a_search(constant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("searched")

    inside = canonical_range(Call("<", (Call("abs", (Attribute("x"),)), Literal(Decimal("0.03")))), True, "UTC")
    assert inside is not None
    monkeypatch.setattr(rewriting, "preimage_of_kind", refuse)
    rewriting._pull_back.cache_clear()
    found = rewriting.preimage(Call("-", (Attribute("x"), Literal(constant))), inside[1], "UTC")
    assert found is not None
    for number in (constant, float(constant), constant + Decimal("0.029")):
        assert found[1].contains(number)
    assert not found[1].contains(constant + Decimal("0.03"))
    assert not found[1].contains(0)

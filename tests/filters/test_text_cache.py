"""Results by texts: remembered, forgotten by characters, and never an error remembered."""

from __future__ import annotations

import gc
import weakref

import pytest

from palio.filters import text_cache
from palio.filters.filter import Filter
from palio.filters.text_cache import MAX_LONG_CHARACTERS, MAX_SHORT_CHARACTERS, TextCache


class Counted:
    """A function that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, text: str, more: str = "") -> list[str]:
        self.calls += 1
        if text == "wrong":
            raise ValueError(text)
        return [text, more]


@pytest.fixture
def function() -> Counted:
    return Counted()


@pytest.mark.parametrize("length", [1, MAX_SHORT_CHARACTERS, MAX_SHORT_CHARACTERS + 1, MAX_LONG_CHARACTERS])
def test_a_text_is_looked_at_once(function: Counted, length: int) -> None:
    cached = TextCache(function)
    assert cached("x" * length) is cached("x" * length)
    assert function.calls == 1
    cached.cache_clear()
    assert cached("x" * length) == ["x" * length, ""]
    assert function.calls == 2


def test_all_arguments_count(function: Counted) -> None:
    cached = TextCache(function)
    assert cached("x", "y" * 1_000)[1] != cached("x", "z" * 1_000)[1]


def test_errors_are_not_remembered(function: Counted) -> None:
    cached = TextCache(function)
    for _ in range(2):
        with pytest.raises(ValueError, match="wrong"):
            cached("wrong")
    assert function.calls == 2


def test_long_texts_share_a_budget_and_the_least_recently_used_goes(
    function: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_cache, "MAX_LONG_CHARACTERS", 2_000)
    cached = TextCache(function)
    a, b, c = ("a" * 900, "b" * 900, "c" * 900)
    kept = cached(a)
    cached(b)
    assert cached(a) is kept
    cached(c)  # in the place of b
    assert cached(a) is kept
    assert function.calls == 3
    cached(b)
    assert function.calls == 4
    cached("d" * 3_000)  # larger than the budget: it takes nobody's place
    cached(b)
    assert function.calls == 5


def test_many_long_conditions_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter of a long condition is released when later ones have used up the budget."""
    monkeypatch.setattr(text_cache, "MAX_LONG_CHARACTERS", 10_000)
    first, *others = (" OR ".join(f"a{at} LIKE '%{n}%'" for at in range(300)) for n in range(4))
    made = weakref.ref(Filter.parse(first).tree)
    for text in others:
        Filter.parse(text)
    gc.collect()
    assert made() is None

"""Is what is remembered of tuples theirs alone, and bounded?"""

from __future__ import annotations

import pytest

from palio.routing import recurring
from palio.routing.recurring import Recurring


def test_findings_are_of_the_same_object_and_no_equal_one() -> None:
    found: Recurring[tuple[int, ...], str] = Recurring()
    keys = [tuple(range(2)) for _ in range(100)]
    for number, key in enumerate(keys):
        found.put(key, str(number))
    assert [found.get(key) for key in keys] == list(map(str, range(100)))
    assert found.get(tuple(range(2))) is None


def test_all_is_forgotten_before_it_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurring, "MOST_ITEMS", 100)
    found: Recurring[tuple[int, ...], int] = Recurring()
    keys = [(number,) * 12 for number in range(20)]
    known = []
    for number, key in enumerate(keys):
        found.put(key, number)
        known.append(sum(found.get(each) is not None for each in keys))
    assert max(known) == 5
    assert found.get(keys[-1]) == 19

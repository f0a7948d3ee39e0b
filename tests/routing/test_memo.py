"""Memo by identity: no other tuple gets a result, and it is bounded."""

from __future__ import annotations

import pytest

from palio.routing import memo
from palio.routing.memo import IdentityMemo


def test_findings_are_of_the_same_object_and_no_equal_one() -> None:
    found: IdentityMemo[tuple[int, ...], str] = IdentityMemo()
    keys = [tuple(range(2)) for _ in range(100)]
    for number, key in enumerate(keys):
        found.put(key, str(number))
    assert [found.get(key) for key in keys] == list(map(str, range(100)))
    assert found.get(tuple(range(2))) is None


def test_all_is_forgotten_before_it_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "MAX_ITEMS", 100)
    found: IdentityMemo[tuple[int, ...], int] = IdentityMemo()
    keys = [(number,) * 12 for number in range(20)]
    known = []
    for number, key in enumerate(keys):
        found.put(key, number)
        known.append(sum(found.get(each) is not None for each in keys))
    assert max(known) == 5
    assert found.get(keys[-1]) == 19

"""The benchmark of upkeep: a row for each way to keep tables true."""

from __future__ import annotations

import upkeep


def test_every_upkeep_is_right_again_after_a_crash() -> None:
    rows = [upkeep.measure(name, choices, 7, 10) for name, choices in upkeep.UPKEEP]
    assert all(row.right_after_crash is not None for row in rows)
    assert [row.upkeep for row in rows if row.idle_messages_per_minute] == ["leases", "stabilising"]
    assert [row.upkeep for row in rows if row.right_after_corruption is not None] == ["stabilising"]

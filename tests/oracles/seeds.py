"""Seeds of random tables and conditions, and the replay of one seed."""

from __future__ import annotations

import os

_VARIABLE = "PALIO_ORACLE_SEEDS"


def seeds(first: int, count: int) -> list[int]:
    """Seeds for a test; the variable PALIO_ORACLE_SEEDS replaces them: one number, or FIRST-LAST."""
    wanted = os.environ.get(_VARIABLE)
    if not wanted:
        return list(range(first, first + count))
    low, _, high = wanted.partition("-")
    return list(range(int(low), int(high or low) + 1))


def replay(seed: int, test: str) -> str:
    """The command that runs one test again with one seed."""
    return f"{_VARIABLE}={seed} python -m pytest -m '' '{test}'"

"""Tests of heavy input: a megabyte of condition, deep nesting, catastrophic patterns, all within bounds."""

from __future__ import annotations

import pytest

from tests.fuzz.bounded import run_bounded
from tests.fuzz.heavy_cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_what_is_made_to_exhaust_a_machine_does_not(name: str) -> None:
    run_bounded("tests.fuzz.heavy_cases", name)

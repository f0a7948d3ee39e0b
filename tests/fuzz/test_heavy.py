"""A megabyte of condition, ten thousand brackets, a catastrophic pattern: an answer or a PalioError, in bounds."""

from __future__ import annotations

import pytest

from tests.fuzz.bounded import run_bounded
from tests.fuzz.heavy_cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_what_is_made_to_exhaust_a_machine_does_not(name: str) -> None:
    run_bounded("tests.fuzz.heavy_cases", name)

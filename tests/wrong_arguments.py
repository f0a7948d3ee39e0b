"""Wrong arguments of public calls: each gets a result or a `PalioError`, never an error of Python's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from palio import PalioError

WRONG: list[Any] = [None, -1, 1.5, b"x", [1], object(), "\ud800", "nonsense", {}, {1: 2}, (), True, float("nan")]


def check(call: Callable[..., Any], **right: Any) -> None:
    """Every wrong value for every argument."""
    for name in right:
        for wrong in WRONG:
            try:
                call(**{**right, name: wrong})
            except PalioError as error:
                assert str(error)
            except Exception as error:
                pytest.fail(f"{name}={wrong!r}: {type(error).__name__}: {error}")

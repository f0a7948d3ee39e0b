"""Value tests of one path, grouped so that a value finds those it passes without asking each.

An equality is found in a dictionary, a comparison of order in a sorted list: the tests that a number passes are those
before or behind its place. What is left, `contains`, `starts-with` and `!=`, is asked one by one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from math import isnan

from palio.xml.pattern import ValueTest
from palio.xml.value_tests import passes, xpath_number


class ValueGroup:
    """Units with tests of the value of one node."""

    def __init__(self) -> None:
        self._by_text: dict[str, list[tuple[int, tuple[ValueTest, ...]]]] = {}
        self._by_number: dict[float, list[tuple[int, tuple[ValueTest, ...]]]] = {}
        self._ordered: dict[str, list[tuple[float, int]]] = {}
        self._others: list[tuple[int, tuple[ValueTest, ...]]] = []

    def add(self, unit: int, tests: tuple[ValueTest, ...]) -> None:
        """Add a unit with tests that must all be passed."""
        for test in tests:
            if test.operator == "=":
                rest = tuple(each for each in tests if each is not test)
                if isinstance(test.constant, float):
                    self._by_number.setdefault(test.constant, []).append((unit, rest))
                else:
                    self._by_text.setdefault(test.constant, []).append((unit, rest))
                return
        [test, *more] = tests
        if not more and test.operator[0] in "<>" and isinstance(test.constant, float):
            insort(self._ordered.setdefault(test.operator, []), (test.constant, unit))
        else:
            self._others.append((unit, tests))

    def units_passed(self, text: str) -> Iterator[int]:
        """The units whose tests a value passes, each once."""
        for unit, rest in self._by_text.get(text, ()):
            if all(passes(test, text) for test in rest):
                yield unit
        if self._by_number or self._ordered:
            number = xpath_number(text)
            if not isnan(number):
                yield from self._units_of_number(number, text)
        for unit, tests in self._others:
            if all(passes(test, text) for test in tests):
                yield unit

    def _units_of_number(self, number: float, text: str) -> Iterator[int]:
        for unit, rest in self._by_number.get(number, ()):
            if all(passes(test, text) for test in rest):
                yield unit
        for operator, constants in self._ordered.items():
            match operator:
                case ">":
                    passed = constants[: bisect_left(constants, (number, -1))]
                case ">=":
                    passed = constants[: bisect_right(constants, (number, _AFTER_ALL_UNITS))]
                case "<":
                    passed = constants[bisect_right(constants, (number, _AFTER_ALL_UNITS)) :]
                case _:
                    passed = constants[bisect_left(constants, (number, -1)) :]
            yield from [unit for _, unit in passed]


_AFTER_ALL_UNITS = 2**62

"""Codes of single events: the axes and slots that what one event says stands at.

Of an array any one element may be chosen, and of an array of objects any one object, whose values are chosen together.
Every choice is an event of its own, and what any of them matches, the event does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import product
from math import prod
from typing import Any

from palio.errors import PalioError
from palio.events.nested_content import Group, values_within
from palio.filters.array_choice import MAX_CHOICES
from palio.filters.tree import Attributes
from palio.matching.columnar.event_computer import Coder


class CannotEncode(PalioError):
    """The index cannot encode an event: the caller evaluates the filters one by one.

    Its arrays allow more choices than are laid out, or it has a decimal where two constants that differ only beyond
    a double's precision leave no order that is right for doubles and decimals alike.
    """


class EventCodes:
    """The codes of events, given the coders of attributes, and the codes of tests that a missing attribute passes."""

    def __init__(self, coders: Mapping[str, Coder], when_missing: Mapping[str, tuple[int, ...]]) -> None:
        self._coders = coders
        self._when_missing = when_missing

    def of(self, attributes: Attributes, groups: Sequence[Group]) -> tuple[list[int], list[list[tuple[int, ...]]]]:
        """The codes of what an event says, or an object in it, and of all that one of several may be chosen from."""
        codes: list[int] = []
        several: list[list[tuple[int, ...]]] = []
        coders = self._coders
        for name, value in attributes.items():
            found = coders.get(name)
            if found is None:
                continue
            if type(value) is tuple:
                if value:
                    several.append(_distinct(element_codes(found, element) for element in value))
                else:  # no element to choose: the attribute is missing
                    codes.extend(self._when_missing.get(name, ()))
                continue
            coder, tests = found
            if coder is not None:
                code = coder(value)
                if code >= 0:
                    codes.append(code)
            if tests is not None:
                codes.extend(tests.codes(value))  # type: ignore[arg-type]
        several += [self._of_objects(group, attributes) for group in groups]
        return codes, several

    def _of_objects(self, group: Group, beside: Attributes) -> list[tuple[int, ...]]:
        """The codes of each object of an array, in each of its own choices; what an object lacks is missing."""
        names = {name for name, _ in values_within((group,)) if name in self._coders}
        if not names.isdisjoint(beside):
            raise CannotEncode  # a value beside an object may be chosen in place of its own
        tested = names & self._when_missing.keys()
        found: dict[tuple[int, ...], None] = {}
        for element in group.elements:
            lacking = tested - dict(values_within((Group(group.path, (element,)),))).keys() if tested else ()
            missed = [code for name in lacking for code in self._when_missing[name]]
            codes, several = self.of(*element)
            found |= dict.fromkeys(tuple(sorted(chosen)) for chosen in choices(codes + missed, several))
            if len(found) > MAX_CHOICES:
                raise CannotEncode
        return list(found)


def has_fraction(value: Any) -> bool:
    return isinstance(value, Decimal | float) or (isinstance(value, tuple) and any(map(has_fraction, value)))


def element_codes(found: Coder, element: Any) -> tuple[int, ...]:
    coder, tests = found
    code = -1 if coder is None else coder(element)
    own = (code,) if code >= 0 else ()
    return own if tests is None else own + tests.codes(element)


def choices(codes: list[int], several: Sequence[Sequence[tuple[int, ...]]]) -> Iterator[list[int]]:
    """Every choice of one element per array is an event of its own; what any of them matches, the event does."""
    if prod(map(len, several)) > MAX_CHOICES:
        raise CannotEncode
    for chosen in product(*several):
        yield codes + [code for element in chosen for code in element]


def distinct_elements(array: tuple[Any, ...]) -> list[Any]:
    """Each element once; equal ones that a computation may tell apart, 1.0 and 1.00, both stay."""
    return list({(type(each), repr(each)): each for each in array}.values())


def _distinct(alternatives: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return list(dict.fromkeys(alternatives))

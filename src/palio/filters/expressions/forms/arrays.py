"""Arrays: whether some element is a value, one element, how many there are."""

from __future__ import annotations

from typing import Final

from palio.events.values import Scalar
from palio.filters.expressions.comparison import among
from palio.filters.expressions.compiler import Compiled, Compiler, Form, Part, strict_of_one, strict_of_two
from palio.filters.expressions.functions import FUNCTIONS
from palio.filters.expressions.tree import Array, Attribute, Call, Expression


def _array_contains(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    zone = compiler.zone
    return strict_of_two(lambda array, value: among(value, array, zone), _whole(call.arguments[0]), parts[1].run)


def _element_at(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    index = compiler.argument(parts[1], FUNCTIONS["element_at"].parameter(1))
    return strict_of_two(_element, _whole(call.arguments[0]), index)


def _element(array: tuple[Scalar, ...], place: int) -> Scalar:
    """An element by its place from 1, or from the end; NULL where there is none."""
    if not 1 <= abs(place) <= len(array):
        return None
    return array[place - 1 if place > 0 else place]


def _size(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    return strict_of_one(len, _whole(call.arguments[0]))


def _whole(argument: Expression) -> Compiled:
    """All the values of an attribute."""
    name = argument.name if isinstance(argument, Array | Attribute) else ""
    return lambda event, arrays: arrays.get(name)


FORMS: Final[dict[str, Form]] = {
    "array_contains": _array_contains,
    "element_at": _element_at,
    "size": _size,
}

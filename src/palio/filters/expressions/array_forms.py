"""Functions of whole arrays: membership, size, elements, and conditions on all elements.

Arrays are attributes; `split` has functions of its own, because its parts are no attribute. The element that a
condition of `exists` or `forall` is tested on stands among the values of the event, under a name that no attribute has.
"""

from __future__ import annotations

from typing import Final

from palio.events.names import enclosing_paths
from palio.events.values import Scalar
from palio.filters.expressions.ast import Array, Attribute, Call, Expression, Literal, walk
from palio.filters.expressions.coercion import Arrays, Scalars, Value
from palio.filters.expressions.compiler import Compiled, CompiledOperand, Compiler, Form, strict_of_one, strict_of_two
from palio.filters.expressions.functions import INTEGER
from palio.filters.expressions.value_comparison import among
from palio.filters.work_limit import ELEMENT_STEPS, exceeds_limit

_VARIABLE_MARK: Final = "\0"  # no attribute of an event begins with it


def _array_contains(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    zone = compiler.zone
    return strict_of_two(lambda array, value: among(value, array, zone), _whole(call.arguments[0]), parts[1].run)


def _element_at(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    return strict_of_two(_element, _whole(call.arguments[0]), compiler.argument(parts[1], INTEGER))


def _element(array: tuple[Scalar, ...], place: int) -> Scalar:
    """An element by its place from 1, or from the end; NULL where there is none."""
    if not 1 <= abs(place) <= len(array):
        return None
    return array[place - 1 if place > 0 else place]


def _get(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    return strict_of_two(
        lambda array, index: array[index] if 0 <= index < len(array) else None,
        _whole(call.arguments[0]),
        compiler.argument(parts[1], INTEGER),
    )


def _size(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    return strict_of_one(len, _whole(call.arguments[0]))


def _whole(argument: Expression) -> Compiled:
    """All the values of an attribute; NULL where it is missing or no array, and for an element, which is none.

    Where an array around it holds no object, because it is empty or has only NULLs, the values are an empty array.
    """
    if not isinstance(argument, Array | Attribute):
        return lambda event, arrays: None
    name = argument.name
    around = enclosing_paths(name)
    if not around:
        return lambda event, arrays: arrays.get(name)

    def whole(event: Scalars, arrays: Arrays) -> Value:
        found = arrays.get(name)
        if found is None and name not in event:
            for path in around:
                if path in arrays and all(element is None for element in arrays[path]):
                    return ()
        return found

    return whole


def _of_elements(decisive: bool) -> Form:
    """A condition on all elements: `decisive` is the outcome of one that settles it, TRUE for exists()."""
    neutral = not decisive

    def form(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
        array, condition = _whole(call.arguments[0]), parts[1].run
        match call.arguments[1]:
            case Call("lambda", (Literal(str() as name), body)):
                variable = _VARIABLE_MARK + name
                read = [node.name for node in walk(body) if isinstance(node, Attribute)]
            case _:
                raise ValueError(f"{call.function} has no condition")

        def run(event: Scalars, arrays: Arrays) -> Value:
            elements = array(event, arrays)
            if not isinstance(elements, tuple):
                return None
            if exceeds_limit(ELEMENT_STEPS * len(elements), f"{call.function}()"):
                return None
            values = {name: event[name] for name in read if name in event}
            outcome: bool | None = neutral
            for element in elements:
                values[variable] = element
                value = condition(values, arrays)
                if value is decisive:
                    return decisive
                if value is not neutral:
                    outcome = None
            return outcome

        return run

    return form


def _lambda(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    return compiler.truth(parts[1])


def _variable(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    name = _VARIABLE_MARK + str(parts[0].value)
    return lambda event, arrays: event.get(name)


ARRAY_FORMS: Final[dict[str, Form]] = {
    "array_contains": _array_contains,
    "element_at": _element_at,
    "get": _get,
    "size": _size,
    "exists": _of_elements(decisive=True),
    "forall": _of_elements(decisive=False),
    "lambda": _lambda,
    "variable": _variable,
}

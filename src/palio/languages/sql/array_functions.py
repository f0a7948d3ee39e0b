"""Elements, keys and functions of arrays in SQL, and the calls they become.

A key of an object is part of an attribute's name: `m['k']`, `element_at(m, 'k')` and `m.k` are one attribute. An event
has no arrays of arrays, so an index applies to the only array on a path: `items[0].sku` has the value of
`items.sku[0]`, also in Spark, where the outermost array takes the index. In the tree it is `get(items.sku, 0, 1)`; the
1 tells how many members stand behind the index, which only a VARIANT, whose arrays no schema tells, needs to know.

`split` makes an array that is no attribute. What conditions ask of it (a part, how many, whether one is among them) are
functions of the text, which an index computes like all others: `split_element`, `split_size`, `split_contains`.

The condition of `exists(a, x -> x > 2)` is `lambda('x', …)`, in which `variable('x', a)` stands for the element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from palio.events.names import quote_segment, split_path
from palio.filters.expressions.ast import Array, Attribute, Call, Expression, Literal, Span
from palio.filters.expressions.json_functions import parse_path
from palio.languages.grammar import InvalidLiteral
from palio.languages.sql.json_schema import field_of
from palio.languages.sql.type_names import type_named

_ELEMENTS: Final = ("get", "element_at")
_EVERY_PART: Final = Literal(-1)  # the limit of a split that has none
_MAX_PLACE: Final = 2**31 - 1


def element_of(container: Expression, index: Expression, span: Span, function: str = "get") -> Expression:
    """The element of an array at an index, from 0 (`get`) or from 1 (`element_at`), or the value of an object's key."""
    match container, index:
        case Call("split", arguments), Literal(int() as place) if not isinstance(place, bool):
            if function == "get":
                place = place + 1 if place >= 0 else 0
            return Call("split_element", (*arguments, Literal(place if abs(place) <= _MAX_PLACE else 0)), span)
        case Call("split", _), _:
            raise InvalidLiteral("the index behind split() must be a whole number", "write split_part(x, ',', n)")
        case Call("from_json"), Literal(int()):
            raise InvalidLiteral("from_json() has fields here, no elements", "write get_json_object(x, '$.a[0]')")
        case _, Literal(str() as key):
            return member_of(container, key, span)
    return Call(function, (_as_array(container), index), span)


def member_of(container: Expression, name: str, span: Span) -> Expression:
    """A member of an object by its name or key; of an element of an array, the element of the members' array."""
    match container:
        case Call("from_json"):
            return field_of(container, name, span)
        case Attribute(path):
            return Attribute(f"{path}.{quote_segment(name)}", span)
        case Array(path):
            return Array(f"{path}.{quote_segment(name)}", span)
        case Call(function, (array, index, *behind)) if function in _ELEMENTS:
            members = Literal(_members_behind(behind) + 1)
            return Call(function, (member_of(array, name, array.span), index, members), span)
    raise InvalidLiteral("only an attribute has members", "write x.key, x['key'] or x[0].key")


def _members_behind(given: Sequence[Expression]) -> int:
    match given:
        case [Literal(int() as count)]:
            return count
    return 0


def _as_array(container: Expression) -> Expression:
    match container:
        case Attribute(name, span):
            return Array(name, span)
        case Call(function, _) if function in _ELEMENTS:
            return container
    raise InvalidLiteral("elements are those of an attribute or of split()", "write x[0], or split(x, ',')[0]")


def named_array(function: str, argument: Expression) -> Array:
    """The array that is the first argument of a function."""
    if not isinstance(argument, Attribute):
        raise InvalidLiteral(f"the first argument of {function} is the name of an attribute")
    return Array(argument.name, argument.span)


def higher_order_call(function: str, array: Array, variable: str, condition: Expression, span: Span) -> Call:
    """exists() or forall(): a condition on the elements of an array, under the name that it has for them."""
    return Call(function, (array, Call("lambda", (Literal(variable), condition), condition.span)), span)


def element_at(arguments: tuple[Expression, ...], span: Span) -> Expression:
    container, index = arguments
    return element_of(container, index, span, "element_at")


def get(arguments: tuple[Expression, ...], span: Span) -> Expression:
    container, index = arguments
    if isinstance(index, Literal) and isinstance(index.value, str):
        raise InvalidLiteral("get() takes an array and an index from 0", "a key is asked for with x['key']")
    return element_of(container, index, span)


def size(arguments: tuple[Expression, ...], span: Span) -> Expression:
    match arguments[0]:
        case Call("split", given):
            return Call("split_size", given, span)
    return Call("size", (named_array("size", arguments[0]),), span)


def array_contains(arguments: tuple[Expression, ...], span: Span) -> Expression:
    match arguments:
        case (Call("split", given), Literal(str()) as part):
            return Call("split_contains", (*given, part), span)
        case (Call("split", _), _):
            raise InvalidLiteral("what is looked for in split() must be a string literal", "write 'a'")
    return Call("array_contains", (named_array("array_contains", arguments[0]), arguments[1]), span)


def map_contains_key(arguments: tuple[Expression, ...], span: Span) -> Expression:
    """Whether an object has a key: whether the event has that attribute, be it null."""
    match arguments:
        case (Attribute() as map, Literal(str() | int() as key)) if not isinstance(key, bool):
            return Call("<>", (Call("typeof", (member_of(map, str(key), span),), span), Literal("missing", span)), span)
        case (Attribute(), _):
            raise InvalidLiteral("the key that map_contains_key looks for must be a literal", "write 'key'")
    raise InvalidLiteral("the first argument of map_contains_key is the name of an attribute")


def split(arguments: tuple[Expression, ...], span: Span) -> Expression:
    return Call("split", (*arguments, _EVERY_PART) if len(arguments) == 2 else arguments, span)


def variant_get(arguments: tuple[Expression, ...], span: Span) -> Expression:
    """variant_get(v, '$.a.b', 'int'): the value at a path, as a type."""
    match arguments:
        case (container, Literal(str() as path), Literal(str() as name)):
            return Call("cast", (variant_path(container, path, span), Literal(type_named(name), span)), span)
    raise InvalidLiteral("variant_get takes a path and the name of a type, both as string literals")


def variant_path(container: Expression, path: str, span: Span) -> Expression:
    """The expression of a path such as `$.a.b[0]` into an attribute."""
    try:
        steps = parse_path(path)
    except ValueError as error:
        raise InvalidLiteral(str(error)) from None
    for step in steps:
        container = (
            member_of(container, step, span) if isinstance(step, str) else element_of(container, Literal(step), span)
        )
    return container


def variable_in(variables: dict[str, Array], path: str, span: Span) -> Call | None:
    """The variable of an enclosing lambda function that a name means; Spark finds it without regard to case."""
    name, *members = split_path(path)
    array = variables.get(name.lower())
    if array is None:
        return None
    if members:
        raise InvalidLiteral(
            "the elements of exists() and forall() are single values",
            f"conditions on members hold for one object without exists(): {array.name}.{members[0]} = 1 AND …",
        )
    return Call("variable", (Literal(name.lower()), array), span)

"""Elements and keys of typed columns as attributes: `a[0]`, `m['k']`, `v:path::int`.

Events without a schema are flat: their nested arrays are one array, and an object has members but no keys. A column has
a type that tells more, so that what a condition asks of it can be what Spark means. Each such part of a condition
becomes an attribute that the projection fills, like the cast attributes of `implicit_casts`:

- `s.a[0].b`, `get(a, 0)`, `element_at(a, -1)`: `` s.a.`b AS ELEMENT_1` ``, with the places of one element in each array
  on the path, from 1. A number beside a map is a key, and becomes a part of the path;
- `size(m)` and `map_contains_key(m, 'k')` of a map: `` `m AS KEYS` ``, the array of its keys;
- `v:a.b::int`, `variant_get(v, '$.a.b', 'int')`, `CAST(v AS INT)`: `` v.`$.a.b AS INT` ``.

Rejected: to let Spark compute whole conditions such as `exists(a, x -> 10 / x > y)`. Where they raise they would end
the job, and every literal would be a column of its own; those are evaluated on the arrays, by the element's type.

An index that is computed (`a[i]`) is looked up when the condition is evaluated, in the values of the whole array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql.types import ArrayType, DataType, IntegralType, MapType, VariantType

from palio.events.names import join_path, split_path
from palio.filters.expressions.ast import Array, Attribute, Call, Expression, Literal, bottom_up
from palio.spark.attributes import KEYS_TARGET, AttributeResolver, Path, cast_name, element_target

_ELEMENTS: Final = ("get", "element_at")
_MAX_INDEX: Final = 2**31 - 1


class ElementAttributes:
    """Replaces elements and keys in conditions on columns of known types."""

    def __init__(self, resolver: AttributeResolver[Any]) -> None:
        self._resolver = resolver

    def replace_in(self, expression: Expression) -> Expression:
        """The expression with attributes in place of elements and keys; the same object where it has none."""
        made: dict[int, Expression] = {}
        for call in bottom_up(expression):
            arguments = tuple(made.get(id(each), each) for each in call.arguments)
            is_same = all(new is old for new, old in zip(arguments, call.arguments, strict=True))
            # The original call: an element within an element is replaced with it.
            replaced = self._replacement(call)
            made[id(call)] = replaced or (call if is_same else Call(call.function, arguments, call.span))
        return made.get(id(expression), expression)

    def conflict_in(self, expression: Expression) -> tuple[Expression, str] | None:
        """An element that is left in an expression though no array has it, and the reason; None without."""
        for call in bottom_up(expression):
            if call.function in _ELEMENTS and isinstance(array := call.arguments[0], Array):
                kind = self._type_at(split_path(array.name))
                if kind is not None and not isinstance(kind, ArrayType):
                    has_keys = isinstance(kind, MapType)
                    return call, "the key of a map must be a literal" if has_keys else "only an array has elements"
        return None

    def _replacement(self, call: Call) -> Expression | None:
        match call:
            case Call("get" | "element_at"):
                return self._element(call)
            case Call("cast", (value, Literal(str() as target))):
                return self._variant(value, target, call)
            case Call("size", (Array(name),)) if self._is_map(split_path(name)):
                return Call("size", (Array(cast_name(name, KEYS_TARGET)),), call.span)
            case Call("<>", (Call("typeof", (Attribute(name),)), Literal("missing"))):
                return self._key_test(split_path(name), call)
        return None

    def _element(self, call: Call) -> Expression | None:
        """The attribute of an element of arrays whose indexes are literals; None where it is no element of a column."""
        found = _indexes_of(call)
        if found is None:
            return None
        name, indexes = found
        path, rest = self._column_of(split_path(name))
        if path is None:
            return None
        places: list[int] = []
        kind: DataType | None = self._type_at(path)
        left = list(indexes)
        while True:
            kind, path = self._consume(kind, path, left, places)
            if kind is None:
                return None
            if not rest:
                break
            path, rest = (*path, rest[0]), rest[1:]
            kind = self._member_type(kind, path)
        if left:
            return None
        name = join_path(path)
        return Attribute(cast_name(name, element_target(places)) if places else name, call.span)

    def _consume(
        self, kind: DataType | None, path: Path, indexes: list[tuple[str, int]], places: list[int]
    ) -> tuple[DataType | None, Path]:
        """Use indexes up for the arrays and the maps with numbers for keys that are at the end of a path."""
        while indexes:
            if isinstance(kind, ArrayType):
                places.append(_place(*indexes.pop(0)))
                kind = kind.elementType
            elif isinstance(kind, MapType) and isinstance(kind.keyType, IntegralType):
                path = (*path, str(indexes.pop(0)[1]))
                kind = kind.valueType
            else:
                break
        return kind, path

    def _variant(self, value: Expression, target: str, call: Call) -> Expression | None:
        """The attribute of a value within a VARIANT, as another type; None where it is not within one."""
        steps = _steps_of(value)
        if steps is None:
            return None
        names = [step for step in steps if isinstance(step, str)]
        for length in range(1, len(names) + 1):
            if steps[:length] != names[:length]:
                return None  # an element of an array of VARIANTs
            if isinstance(self._type_at(tuple(names[:length])), VariantType):
                path = "".join(f"[{step}]" if isinstance(step, int) else _json_step(step) for step in steps[length:])
                return Attribute(join_path([*names[:length], _named_cast(f"${path}", target)]), call.span)
        return None

    def _key_test(self, path: Path, call: Call) -> Expression | None:
        *outer, key = path
        kind = self._type_at(tuple(outer)) if outer else None
        if not isinstance(kind, MapType):
            return None
        is_number = isinstance(kind.keyType, IntegralType)
        sought = Literal(int(key) if is_number and key.lstrip("-").isdigit() else key)
        return Call("array_contains", (Array(cast_name(join_path(outer), KEYS_TARGET)), sought), call.span)

    def _is_map(self, path: Path) -> bool:
        return isinstance(self._type_at(path), MapType)

    def _type_at(self, path: Path) -> DataType | None:
        found = self._resolver.declared_type(path)
        return None if found is None else found[0]

    def _column_of(self, path: Path) -> tuple[Path | None, Path]:
        """The shortest beginning of a path that is a column, and the rest."""
        for length in range(1, len(path) + 1):
            if self._type_at(path[:length]) is not None:
                return path[:length], path[length:]
        return None, path

    def _member_type(self, kind: DataType, path: Path) -> DataType | None:
        inner = kind
        while isinstance(inner, ArrayType):
            inner = inner.elementType
        found = self._resolver.member_type(inner, path[-1])
        # Arrays around a member are arrays of the member.
        while found is not None and isinstance(kind, ArrayType):
            found, kind = ArrayType(found), kind.elementType
        return found


def _indexes_of(call: Call) -> tuple[str, list[tuple[str, int]]] | None:
    """The name of the array that an element is of, and the indexes that lead to it, outermost first."""
    indexes: list[tuple[str, int]] = []
    node: Expression = call
    while isinstance(node, Call):
        match node:
            case Call("get" | "element_at" as function, (inner, Literal(int() as index), *_)) if index is not True:
                indexes.append((function, index))
                node = inner
            case _:
                return None
    return (node.name, indexes[::-1]) if isinstance(node, Array) else None


def _place(function: str, index: int) -> int:
    """A place from 1, or from the end, and 0 where no array has an element."""
    if abs(index) > _MAX_INDEX:
        return 0
    return index if function == "element_at" else index + 1 if index >= 0 else 0


def _steps_of(value: Expression) -> list[str | int] | None:
    """The names and indexes of a path, in the order in which they are written."""
    match value:
        case Attribute(name):
            return list(split_path(name))
        case Call("get", (inner, Literal(int() as index), *behind)):
            count = behind[0].value if behind and isinstance(behind[0], Literal) else 0
            steps = [*split_path(inner.name)] if isinstance(inner, Array) else _steps_of(inner)
            if steps is None or not isinstance(count, int) or index < 0:
                return None
            at = _before_names(steps, count)
            return [*steps[:at], index, *steps[at:]]
    return None


def _before_names(steps: Sequence[str | int], count: int) -> int:
    """The position before the last `count` names of a path."""
    at = len(steps)
    while count:
        at -= 1
        count -= isinstance(steps[at], str)
    return at


def _json_step(name: str) -> str:
    return f"['{name}']" if not name.isidentifier() else f".{name}"


def _named_cast(name: str, target: str) -> str:
    """A segment of a path that names a cast, which `cast_name` makes of a whole path."""
    return split_path(cast_name(join_path([name]), target))[0]

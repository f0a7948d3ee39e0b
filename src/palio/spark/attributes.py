"""Resolution of attribute names to the values of a row.

A name in a condition finds its column as the session finds it, without regard to case unless the session is case
sensitive; within a struct likewise. The elements of an array are the attribute's values; the entry of a map is found by
its key. A struct or a map as a whole has no value to compare, only a presence: TRUE or NULL.

Conditions on several members of the structs or maps in an array must hold for one element, independently of what other
subscriptions read of that array. So the array is kept as an array of structs with those members alone. Only a single
member that is no array becomes an attribute by itself, because both forms are then equivalent.

The rules are written once, over the protocol `Values`. `projection.ColumnValues` implements it with Spark expressions
on the driver, `column_functions.ArrowValues` with Arrow arrays in a worker.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final, Generic, Protocol, Self, TypeVar

from palio.errors import EventError
from palio.events.names import join_path, split_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

PLACEHOLDER_ATTRIBUTE: Final = "palio nothing"
"""Attribute of a projection that would have no other."""
PRESENCE_MEMBER: Final = "palio there"
"""Member of a struct that holds the struct's presence, where conditions read it beside other members."""
# For messages about columns, which name some of the subscriptions that read them.
MAX_INSPECTED_SUBSCRIPTIONS: Final = 5_000  # inspecting a million would take longer than matching them
MAX_NAMED: Final = 3

PRESENCE_TARGET: Final = "presence"
"""Target of the pseudo-cast to TRUE, or NULL where the values are."""
KEYS_TARGET: Final = "keys"
"""Target of the pseudo-cast of a map to the array of its keys."""
LOCAL_TARGET: Final = "local"
"""Target of the pseudo-cast of times without a zone to the moments of UTC that clocks there show so."""
_ELEMENT: Final = "element("
"""Beginning of the target of the pseudo-cast to an element of the arrays on a path, `element(1,-2)`."""
# The targets of casts are known, so that few names of columns can be taken for a cast attribute by mistake.
_CAST_SUFFIX: Final = re.compile(
    r"(?s)(.*) AS (BIGINT|BINARY|BOOLEAN|DATE|DECIMAL_[0-9]+_[0-9]+|DOUBLE|ELEMENT(?:_-?[0-9]+)+|FLOAT|INT|KEYS|LOCAL|"
    r"PRESENCE|SMALLINT|STRING|TIMESTAMP|TIMESTAMP_NTZ|TINYINT)"
)

Path = tuple[str, ...]
_log = logging.getLogger("palio.spark")


class Values(Protocol):
    """Values of a Spark type, one for each row or for each element of an array."""

    @property
    def kind(self) -> DataType: ...

    def field(self, name: str) -> Self:
        """A field of structs."""

    def entry(self, key: str) -> Self:
        """The entry of maps at a key."""

    def keys(self) -> Self:
        """The keys of maps, as arrays."""

    def variant(self, path: str, target: str, zone: str) -> Self:
        """What a path such as `$.a[0]` leads to in VARIANTs, as another type; NULL where that fails."""

    def element(self, place: int) -> Self:
        """The element of arrays at a place from 1, or from the end; NULL where there is none, and at 0."""

    def map_elements(self, change: Callable[[Self], Self]) -> Self:
        """Arrays with every element changed."""

    def flatten_arrays(self) -> Self:
        """Arrays of arrays as arrays; a NULL inner array becomes a NULL element."""

    def drop_nulls(self) -> Self:
        """Arrays without their NULL elements."""

    def as_moments(self) -> Self:
        """Local times, taken for moments of UTC."""

    def presence(self) -> Self:
        """TRUE, or NULL where these values are."""

    def struct(self, members: Mapping[str, Self]) -> Self:
        """Structs of these members, NULL where these values are."""

    def to_utc(self, zone: str) -> Self:
        """Local times of a zone as local times of UTC."""

    def try_cast(self, target: str, zone: str) -> Self:
        """Scalars converted to another type as by TRY_CAST in a session of this zone, NULL where that fails."""


V = TypeVar("V", bound=Values)


@dataclass(frozen=True)
class AttributeResolver(Generic[V]):
    """Finds the values of attributes in a row, by the session's rules for names and times."""

    given: Mapping[Path, V]
    case_sensitive: bool
    zone: Callable[[str], str]
    """Maps the name of a column without a time zone to the zone in which conditions read it."""
    session_zone: str = "UTC"

    def resolve(self, paths: Iterable[Path]) -> tuple[dict[str, V], list[str]]:
        """The values of attributes by name, and the names of attributes without a column.

        A column of a type that conditions do not support is in neither.
        """
        found: dict[str, V] = {}
        absent: list[str] = []
        arrays: dict[Path, list[Path]] = {}
        for path in paths:
            if (element := split_element(path)) is not None:
                values = self._element_values(*element)
                if values is None:
                    absent.append(join_path(path))
                elif _is_supported(_element_type(values.kind), join_path(path)):
                    found[join_path(path)] = self._as_event_type(values, join_path(path))
                continue
            kind = self._type_at(path)
            if kind is None:
                absent.append(join_path(path))
            if kind is None or not _is_supported(kind, join_path(path)):
                continue
            length = self._object_array_length(path)
            if length is None:
                found[join_path(path)] = self._whole_value(path)
            else:
                # Collected first: whether an array is kept as one depends on how many of its members are read.
                arrays.setdefault(path[:length], []).append(path[length:])
        for path, members in arrays.items():
            if members == [()]:
                found[join_path(path)] = self._whole_value(path)
            elif len(members) == 1 and (alone := self._single_member(path, members[0])) is not None:
                found[join_path(path + members[0])] = alone
            else:
                found[join_path(path)] = self._with_members(
                    self._walk(*self._split_at_given(path)), members, join_path(path)
                )
        return found, absent

    def declared_type(self, path: Path) -> tuple[DataType, bool] | None:
        """The type at a path, of the array where there is one, and whether the path leads through arrays of objects."""
        from pyspark.sql.types import ArrayType, MapType, StructType

        if (element := split_element(path)) is not None:
            found = self._element_values(*element)
            return None if found is None else (found.kind, False)
        try:
            values, rest = self._split_at_given(path)
        except KeyError:
            return None
        kind, is_within = values.kind, False
        for segment in rest:
            inner = _element_type(kind)
            is_within = is_within or (isinstance(kind, ArrayType) and isinstance(inner, StructType | MapType))
            member = self._member_type(inner, segment, join_path(path))
            if member is None:
                return None
            kind = member
        return kind, is_within

    def member_type(self, kind: DataType, segment: str) -> DataType | None:
        """The type of a member of a structure or of the entries of a map."""
        return self._member_type(kind, segment, segment)

    def _element_values(self, path: Path, places: Sequence[int], targets: Sequence[str]) -> V | None:
        """The values at a path, at one place of each array on it, then cast; None where there is nothing.

        An index is taken by the outermost array that has none yet, wherever it is written: `items[0].sku` and
        `items.sku[0]` are one value in Spark.
        """
        try:
            values, rest = self._split_at_given(path)
        except KeyError:
            return None
        left = list(places)
        values = _take_elements(values, left)
        for segment in rest:
            if self._member_type(_element_type(values.kind), segment, join_path(path)) is None:
                return None
            values = _take_elements(self._step_within(values, segment), left)
        for target in targets:
            values = self._try_cast(values, target)
        return None if left else values

    def _step_within(self, values: V, segment: str) -> V:
        from pyspark.sql.types import ArrayType

        if isinstance(values.kind, ArrayType):
            return values.map_elements(lambda each: self._step_within(each, segment))
        return self._step(values, segment)

    def _split_at_given(self, path: Path) -> tuple[V, Path]:
        """The given values at the longest known prefix of a path, and the rest of the path."""
        # The longest prefix first: a column may be named with a dot.
        for length in range(len(path), 0, -1):
            values = self._find_given(path[:length])
            if values is not None:
                return values, path[length:]
        raise KeyError(path)

    def _find_given(self, path: Path) -> V | None:
        # An exact spelling wins, also where other columns differ from it only in case.
        if path in self.given:
            return self.given[path]
        base, target = split_cast(path[-1])
        if target is not None:
            values = self._find_given((*path[:-1], base))
            return None if values is None else self._try_cast(values, target)
        if self.case_sensitive:
            return None
        name = _unambiguous(join_path(path), self._given_in_lower_case.get(_lower(path), []), join_path)
        return None if name is None else self.given[name]

    @cached_property
    def _given_in_lower_case(self) -> dict[Path, list[Path]]:
        found: dict[Path, list[Path]] = {}
        for path in self.given:
            found.setdefault(_lower(path), []).append(path)
        return found

    def _type_at(self, path: Path) -> DataType | None:
        """The type at a path, or of the elements of arrays there; None where there is nothing."""
        try:
            values, rest = self._split_at_given(path)
        except KeyError:
            return None
        kind = _element_type(values.kind)
        for place, segment in enumerate(rest):
            inner = self._member_type(kind, segment, join_path(path[: len(path) - len(rest) + place]))
            if inner is None:
                return None
            kind = _element_type(inner)
        return kind

    def _member_type(self, kind: DataType, segment: str, name: str) -> DataType | None:
        """The type of a member of a structure or of the entries of a map."""
        from pyspark.sql.types import ArrayType, BooleanType, IntegralType, MapType, StructType, VariantType

        base, target = split_cast(segment)
        if target is not None and isinstance(kind, VariantType):
            return type_of_target(target)
        if target is not None:
            inner = self._member_type(kind, base, name)
            if inner is None or target == PRESENCE_TARGET:
                return None if inner is None else BooleanType()
            if target == KEYS_TARGET:
                return ArrayType(inner.keyType) if isinstance(inner, MapType) else None
            return _with_element_type(inner, type_of_target(target))
        if isinstance(kind, StructType):
            field = find_name(kind, segment, self.case_sensitive)
            return None if field is None else kind[field].dataType
        if isinstance(kind, MapType):
            is_number = isinstance(kind.keyType, IntegralType) and _INTEGER.fullmatch(segment)
            if kind.keyType.typeName() == "string" or is_number:
                return kind.valueType
            warn_once(f"conditions cannot look into the column {name}, {kind.simpleString()}: its keys are no texts")
        return None

    def _object_array_length(self, path: Path) -> int | None:
        """The length of the prefix that leads to the outermost array of structs or maps on a path, if any."""
        from pyspark.sql.types import ArrayType, MapType, StructType

        values, rest = self._split_at_given(path)
        kind, length = values.kind, len(path) - len(rest)
        # Walk the types, not the values, to the first array of objects.
        while True:
            inner = _element_type(kind)
            if isinstance(kind, ArrayType) and isinstance(inner, StructType | MapType):
                return length
            if length == len(path):
                return None
            found = self._member_type(inner, path[length], join_path(path[:length]))
            assert found is not None  # `_type_at` has found the path
            kind, length = found, length + 1

    def _whole_value(self, path: Path) -> V:
        return self._as_event_type(self._walk(*self._split_at_given(path)), join_path(path))

    def _walk(self, values: V, rest: Path) -> V:
        """The values at the end of a path that leads through no array."""
        for segment in rest:
            values = self._step(values, segment)
        return values

    def _step(self, values: V, segment: str) -> V:
        from pyspark.sql.types import StructType, VariantType

        base, target = split_cast(segment)
        if target is not None and isinstance(values.kind, VariantType):
            return values.variant(base, target, self.session_zone)
        if target is not None:
            return self._try_cast(self._step(values, base), target)
        if not isinstance(values.kind, StructType):
            return values.entry(segment)
        field = find_name(values.kind, segment, self.case_sensitive)
        assert field is not None  # `_type_at` has found the path
        return values.field(field)

    def _try_cast(self, values: V, target: str) -> V:
        """Values cast to a type, element by element where they are arrays."""
        from pyspark.sql.types import ArrayType

        if target == PRESENCE_TARGET:
            return values.presence()
        if target == KEYS_TARGET:
            return values.keys()
        if target == LOCAL_TARGET:
            return values.as_moments()
        if isinstance(values.kind, ArrayType):
            return values.map_elements(lambda each: self._try_cast(each, target))
        return values.try_cast(target, self.session_zone)

    def _single_member(self, array: Path, member: Path) -> V | None:
        """The values of a member of the structs in an array; None where it is, or lies in, an array itself."""
        from pyspark.sql.types import ArrayType

        values = self._walk(*self._split_at_given(array))
        kind: DataType | None = _element_type(values.kind)
        for segment in member:
            kind = None if kind is None else self._member_type(kind, segment, join_path(array))
            if kind is None or isinstance(kind, ArrayType):
                return None
        name = join_path(array + member)
        # A NULL element is no object: it must not give the member a NULL value.
        values = _flatten(values).drop_nulls()
        return values.map_elements(lambda each: self._as_event_type(self._walk(each, member), name))

    def _with_members(self, values: V, members: Collection[Path], name: str, element: V | None = None) -> V:
        """Values reduced to these members; the empty path stands for the presence of the values themselves.

        `element` is the innermost array element around the values. A struct within it is rebuilt as non-NULL with
        NULL members, as each member alone would be.
        """
        from pyspark.sql.types import ArrayType

        inner = [path for path in members if path]
        if not inner:
            return self._as_event_type(values, name)
        if isinstance(values.kind, ArrayType):
            return values.map_elements(lambda each: self._with_members(each, members, name, each))
        assert element is not None  # structs are rebuilt within arrays only
        found: dict[str, V] = {}
        for segment in dict.fromkeys(path[0] for path in inner):
            # Members of one struct are grouped, so that the struct is built once.
            within = [path[1:] for path in inner if path[0] == segment]
            found[segment] = self._with_members(self._step(values, segment), within, f"{name}.{segment}", element)
        # The empty path is among them: some condition also reads whether the struct itself is there.
        if len(inner) < len(members):
            found[PRESENCE_MEMBER] = values.presence()
        return element.struct(found)

    def _as_event_type(self, values: V, name: str) -> V:
        """Values converted to a type that events have."""
        from pyspark.sql.types import ArrayType, MapType, StructType, TimestampNTZType

        if isinstance(values.kind, ArrayType):
            values = _flatten(values)
            is_plain = not isinstance(_element_type(values.kind), MapType | StructType | TimestampNTZType)
            return values if is_plain else values.map_elements(lambda each: self._as_event_type(each, name))
        if isinstance(values.kind, StructType | MapType):
            return values.presence()
        return values.to_utc(self.zone(name)) if isinstance(values.kind, TimestampNTZType) else values


def _take_elements(values: V, places: list[int]) -> V:
    """Elements of arrays, and of arrays in them, as long as there are places; those are removed from the list."""
    from pyspark.sql.types import ArrayType

    while places and isinstance(values.kind, ArrayType):
        values = values.element(places.pop(0))
    return values


def split_element(path: Path) -> tuple[Path, list[int], list[str]] | None:
    """The path to the arrays of an element attribute, the places in them, and the casts; None for other names."""
    name = path[-1]
    if " AS ELEMENT_" not in name:
        return None
    targets: list[str] = []
    while True:
        name, target = split_cast(name)
        if target is None:
            return None
        if target.startswith(_ELEMENT):
            places = target.removeprefix(_ELEMENT).removesuffix(")").split(",")
            return (*path[:-1], name), [int(each) for each in places], targets[::-1]
        targets.append(target)


def element_target(places: Sequence[int]) -> str:
    return f"{_ELEMENT}{','.join(map(str, places))})"


_INTEGER: Final = re.compile("-?[0-9]{1,18}")


def cast_name(attribute: str, target: str) -> str:
    """The name of the attribute that holds the values of another one, cast to a type (see `implicit_casts`)."""
    *outer, name = split_path(attribute)
    suffix = target.upper().replace("(", "_").replace(",", "_").replace(")", "")
    return join_path([*outer, f"{name} AS {suffix}"])


def split_cast(segment: str) -> tuple[str, str | None]:
    """The name that a cast attribute is made of, and the type; None for other names."""
    found = _CAST_SUFFIX.fullmatch(segment)
    if found is None:
        return segment, None
    target = found[2].lower()
    if target.startswith("decimal"):
        _, precision, scale = target.split("_")
        target = f"decimal({precision},{scale})"
    elif target.startswith("element_"):
        target = element_target([int(each) for each in target.split("_")[1:]])
    return found[1], target


def type_of_target(target: str) -> DataType:
    """Spark's type of the target of a cast."""
    from pyspark.sql import types

    if target.startswith("decimal"):
        precision, scale = map(int, target.removeprefix("decimal(").removesuffix(")").split(","))
        return types.DecimalType(precision, scale)
    return {
        "bigint": types.LongType(),
        "binary": types.BinaryType(),
        "boolean": types.BooleanType(),
        "date": types.DateType(),
        "double": types.DoubleType(),
        "float": types.FloatType(),
        "int": types.IntegerType(),
        "local": types.TimestampType(),
        "smallint": types.ShortType(),
        "string": types.StringType(),
        "timestamp": types.TimestampType(),
        "timestamp_ntz": types.TimestampNTZType(),
        "tinyint": types.ByteType(),
    }[target]


def _with_element_type(kind: DataType, element: DataType) -> DataType:
    from pyspark.sql.types import ArrayType

    return ArrayType(_with_element_type(kind.elementType, element)) if isinstance(kind, ArrayType) else element


def _flatten(values: V) -> V:
    from pyspark.sql.types import ArrayType

    while isinstance(values.kind, ArrayType) and isinstance(values.kind.elementType, ArrayType):
        values = values.flatten_arrays()
    return values


def _element_type(kind: DataType) -> DataType:
    """The type of the elements of nested arrays; of other values, their own."""
    from pyspark.sql.types import ArrayType

    while isinstance(kind, ArrayType):
        kind = kind.elementType
    return kind


def _is_supported(kind: DataType, name: str) -> bool:
    """Whether events have values of a type; warns of unsupported types."""
    from pyspark.sql import types

    if isinstance(kind, types.StringType) and not kind.isUTF8BinaryCollation():
        warn_once(
            f"texts of the column {name}, {kind.simpleString()}, are compared by their bytes, not by that collation"
        )
    known = (
        types.BinaryType, types.BooleanType, types.DateType, types.MapType, types.NullType, types.NumericType,
        types.StringType, types.StructType, types.TimestampNTZType, types.TimestampType,
    )  # fmt: skip
    if isinstance(kind, known):
        return True
    warn_once(f"conditions cannot look at the column {name}, {kind.simpleString()}: to them it is NULL")
    return False


def quoted(name: str) -> str:
    """A name, dots and backticks included, as SQL writes it."""
    return "`" + name.replace("`", "``") + "`"


def is_case_sensitive(session: SparkSession) -> bool:
    return str(session.conf.get("spark.sql.caseSensitive")).lower() == "true"


def find_name(schema: StructType, name: str, case_sensitive: bool) -> str | None:
    """The field that the session finds by a name."""
    if name in schema.names:
        return name
    if case_sensitive:
        return None
    return _unambiguous(name, [each for each in schema.names if each.lower() == name.lower()], str)


def _lower(path: Path) -> Path:
    return tuple(segment.lower() for segment in path)


_Name = TypeVar("_Name", str, Path)


def _unambiguous(name: str, alike: list[_Name], shown: Callable[[_Name], str]) -> _Name | None:
    if len(alike) > 1:
        names = ", ".join(map(shown, alike))
        raise EventError(f"{name} may be any of the columns {names}; write it as one of them is written")
    return alike[0] if alike else None


@cache
def warn_once(warning: str) -> None:
    """Log a warning once, not for every batch of a stream."""
    _log.warning(warning)

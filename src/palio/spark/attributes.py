"""Which values of a row are those of an attribute, and in which form are they looked at?

A name in a condition finds its column as the session finds it, without regard to case unless the session says so;
within a structure likewise. The values of an array are the attribute's values; the entry of a map is found by its key.
A structure or a map as a whole has no value to compare, but it is there or it is not: that is what is looked at of it.

Conditions on several members of the structures or maps in an array ask for one of these, and what else is asked of the
array, or by whom, must not change that. So there the array is looked at as it is, with those members alone; only a
single member that is no array is an attribute by itself, because then both are the same.

All of this is said once, of `Values`: columns in Spark's hands are some (`columns`), arrays in a worker's are others
(`arrow_values`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final, Generic, Protocol, Self, TypeVar

from palio.errors import EventError
from palio.events.names import join_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

NOTHING: Final = "palio nothing"  # the attribute that is handed over where no other is
THERE: Final = "palio there"  # the member of a structure that says that it is there, where that is asked beside members

Path = tuple[str, ...]
_log = logging.getLogger("palio.spark")


class Values(Protocol):
    """Values of one of Spark's types, one for each row, or for each element of an array."""

    @property
    def kind(self) -> DataType: ...

    def field(self, name: str) -> Self:
        """Of structures."""

    def entry(self, key: str) -> Self:
        """Of maps."""

    def each(self, change: Callable[[Self], Self]) -> Self:
        """Of arrays, with every element changed."""

    def joined(self) -> Self:
        """Of arrays of arrays, all elements of these; an array that is not there is one that is not there."""

    def without_nulls(self) -> Self:
        """Of arrays, the elements that are there."""

    def is_there(self) -> Self:
        """TRUE or NULL."""

    def structure(self, members: Mapping[str, Self]) -> Self:
        """Structures of these members, NULL where these values are."""

    def at_zone(self, zone: str) -> Self:
        """Of times without a zone, the moments at which clocks there show them, on the clocks of UTC."""


V = TypeVar("V", bound=Values)


@dataclass(frozen=True)
class Row(Generic[V]):
    """What is known of a row: values by their paths, and how the session understands names and times."""

    given: Mapping[Path, V]
    case_sensitive: bool
    zone: Callable[[str], str]
    """In which zone conditions read times that have none, for the column of a name."""

    def attributes(self, paths: Iterable[Path]) -> tuple[dict[str, V], list[str]]:
        """The values of attributes by their names, and the names of those that there is nothing of.

        What there is, of a type that conditions do not know, is in neither.
        """
        found: dict[str, V] = {}
        absent: list[str] = []
        arrays: dict[Path, list[Path]] = {}
        for path in paths:
            kind = self._kind(path)
            if kind is None:
                absent.append(join_path(path))
            if kind is None or not _is_known(kind, join_path(path)):
                continue
            length = self._array_of_objects(path)
            if length is None:
                found[join_path(path)] = self._of_one(path)
            else:
                arrays.setdefault(path[:length], []).append(path[length:])
        for path, members in arrays.items():
            if members == [()]:
                found[join_path(path)] = self._of_one(path)
            elif len(members) == 1 and (alone := self._of_member(path, members[0])) is not None:
                found[join_path(path + members[0])] = alone
            else:
                found[join_path(path)] = self._objects(self._walked(*self._start(path)), members, join_path(path))
        return found, absent

    def _start(self, path: Path) -> tuple[V, Path]:
        """What is given that a path begins with, and the rest of the path."""
        for length in range(len(path), 0, -1):
            name = self._given(path[:length])
            if name is not None:
                return self.given[name], path[length:]
        raise KeyError(path)

    def _given(self, path: Path) -> Path | None:
        if self.case_sensitive or path in self.given:
            return path if path in self.given else None
        return _only(join_path(path), self._alike.get(_lower(path), []), join_path)

    @cached_property
    def _alike(self) -> dict[Path, list[Path]]:
        """What is given, by its path in lower case."""
        found: dict[Path, list[Path]] = {}
        for path in self.given:
            found.setdefault(_lower(path), []).append(path)
        return found

    def _kind(self, path: Path) -> DataType | None:
        """The type of what is at a path, or of the elements of arrays there; None where there is nothing."""
        try:
            values, rest = self._start(path)
        except KeyError:
            return None
        kind = _element(values.kind)
        for place, segment in enumerate(rest):
            inner = self._inside(kind, segment, join_path(path[: len(path) - len(rest) + place]))
            if inner is None:
                return None
            kind = _element(inner)
        return kind

    def _inside(self, kind: DataType, segment: str, name: str) -> DataType | None:
        """The type of a member of a structure or of the entries of a map."""
        from pyspark.sql.types import MapType, StructType

        if isinstance(kind, StructType):
            field = find_name(kind, segment, self.case_sensitive)
            return None if field is None else kind[field].dataType
        if isinstance(kind, MapType):
            if kind.keyType.typeName() == "string":
                return kind.valueType
            say(f"conditions cannot look into the column {name}, {kind.simpleString()}: its keys are no texts")
        return None

    def _array_of_objects(self, path: Path) -> int | None:
        """How much of a path leads to the outermost array of structures or maps that it ends at or leads into."""
        from pyspark.sql.types import ArrayType, MapType, StructType

        values, rest = self._start(path)
        kind, length = values.kind, len(path) - len(rest)
        while True:
            inner = _element(kind)
            if isinstance(kind, ArrayType) and isinstance(inner, StructType | MapType):
                return length
            if length == len(path):
                return None
            found = self._inside(inner, path[length], join_path(path[:length]))
            assert found is not None  # it can be looked at
            kind, length = found, length + 1

    def _of_one(self, path: Path) -> V:
        return self._handed_over(self._walked(*self._start(path)), join_path(path))

    def _walked(self, values: V, rest: Path) -> V:
        """What is at the end of a path that leads through no array."""
        for segment in rest:
            values = self._step(values, segment)
        return values

    def _step(self, values: V, segment: str) -> V:
        from pyspark.sql.types import StructType

        if not isinstance(values.kind, StructType):
            return values.entry(segment)
        field = find_name(values.kind, segment, self.case_sensitive)
        assert field is not None  # it can be looked at
        return values.field(field)

    def _of_member(self, array: Path, member: Path) -> V | None:
        """The values of a member of the structures in an array; None where it is, or lies in, an array itself."""
        from pyspark.sql.types import ArrayType

        values = self._walked(*self._start(array))
        kind: DataType | None = _element(values.kind)
        for segment in member:
            kind = None if kind is None else self._inside(kind, segment, join_path(array))
            if kind is None or isinstance(kind, ArrayType):
                return None
        name = join_path(array + member)
        values = _flat(values).without_nulls()
        return values.each(lambda each: self._handed_over(self._walked(each, member), name))

    def _objects(self, values: V, members: Collection[Path], name: str, element: V | None = None) -> V:
        """Values with these members alone; the empty path asks whether the values themselves are there.

        A structure in an element has members that are NULL where it is, as it would have them one by one.
        """
        from pyspark.sql.types import ArrayType

        inner = [path for path in members if path]
        if not inner:
            return self._handed_over(values, name)
        if isinstance(values.kind, ArrayType):
            return values.each(lambda each: self._objects(each, members, name, each))
        assert element is not None  # there is nothing to put together outside of arrays
        found: dict[str, V] = {}
        for segment in dict.fromkeys(path[0] for path in inner):
            within = [path[1:] for path in inner if path[0] == segment]
            found[segment] = self._objects(self._step(values, segment), within, f"{name}.{segment}", element)
        if len(inner) < len(members):
            found[THERE] = values.is_there()
        return element.structure(found)

    def _handed_over(self, values: V, name: str) -> V:
        """Values in a type that events have."""
        from pyspark.sql.types import ArrayType, MapType, StructType, TimestampNTZType

        if isinstance(values.kind, ArrayType):
            values = _flat(values)
            is_plain = not isinstance(_element(values.kind), MapType | StructType | TimestampNTZType)
            return values if is_plain else values.each(lambda each: self._handed_over(each, name))
        if isinstance(values.kind, StructType | MapType):
            return values.is_there()
        return values.at_zone(self.zone(name)) if isinstance(values.kind, TimestampNTZType) else values


def _flat(values: V) -> V:
    """Arrays of arrays as arrays."""
    from pyspark.sql.types import ArrayType

    while isinstance(values.kind, ArrayType) and isinstance(values.kind.elementType, ArrayType):
        values = values.joined()
    return values


def _element(kind: DataType) -> DataType:
    """The type of what is in arrays, however deep; of other values, their own."""
    from pyspark.sql.types import ArrayType

    while isinstance(kind, ArrayType):
        kind = kind.elementType
    return kind


def _is_known(kind: DataType, name: str) -> bool:
    """Whether events have values of a type; a warning says of which they have not."""
    from pyspark.sql import types

    if isinstance(kind, types.StringType) and not kind.isUTF8BinaryCollation():
        say(f"texts of the column {name}, {kind.simpleString()}, are compared by their bytes, not by that collation")
    known = (
        types.BinaryType, types.BooleanType, types.DateType, types.MapType, types.NullType, types.NumericType,
        types.StringType, types.StructType, types.TimestampNTZType, types.TimestampType,
    )  # fmt: skip
    if isinstance(kind, known):
        return True
    say(f"conditions cannot look at the column {name}, {kind.simpleString()}: to them it is NULL")
    return False


def is_case_sensitive(session: SparkSession) -> bool:
    """Whether a session tells names apart that differ in case alone."""
    return str(session.conf.get("spark.sql.caseSensitive")).lower() == "true"


def find_name(schema: StructType, name: str, case_sensitive: bool) -> str | None:
    """The field that the session means by a name."""
    if name in schema.names:
        return name
    if case_sensitive:
        return None
    return _only(name, [each for each in schema.names if each.lower() == name.lower()], str)


def _lower(path: Path) -> Path:
    return tuple(segment.lower() for segment in path)


_Name = TypeVar("_Name", str, Path)


def _only(name: str, alike: list[_Name], shown: Callable[[_Name], str]) -> _Name | None:
    if len(alike) > 1:
        names = ", ".join(map(shown, alike))
        raise EventError(f"{name} may be any of the columns {names}; write it as one of them is written")
    return alike[0] if alike else None


@cache
def say(warning: str) -> None:
    """Once, not for every batch of a stream."""
    _log.warning(warning)

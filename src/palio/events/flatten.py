"""Which (attribute, value) pairs does nested content consist of?

Objects become dotted paths. An array becomes several values of its attribute: nested arrays are flattened
into it, objects inside it contribute to the paths below it, and one without any element contributes
nothing, as if it were not there. `unflatten` goes the other way, for writing an event down.

The loop over the members of an object is the hot one (an event of ten scalars takes about a microsecond and a
half), so it is written out for the commonest types and calls nothing for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palio.errors import EventError
from palio.events.limits import Limits
from palio.events.names import KnownNames, shown, split_path
from palio.events.values import (
    CONVERT,
    LARGEST_INTEGER,
    SMALLEST_INTEGER,
    UNCHECKED,
    Scalar,
    Value,
    from_numpy,
    is_numpy,
    to_scalar,
    type_name,
)

_names = KnownNames()


def flatten(content: Mapping[str, Any], limits: Limits) -> dict[str, Value]:
    """The attributes of an object, by their names; about 0.12 µs a scalar, twice that inside an array."""
    if type(content) is not dict and not isinstance(content, Mapping):
        raise EventError(f"an event is a mapping of names to values, not {type_name(content)}")
    walk = _Walk(limits)
    walk.object(content, None, 1, None)
    return walk.attributes


class _Walk:
    """One pass through nested content; knows how much has been seen so far."""

    __slots__ = ("attributes", "containers", "limits")

    def __init__(self, limits: Limits) -> None:
        self.attributes: dict[str, Value] = {}
        self.containers = 0
        self.limits = limits

    def object(
        self, content: Mapping[Any, Any], place: str | None, depth: int, found: dict[str, list[Scalar]] | None
    ) -> None:
        """Take in the members of the object at a place; inside an array, `found` gathers values by path."""
        limits = self.limits
        attributes = self.attributes
        if len(content) > limits.attributes:
            raise _too_many(limits)
        # What is remembered is short, so only a limit below that length could refuse it.
        known = _names.inside(place) if limits.name_length >= KnownNames.LONGEST else {}
        for name, value in content.items():
            path = known.get(name)
            if path is None:
                path = _names.learn(name, place, limits)
            kind = type(value)
            if kind is str:
                if not value.isascii():
                    to_scalar(value, path)
            elif kind is int:
                if not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
                    value = to_scalar(value, path)
            elif kind not in UNCHECKED:
                self.visit(value, path, depth + 1, found)
                continue
            if found is None:
                attributes[path] = value
            else:
                found.setdefault(path, []).append(value)
        if len(attributes) > limits.attributes or (found is not None and len(found) > limits.attributes):
            raise _too_many(limits)

    def visit(self, value: Any, path: str, depth: int, found: dict[str, list[Scalar]] | None) -> None:
        """Take in what is at a path, whatever it is."""
        kind = type(value)
        if kind is dict:
            self.enter(path, depth)
            self.object(value, path, depth, found)
        elif kind is list or kind is tuple:
            self.array(value, path, depth, found)
        elif (convert := CONVERT.get(kind)) is not None:
            scalar = convert(value, path)
            if found is None:
                self.attributes[path] = scalar
            else:
                found.setdefault(path, []).append(scalar)
        elif isinstance(value, list | tuple):
            self.array(value, path, depth, found)
        elif isinstance(value, Mapping):
            self.enter(path, depth)
            self.object(value, path, depth, found)
        elif is_numpy(value):
            self.visit(from_numpy(value, path), path, depth, found)
        else:
            self.visit(to_scalar(value, path), path, depth, found)

    def array(
        self,
        content: list[Any] | tuple[Any, ...],
        path: str,
        depth: int,
        found: dict[str, list[Scalar]] | None,
    ) -> None:
        """Take in the elements of an array, as so many values of its path and of the paths below it."""
        self.enter(path, depth)
        most = self.limits.array_length
        if len(content) > most:
            raise EventError(f"an array of more than {most:,} values", shown(path))
        gathered: dict[str, list[Scalar]] = {} if found is None else found
        for value in content:
            self.visit(value, path, depth + 1, gathered)
        if len(gathered.get(path, ())) > most:
            raise EventError(f"nested arrays of more than {most:,} values", shown(path))
        if found is None:
            for inner, values in gathered.items():
                self.attributes[inner] = tuple(values)

    def enter(self, path: str, depth: int) -> None:
        """Count one more object or array, and refuse it where there are too many or it is too deep."""
        # Depth alone does not bound the work: each of a hundred lists may hold the next one twice.
        self.containers += 1
        if self.containers > self.limits.containers:
            most = self.limits.containers
            raise EventError(f"more than {most:,} objects and arrays in one event", shown(path))
        if depth > self.limits.depth:
            raise EventError(f"nested deeper than {self.limits.depth} levels", shown(path))


def unflatten(attributes: Mapping[str, Value]) -> dict[str, Any]:
    """Nested content with these attributes: what `flatten` makes the same attributes of."""
    root: dict[str, Any] = {}
    for path, value in attributes.items():
        *outer, last = split_path(path)
        place = root
        for name in outer:
            place = _object_at(place, name)
        held = list(value) if type(value) is tuple else value
        if last in place:
            # Values beside an object, which only an array can hold: {"x": [1, {"a": 2}]}.
            place[last] = [*(held if isinstance(held, list) else [held]), place[last]]
        else:
            place[last] = held
    return root


def _object_at(place: dict[str, Any], name: str) -> dict[str, Any]:
    """The object of this name inside another, made if it is not there yet."""
    inner = place.setdefault(name, {})
    if isinstance(inner, dict):
        return inner
    held = inner if isinstance(inner, list) else [inner]
    if not isinstance(held[-1], dict):
        held = [*held, {}]
        place[name] = held
    last: dict[str, Any] = held[-1]
    return last


def _too_many(limits: Limits) -> EventError:
    return EventError(f"more than {limits.attributes:,} attributes in one event")

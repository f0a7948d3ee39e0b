"""Which (attribute, value) pairs does nested content consist of?

Objects become dotted paths. An array becomes several values of its attribute: nested arrays are flattened
into it, objects inside it contribute to the paths below it, and one without any element contributes
nothing, as if it were not there. Where there are objects in an array, the attributes also know which of them belong
together (`groups.py`). `unflatten` goes the other way, for writing an event down.

The loop over the members of an object is the hot one (an event of ten scalars takes about a microsecond and a
half), so it is written out for the commonest types and calls nothing for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from palio.errors import EventError
from palio.events.groups import Element, Group, Grouped
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
    attributes: dict[str, Value] = {}
    walk = _take_members(content, None, 1, limits, attributes, None)
    if walk is None or not walk.groups:
        return attributes
    grouped = Grouped(attributes, tuple(walk.groups))
    if len(grouped) > limits.attributes:
        raise _too_many(limits)
    return grouped


def _take_members(
    content: Mapping[Any, Any],
    place: str | None,
    depth: int,
    limits: Limits,
    attributes: dict[str, Value],
    walk: _Walk | None,
) -> _Walk | None:
    """Take in the members of the object at a place. There is a walk from the first that is no scalar on."""
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
            walk = walk or _Walk(limits, attributes)
            walk.visit(value, path, depth + 1)
            continue
        attributes[path] = value
    if len(attributes) > limits.attributes:
        raise _too_many(limits)
    return walk


class _Walk:
    """One pass through nested content; knows how much has been seen so far."""

    __slots__ = ("attributes", "containers", "groups", "lengths", "limits")

    def __init__(self, limits: Limits, attributes: dict[str, Value]) -> None:
        self.attributes = attributes
        self.groups: list[Group] = []
        self.containers = 0
        self.lengths: dict[str, int] = {}
        self.limits = limits

    def object(self, content: Mapping[Any, Any], place: str, depth: int) -> None:
        """Take in the members of the object at a place."""
        _take_members(content, place, depth, self.limits, self.attributes, self)

    def visit(self, value: Any, path: str, depth: int) -> None:
        """Take in what is at a path, whatever it is."""
        kind = type(value)
        if kind is dict:
            self.enter(path, depth)
            self.object(value, path, depth)
        elif kind is list or kind is tuple:
            self.array(value, path, depth)
        elif (convert := CONVERT.get(kind)) is not None:
            self.attributes[path] = convert(value, path)
        elif isinstance(value, list | tuple):
            self.array(value, path, depth)
        elif isinstance(value, Mapping):
            self.enter(path, depth)
            self.object(value, path, depth)
        elif is_numpy(value):
            self.visit(from_numpy(value, path), path, depth)
        else:
            self.visit(to_scalar(value, path), path, depth)

    def array(self, content: list[Any] | tuple[Any, ...], path: str, depth: int) -> None:
        """Take in the elements of an array, as so many values of its path and of the paths below it."""
        self.enter(path, depth)
        most = self.limits.array_length
        if len(content) > most:
            raise EventError(f"an array of more than {most:,} values", shown(path))
        values: list[Scalar] = []
        elements: list[Element] = []
        nested = 0
        for value in content:
            convert = CONVERT.get(type(value))
            if convert is not None:
                values.append(convert(value, path))
                continue
            element = self.element(value, path, depth + 1)
            found = element.alone.get(path)
            if element.groups or len(element.alone) > (path in element.alone):
                elements.append(element)
            elif type(found) is tuple:
                values += found
                nested += len(found)
            elif path in element.alone:
                values.append(found)  # type: ignore[arg-type]
        # Those of arrays within are counted there.
        self.lengths[path] = length = self.lengths.get(path, 0) + len(values) - nested
        if length > most:
            raise EventError(f"nested arrays of more than {most:,} values", shown(path))
        if elements:
            self.groups.append(Group(path, tuple(elements)))
        if values:
            self.attributes[path] = tuple(values)

    def element(self, content: Any, path: str, depth: int) -> Element:
        """What an element of an array says for itself."""
        attributes, groups = self.attributes, self.groups
        self.attributes, self.groups = {}, []
        self.visit(content, path, depth)
        element = Element(self.attributes, tuple(self.groups))
        self.attributes, self.groups = attributes, groups
        return element

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
    if isinstance(attributes, Grouped):
        return _unflatten(attributes.alone, attributes.groups)
    return _unflatten(attributes, ())


def _unflatten(attributes: Mapping[str, Value], groups: tuple[Group, ...]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for group in groups:
        names = split_path(group.path)
        objects = [_inside(_unflatten(*each), names) for each in group.elements]
        _place_at(root, names[:-1])[names[-1]] = objects
    for path, value in attributes.items():
        *outer, last = split_path(path)
        place = _place_at(root, outer)
        held = list(value) if type(value) is tuple else value
        if last in place:
            # Values beside an object, which only an array can hold: {"x": [1, {"a": 2}]}.
            beside = place[last] if isinstance(place[last], list) else [place[last]]
            place[last] = [*(held if isinstance(held, list) else [held]), *beside]
        else:
            place[last] = held
    return root


def _place_at(root: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    for name in names:
        root = _object_at(root, name)
    return root


def _inside(content: Any, names: Sequence[str]) -> Any:
    for name in names:
        content = content[name]
    return content


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

"""Nested content and flat attributes: flattening, unflattening, and groups of values that belong together.

Objects become dotted paths. An array becomes several values of its attribute: nested arrays are flattened into it,
objects inside it contribute to the paths below it, and an empty one is an empty tuple. An empty object contributes
nothing, as if it were absent. `unflatten` is the inverse, for writing an event.

**Groups.** Where an array holds objects, `{"items": [{"sku": 1, "size": 2}, {"sku": 3}]}`, the attribute `items.sku`
has two values and `items.size` one, and that does not tell which of them are of one item. `GroupedAttributes` keep
that too: for every such array, the attributes of each of its objects. Evaluation chooses one object of the array, and
an attribute that the object lacks is missing. An array within an array is chosen like an object, if it contains
objects. Values beside objects in one array belong to none of them. Rejected: a further attribute with the position of
every value, because every reader of attributes would have to know that it is none.

The loop over the members of an object is hot (an event of ten scalars takes about 1.5 µs), so it is written out for the
commonest types and calls nothing for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from palio.errors import EventError
from palio.events.foreign_objects import members_of
from palio.events.names import abbreviate, name_too_long, quote_segment, split_path
from palio.events.values import (
    CONVERT,
    MAX_INT64,
    MIN_INT64,
    UNCHECKED,
    Limits,
    Scalar,
    Value,
    check_text,
    from_numpy,
    is_numpy,
    to_scalar,
    type_name,
)


class Element(NamedTuple):
    """One object of an array: attributes by their full paths, and the arrays of objects within it."""

    ungrouped: Mapping[str, Value]
    groups: tuple[Group, ...]


class Group(NamedTuple):
    """An array of objects: its path and its elements."""

    path: str
    elements: tuple[Element, ...]


class GroupedAttributes(dict[str, Value]):
    """The attributes of an event, with the grouping of values by the objects they belong to."""

    def __init__(self, ungrouped: Mapping[str, Value], groups: tuple[Group, ...]) -> None:
        super().__init__(ungrouped)
        self.ungrouped = ungrouped
        """The values that are in no object of an array."""
        self.groups = groups
        gathered: dict[str, list[Scalar]] = {}
        for name, value in values_within(groups):
            gathered.setdefault(name, []).extend(value if type(value) is tuple else (value,))  # type: ignore[arg-type]
        for name, values in gathered.items():
            # Values beside objects come first, then those of the objects in document order.
            before = ungrouped.get(name, ())
            self[name] = (*(before if type(before) is tuple else (before,)), *values)
        empty = [name for name in gathered if self[name] == ()]
        if empty:
            # An array that is empty in one object and holds objects in another is not empty.
            for path in {group.path for group in _groups_within(groups)}.intersection(empty):
                del self[path]

    def __reduce__(self) -> tuple[type[GroupedAttributes], tuple[Mapping[str, Value], tuple[Group, ...]]]:
        return GroupedAttributes, (self.ungrouped, self.groups)


def values_within(groups: tuple[Group, ...]) -> Iterator[tuple[str, Value]]:
    """All attributes of the objects of some arrays, in document order."""
    stack = [element for group in reversed(groups) for element in reversed(group.elements)]
    while stack:
        element = stack.pop()
        yield from element.ungrouped.items()
        stack.extend(inner for group in reversed(element.groups) for inner in reversed(group.elements))


def _groups_within(groups: tuple[Group, ...]) -> Iterator[Group]:
    """Arrays of objects, with those inside their objects, in unspecified order."""
    stack = list(groups)
    while stack:
        group = stack.pop()
        yield group
        stack.extend(inner for element in group.elements for inner in element.groups)


class PathCache:
    """Cache of attribute paths, by enclosing object and name.

    Names repeat from event to event, and a dictionary lookup is much cheaper than checking, quoting and joining a name
    again; it also makes an attribute the same string object in all events. Names come from strangers, so the cache is
    bounded in entries and in length, and is emptied when it is full.
    """

    MAX_ENTRIES = 20_000
    MAX_PATH_LENGTH = 100

    __slots__ = ("_count", "_inside")

    def __init__(self) -> None:
        self._inside: dict[str | None, dict[str, str]] = {}
        self._count = 0

    def inside(self, place: str | None) -> dict[str, str]:
        """Paths by name for the object at `place`; None is the event itself."""
        return self._inside.get(place) or {}

    def learn(self, name: object, place: str | None, limits: Limits) -> str:
        """Check a name, and cache and return its path."""
        if not isinstance(name, str):
            raise EventError(f"a name in an event must be a string, not {type_name(name)}", place)
        name = str.__str__(name)
        check_text(name, place, "a name")
        path = quote_segment(name) if place is None else f"{place}.{quote_segment(name)}"
        if len(path) > limits.name_length:
            raise name_too_long(path, limits)
        if len(path) <= self.MAX_PATH_LENGTH:
            # Emptied as a whole: lookups stay plain dictionary reads, without the bookkeeping of an LRU cache.
            if self._count >= self.MAX_ENTRIES:
                self._inside = {}
                self._count = 0
            self._count += 1
            self._inside.setdefault(place, {})[name] = path
        return path


_paths = PathCache()


def path_of_name(name: str, limits: Limits) -> str:
    """The path of a member of an event by its name; `EventError` where it cannot be one."""
    return _paths.inside(None).get(name) or _paths.learn(name, None, limits)


def are_paths(names: Iterable[str], limits: Limits) -> bool:
    """Whether names of members are paths as they stand; `EventError` where one cannot be a name."""
    known = _paths.inside(None)
    return all(known.get(name) == name or path_of_name(name, limits) == name for name in names)


def flatten(content: Any, limits: Limits) -> dict[str, Value]:
    """The attributes of an object by their paths; about 0.12 µs a scalar, twice that inside an array."""
    if type(content) is not dict:
        found = nested(content) if isinstance(content, Mapping) else members_of(content)
        if found is None:
            raise EventError(f"an event is a mapping of names to values, not {type_name(content)}")
        content = found
    attributes: dict[str, Value] = {}
    walk = _take_members(content, None, 1, limits, attributes, None)
    if walk is None or not walk.groups:
        return attributes
    grouped = GroupedAttributes(attributes, tuple(walk.groups))
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
    """Add the members of the object at a path; a walk is created at the first member that is no scalar."""
    if len(content) > limits.attributes:
        raise _too_many(limits)
    # Cached paths are short, so only a limit below their length could reject one.
    known = _paths.inside(place) if limits.name_length >= PathCache.MAX_PATH_LENGTH else {}
    for name, value in content.items():
        path = known.get(name)
        if path is None:
            path = _paths.learn(name, place, limits)
        kind = type(value)
        if kind is str:
            if not value.isascii():
                to_scalar(value, path)
        elif kind is int:
            if not MIN_INT64 <= value <= MAX_INT64:
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
    """One pass through nested content, which counts containers and values against the limits."""

    __slots__ = ("attributes", "containers", "groups", "lengths", "limits")

    def __init__(self, limits: Limits, attributes: dict[str, Value]) -> None:
        self.attributes = attributes
        self.groups: list[Group] = []
        self.containers = 0
        self.lengths: dict[str, int] = {}
        self.limits = limits

    def object(self, content: Mapping[Any, Any], place: str, depth: int) -> None:
        """Add the members of the object at a path."""
        _take_members(content, place, depth, self.limits, self.attributes, self)

    def visit(self, value: Any, path: str, depth: int) -> None:
        """Add the value at a path, of whatever type."""
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
            self.object(nested(value), path, depth)
        elif is_numpy(value):
            self.visit(from_numpy(value, path), path, depth)
        elif (members := members_of(value)) is not None:
            self.enter(path, depth)
            self.object(members, path, depth)
        else:
            self.visit(to_scalar(value, path), path, depth)

    def array(self, content: list[Any] | tuple[Any, ...], path: str, depth: int) -> None:
        """Add the elements of an array, as values of its path and of the paths below it."""
        self.enter(path, depth)
        limit = self.limits.array_length
        if len(content) > limit:
            raise EventError(f"an array of more than {limit:,} values", abbreviate(path))
        values: list[Scalar] = []
        elements: list[Element] = []
        is_empty = not content
        nested = 0
        for value in content:
            convert = CONVERT.get(type(value))
            if convert is not None:
                values.append(convert(value, path))
                continue
            # An element with attributes below its path is an object; one with values at its path is a nested array.
            element = self.element(value, path, depth + 1)
            found = element.ungrouped.get(path)
            if element.groups or len(element.ungrouped) > (path in element.ungrouped):
                elements.append(element)
            elif type(found) is tuple:
                values += found
                nested += len(found)
                is_empty = is_empty or not found
            elif path in element.ungrouped:
                values.append(found)  # type: ignore[arg-type]
        # Values of nested arrays were counted when those were visited.
        self.lengths[path] = length = self.lengths.get(path, 0) + len(values) - nested
        if length > limit:
            raise EventError(f"nested arrays of more than {limit:,} values", abbreviate(path))
        if elements:
            self.groups.append(Group(path, tuple(elements)))
        # An array of nothing but empty objects, which are ignored, is not an empty array: it is missing.
        if values or (is_empty and not elements):
            self.attributes[path] = tuple(values)

    def element(self, content: Any, path: str, depth: int) -> Element:
        """The attributes and groups of one element of an array."""
        attributes, groups = self.attributes, self.groups
        self.attributes, self.groups = {}, []
        self.visit(content, path, depth)
        element = Element(self.attributes, tuple(self.groups))
        self.attributes, self.groups = attributes, groups
        return element

    def enter(self, path: str, depth: int) -> None:
        """Count one more object or array, and check the limits on their number and depth."""
        # Depth alone does not bound the work: each of a hundred lists may hold the next one twice.
        self.containers += 1
        if self.containers > self.limits.containers:
            limit = self.limits.containers
            raise EventError(f"more than {limit:,} objects and arrays in one event", abbreviate(path))
        if depth > self.limits.depth:
            raise EventError(f"nested deeper than {self.limits.depth} levels", abbreviate(path))


def nested(content: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """A mapping whose keys are names of members; those of an Event are paths."""
    from palio.events.event import Event

    return content.to_dict() if isinstance(content, Event) else content


def unflatten(attributes: Mapping[str, Value]) -> dict[str, Any]:
    """Nested content with these attributes, such that `flatten` gives the same attributes."""
    if isinstance(attributes, GroupedAttributes):
        return _unflatten(attributes.ungrouped, attributes.groups)
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
        if last not in place:
            place[last] = held
        elif held != []:
            # Values beside an object, which only an array can hold: {"x": [1, {"a": 2}]}.
            beside = place[last] if isinstance(place[last], list) else [place[last]]
            place[last] = [*(held if isinstance(held, list) else [held]), *beside]
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
    """The object of this name inside another, created if necessary."""
    inner = place.setdefault(name, {})
    if inner == []:  # no content has an empty array and an object at one path: the object stays
        inner = place[name] = {}
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

"""Attribute names: dotted paths in one canonical spelling.

The name of an attribute is the path to it: the names of the enclosing objects and its own, joined by dots. A segment
that contains a dot or a back-quote is written in back-quotes, with back-quotes inside it doubled, so that `{"a": {"b":
1}}` and `{"a.b": 1}` stay two different attributes and every name can be written in SQL. A segment may be empty. Each
path has exactly one spelling: two names denote the same attribute iff they are equal strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from palio.errors import EventError
from palio.events.values import Limits, check_text, type_name

_SEGMENT = re.compile(r"`((?:[^`]|``)*)`|([^.`]*)")


def quote_segment(name: str) -> str:
    """One name as a segment of a path.

    >>> quote_segment("price"), quote_segment("id.orig_h"), quote_segment("a`b")
    ('price', '`id.orig_h`', '`a``b`')
    """
    if "." in name or "`" in name:
        return "`" + name.replace("`", "``") + "`"
    return name


def join_path(segments: Iterable[str]) -> str:
    """The path of these names, outermost first.

    >>> join_path(["user", "e.mail"])
    'user.`e.mail`'
    """
    return ".".join(map(quote_segment, segments))


def split_path(path: str) -> tuple[str, ...]:
    """The names of a path, outermost first; the inverse of `join_path`.

    >>> split_path("user.`e.mail`")
    ('user', 'e.mail')
    """
    segments: list[str] = []
    position = 0
    while True:
        match = _SEGMENT.match(path, position)
        assert match is not None  # the second branch matches the empty string
        quoted, plain = match.groups()
        segments.append(plain if quoted is None else quoted.replace("``", "`"))
        position = match.end()
        if position == len(path):
            return tuple(segments)
        if path[position] != ".":
            raise EventError(f"not an attribute name: a stray back-quote in {path[:200]!r}")
        position += 1


def check_path(path: object, limits: Limits) -> str:
    """Check that a path is a valid attribute name in canonical spelling, and return it."""
    if not isinstance(path, str):
        raise EventError(f"an attribute's name must be a string, not {type_name(path)}")
    path = str.__str__(path)
    if len(path) > limits.name_length:
        raise _too_long(path, limits)
    check_text(path, None, "a name")
    canonical = join_path(split_path(path))
    if canonical != path:
        raise EventError(f"the attribute {path[:200]!r} is spelled {canonical[:200]!r}")
    return path


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
            raise _too_long(path, limits)
        if len(path) <= self.MAX_PATH_LENGTH:
            # Emptied as a whole: lookups stay plain dictionary reads, without the bookkeeping of an LRU cache.
            if self._count >= self.MAX_ENTRIES:
                self._inside = {}
                self._count = 0
            self._count += 1
            self._inside.setdefault(place, {})[name] = path
        return path


def _too_long(path: str, limits: Limits) -> EventError:
    return EventError(f"an attribute's name of more than {limits.name_length:,} characters", abbreviate(path))


def abbreviate(path: str) -> str:
    """A path shortened for a message."""
    return path if len(path) <= 80 else path[:77] + "..."

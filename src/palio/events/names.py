"""Attribute names: dotted paths in one canonical spelling.

The name of an attribute is the path to it: the names of the enclosing objects and its own, joined by dots. A segment
that contains a dot or a back-quote is written in back-quotes, with back-quotes inside it doubled, so that `{"a": {"b":
1}}` and `{"a.b": 1}` stay two different attributes and every name can be written in SQL. A segment may be empty. Each
path has exactly one spelling: two names denote the same attribute iff they are equal strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

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


def dot_readings(name: str) -> list[tuple[str, ...]]:
    """Every way to take the dots of a name as steps into objects or as characters of a name; all as steps first.

    There are 2ⁿ for n dots, so callers bound the dots first.

    >>> dot_readings("a.b.c")
    [('a', 'b', 'c'), ('a.b', 'c'), ('a', 'b.c'), ('a.b.c',)]
    """
    first, dot, rest = name.partition(".")
    if not dot:
        return [(name,)]
    return [
        reading for after in dot_readings(rest) for reading in ((first, *after), (f"{first}.{after[0]}", *after[1:]))
    ]


def enclosing_paths(path: str) -> tuple[str, ...]:
    """The paths of everything around an attribute, innermost first.

    >>> enclosing_paths("order.items.sku"), enclosing_paths("price")
    (('order.items', 'order'), ())
    """
    segments = split_path(path)
    return tuple(join_path(segments[:length]) for length in range(len(segments) - 1, 0, -1))


def check_path(path: object, limits: Limits) -> str:
    """Check that a path is a valid attribute name in canonical spelling, and return it."""
    if not isinstance(path, str):
        raise EventError(f"an attribute's name must be a string, not {type_name(path)}")
    path = str.__str__(path)
    if len(path) > limits.name_length:
        raise name_too_long(path, limits)
    check_text(path, None, "a name")
    canonical = join_path(split_path(path))
    if canonical != path:
        raise EventError(f"the attribute {path[:200]!r} is spelled {canonical[:200]!r}")
    return path


def name_too_long(path: str, limits: Limits) -> EventError:
    """The error for a path beyond the limit."""
    return EventError(f"an attribute's name of more than {limits.name_length:,} characters", abbreviate(path))


def abbreviate(path: str) -> str:
    """A path shortened for a message."""
    return path if len(path) <= 80 else path[:77] + "..."


def list_first(names: Sequence[str], limit: int) -> str:
    """The first names, and how many more there are; for messages.

    >>> list_first(["a", "b"], 2), list_first(["a", "b", "c", "d"], 2)
    ('a, b', 'a, b and 2 more')
    """
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more:,} more" if more > 0 else "")

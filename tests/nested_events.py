"""Generator of events with arrays of objects, and of all their choices."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "a.b", "a.c", "a.b.d", "e", "e.b")
SCALARS = st.one_of(st.integers(0, 3), st.sampled_from(["x", "y", "z"]), st.none(), st.just(1.5))


def nested_events() -> st.SearchStrategy[dict[str, Any]]:
    """An event of few names and values, with arrays in objects and objects in arrays."""
    objects = st.dictionaries(st.sampled_from("bcd"), st.deferred(lambda: inner), max_size=3)
    inner = st.one_of(SCALARS, objects, st.lists(st.deferred(lambda: inner), max_size=3))
    arrays = st.lists(st.one_of(objects, objects, SCALARS, st.lists(objects, max_size=2)), max_size=3)
    return st.fixed_dictionaries({}, optional={"a": st.one_of(arrays, inner), "e": st.one_of(arrays, inner)})


def readings(value: Any, path: str = "") -> Iterator[dict[str, tuple[Any, ...]]]:
    """What a value says for each choice of one object per array: the values at every path, of which one is meant."""
    if isinstance(value, dict):
        parts = [list(readings(inner, f"{path}.{name}" if path else name)) for name, inner in value.items()]
        yield from map(_joined, product(*parts))
    elif not isinstance(value, list):
        yield {path: (value,)}
    else:
        beside = {path: tuple(_values(value))}
        objects = [reading for inner in value if has_object(inner) for reading in readings(inner, path)]
        for each in objects or [{}]:
            yield _joined((beside, each))


def _joined(parts: tuple[dict[str, tuple[Any, ...]], ...]) -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for part in parts:
        for path, values in part.items():
            found[path] = (*found.get(path, ()), *values)
    return found


def has_object(value: Any) -> bool:
    """Whether a value is an object with something in it, or an array of such."""
    if isinstance(value, dict):
        return any(map(_says_something, value.values()))
    return isinstance(value, list) and any(map(has_object, value))


def _says_something(value: Any) -> bool:
    if isinstance(value, dict | list):
        # An empty array is a value, an empty object is none.
        return value == [] or any(map(_says_something, value.values() if isinstance(value, dict) else value))
    return True


def _values(value: Any) -> Iterator[Any]:
    """The values of an array, and of the arrays in it that have no objects."""
    if isinstance(value, list):
        for inner in value:
            if not has_object(inner):
                yield from _values(inner)
    elif not isinstance(value, dict):
        yield value

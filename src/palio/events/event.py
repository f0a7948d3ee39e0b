"""What happened: an event is a set of (attribute, value) pairs.

An event is content plus an identity. The content is flat: attribute names are dotted paths (`names.py`), a
value is a scalar of one of nine kinds (`values.py`) or, where the source had an array, a tuple of them;
what is missing is absent, what is null is None. The identity is CloudEvents' own, `id`, `source` and
`time`: two events are the same event iff `source` and `id` are equal, whatever they say. An id nobody gave
is made when somebody asks for it, because making one costs as much as reading the whole event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Self

from palio.errors import EventError
from palio.events.flatten import flatten, unflatten
from palio.events.groups import Grouped
from palio.events.ids import random_id
from palio.events.json import parse_object, write_json
from palio.events.limits import DEFAULT_LIMITS, Limits
from palio.events.names import check_path
from palio.events.values import Scalar, Value, check_text, to_scalar, to_utc, type_name


class Event:
    """One thing that happened.

    The constructor takes attributes by their canonical names, each with a scalar or a tuple of scalars;
    `from_dict`, `from_json`, `from_cloudevent` and `from_arrow` take content as it is found, nested or not.

    >>> event = Event.from_dict({"symbol": "ACME", "quote": {"price": 120, "tags": ["a", "b"]}})
    >>> event.get("quote.price"), event.get("quote.tags"), event.get("volume")
    (120, ('a', 'b'), None)
    """

    __slots__ = ("_attributes", "_id", "_source", "_time")

    def __init__(
        self,
        attributes: Mapping[str, Any],
        id: str | None = None,
        source: str | None = None,
        time: datetime | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._attributes = _checked_attributes(attributes, limits)
        self._identify(id, source, time)

    @classmethod
    def read(cls, event: Event | Mapping[str, Any] | str | bytes, *, limits: Limits = DEFAULT_LIMITS) -> Event:
        """An event from whatever a caller holds: an Event as it is, a mapping, or JSON text."""
        if isinstance(event, Event):
            return event
        if isinstance(event, str | bytes | bytearray | memoryview):
            return cls.from_json(event, limits=limits)
        return cls.from_dict(event, limits=limits)

    @classmethod
    def from_dict(
        cls,
        content: Mapping[str, Any],
        *,
        id: str | None = None,
        source: str | None = None,
        time: datetime | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Self:
        """An event from a mapping, nested or flat; about 2 µs for ten scalars."""
        event: Self = _new(cls)
        event._attributes = flatten(content, limits)
        if id is None and source is None and time is None:
            event._id = event._source = event._time = None
        else:
            event._identify(id, source, time)
        return event

    @classmethod
    def from_json(
        cls,
        text: str | bytes | bytearray | memoryview,
        *,
        id: str | None = None,
        source: str | None = None,
        time: datetime | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Event:
        """An event from the text of one JSON object (bytes are UTF-8); about 4 µs for ten scalars."""
        event: Event = _new(cls)
        event._attributes = flatten(parse_object(text, limits), limits)
        if id is None and source is None and time is None:
            event._id = event._source = event._time = None
        else:
            event._identify(id, source, time)
        return event

    @classmethod
    def from_cloudevent(
        cls,
        event: Mapping[str, Any] | str | bytes | bytearray | memoryview,
        headers: Mapping[str, str] | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Event:
        """An event from a CloudEvent 1.0: a mapping or JSON (structured), or an HTTP body and its headers."""
        from palio.events.cloudevents import read_cloudevent

        content, time = read_cloudevent(event, headers, limits)
        made: Event = _new(cls)
        made._attributes = flatten(content, limits)
        made._identify(content["id"], content["source"], time)
        return made

    @classmethod
    def from_arrow(cls, data: Any, *, limits: Limits = DEFAULT_LIMITS) -> Iterator[Event]:
        """An event per row of a pyarrow Table or RecordBatch, or of anything that exports an Arrow stream.

        Types that no event can hold are refused at once, values when their batch is reached.
        """
        from palio.events.arrow import read_rows

        return (cls._made(attributes) for attributes in read_rows(data, limits))

    @classmethod
    def _made(cls, attributes: dict[str, Value]) -> Event:
        """An event of attributes that are known to be right."""
        event: Event = _new(cls)
        event._attributes = attributes
        event._id = event._source = event._time = None
        return event

    def _identify(self, id: Any, source: Any, time: Any) -> None:
        self._id = id if type(id) is str and id and id.isascii() else _checked_name(id, "id")
        self._source = None if source is None else _checked_name(source, "source")
        if time is not None and not isinstance(time, datetime):
            raise EventError(f"the time of an event must be a datetime, not {type_name(time)}", "time")
        self._time = None if time is None else to_utc(time, "time")

    @property
    def attributes(self) -> Mapping[str, Value]:
        """Every attribute that is present, by its canonical name; never to be changed."""
        return self._attributes

    @property
    def id(self) -> str:
        """Unique together with `source`; a random UUID where none was given."""
        if self._id is None:
            self._id = random_id()
        return self._id

    @property
    def source(self) -> str | None:
        """Who says so: a URI reference, as CloudEvents means it."""
        return self._source

    @property
    def time(self) -> datetime | None:
        """When it happened, in UTC."""
        return self._time

    def get(self, name: str) -> Value:
        """The value of an attribute; None where it is null or missing, which `attributes` tells apart."""
        return self._attributes.get(name)

    def to_dict(self) -> dict[str, Any]:
        """The content, nested again: `Event.from_dict` makes the same attributes of it."""
        return unflatten(self._attributes)

    def to_json(self) -> str:
        """The content as JSON text.

        What JSON has no form for becomes a string, as in Spark's `to_json`: dates and timestamps in ISO 8601,
        bytes in Base64, NaN and the infinities by name. Decimals are written as numbers, digit by digit. The bytes of
        a CloudEvent are its `data_base64`, so that it can be read as one again.
        """
        from palio.events.cloudevents import with_base64

        return write_json(with_base64(self.to_dict()))

    def said_by(self, source: str) -> Event:
        """The same event with another source."""
        return _restored(self._attributes, self.id, source, self._time)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event):
            return NotImplemented
        return self is other or (self.id == other.id and self._source == other._source)

    def __hash__(self) -> int:
        return hash((self._source, self.id))

    def __repr__(self) -> str:
        given = [("id", self._id), ("source", self._source), ("time", self._time)]
        identity = "".join(f", {name}={value!r}" for name, value in given if value is not None)
        return f"Event({self._attributes!r}{identity})"

    def __reduce__(self) -> tuple[Any, ...]:
        # With its id: a copy, in this process or another, is the same event.
        return _restored, (self._attributes, self.id, self._source, self._time)


_new = object.__new__


def _restored(attributes: dict[str, Value], id: str, source: str | None, time: datetime | None) -> Event:
    event = Event._made(attributes)
    event._identify(id, source, time)
    return event


def _checked_attributes(attributes: Any, limits: Limits) -> dict[str, Value]:
    if not isinstance(attributes, Mapping):
        raise EventError(f"attributes are a mapping of names to values, not {type_name(attributes)}")
    if len(attributes) > limits.attributes:
        raise EventError(f"more than {limits.attributes:,} attributes in one event")
    if isinstance(attributes, Grouped):
        return Grouped(_checked_attributes(attributes.alone, limits), attributes.groups)  # which an event has read
    checked: dict[str, Value] = {}
    for name, value in attributes.items():
        path = check_path(name, limits)
        if isinstance(value, Mapping):
            raise EventError("an attribute holds scalars; Event.from_dict takes nested content", path)
        if not isinstance(value, list | tuple):
            checked[path] = to_scalar(value, path)
        elif len(value) > limits.array_length:
            raise EventError(f"an array of more than {limits.array_length:,} values", path)
        elif value:
            several: tuple[Scalar, ...] = tuple(to_scalar(one, path) for one in value)
            checked[path] = several
    return checked


def _checked_name(name: Any, what: str) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str):
        raise EventError(f"the {what} of an event must be a string, not {type_name(name)}", what)
    if not name:
        raise EventError(f"the {what} of an event must not be empty", what)
    check_text(name, what)
    return str.__str__(name)

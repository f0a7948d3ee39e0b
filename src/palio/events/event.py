"""Event: an immutable mapping of attributes to values, with an identity.

The content is flat: attribute names are dotted paths (`names.py`), a value is a scalar of one of nine kinds
(`values.py`) or, where the source had an array, a tuple of them, which may be empty; a missing attribute is absent, a
null is None. The identity is that of CloudEvents, `id`, `source` and `time`: two events are the same event iff `source`
and `id` are equal, whatever their content. Equality and hash are those of the identity, not of the content as in other
mappings: an event that is delivered twice is one event. An id that was not given is generated on demand, because that
costs as much as reading the whole event.
"""

from __future__ import annotations

import os
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from datetime import datetime
from random import Random
from typing import Any, Self, TypeVar, overload

from palio.errors import EventError
from palio.events.json import parse_object, write_json
from palio.events.names import check_path
from palio.events.nested_content import GroupedAttributes, flatten, unflatten
from palio.events.values import (
    DEFAULT_LIMITS,
    XML_ATTRIBUTE,
    Limits,
    Scalar,
    Value,
    check_limits,
    check_text,
    to_scalar,
    to_utc,
    type_name,
)

_T = TypeVar("_T")


class Event(Mapping[str, Value]):
    """One thing that happened: a mapping from attribute names to values.

    The constructor takes attributes by their canonical names, each with a scalar or a tuple of scalars;
    `from_dict`, `from_json`, `from_cloudevent`, `from_xml` and `from_arrow` take content as it is found, nested or not.

    >>> event = Event.from_dict({"symbol": "ACME", "quote": {"price": 120, "tags": ["a", "b"]}})
    >>> event["quote.price"], event["quote.tags"], event.get("volume"), "volume" in event
    (120, ('a', 'b'), None, False)
    >>> dict(event)
    {'symbol': 'ACME', 'quote.price': 120, 'quote.tags': ('a', 'b')}
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
        self._attributes = _checked_attributes(attributes, check_limits(limits))
        self._identify(id, source, time)

    @classmethod
    def read(cls, event: Any, *, limits: Limits = DEFAULT_LIMITS) -> Event:
        """An Event as it is, or an event from a mapping, JSON or XML text, a dataclass or a Series of pandas."""
        # Before the check for Event, which is slow for all other types: that of an abstract base class.
        if type(event) is dict:
            return cls.from_dict(event, limits=limits)
        if isinstance(event, Event):
            return event
        if isinstance(event, str | bytes | bytearray | memoryview):
            return cls.from_text(event, limits=limits)
        return cls.from_dict(event, limits=limits)

    @classmethod
    def from_text(cls, text: str | bytes | bytearray | memoryview, *, limits: Limits = DEFAULT_LIMITS) -> Event:
        """An event from a JSON object, or from an XML document, whose text begins with <, as the attribute `xml`."""
        if text[:1] in ("{", b"{"):
            return cls.from_json(text, limits=limits)
        from palio.events.xml import is_document

        return cls.from_xml(text, limits=limits) if is_document(text) else cls.from_json(text, limits=limits)

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
        event._attributes = flatten(content, limits if limits is DEFAULT_LIMITS else check_limits(limits))
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
        event._attributes = flatten(parse_object(text, check_limits(limits)), limits)
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

        content, time = read_cloudevent(event, headers, check_limits(limits))
        made: Event = _new(cls)
        made._attributes = flatten(content, limits)
        made._identify(content["id"], content["source"], time)
        return made

    @classmethod
    def from_xml(
        cls,
        document: str | bytes | bytearray | memoryview,
        attributes: Mapping[str, Any] | None = None,
        *,
        attribute: str = XML_ATTRIBUTE,
        id: str | None = None,
        source: str | None = None,
        time: datetime | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Event:
        """An event whose attribute `xml` (or another) is the text of an XML document, with further attributes.

        The document is parsed, at about 0.6 µs an element; `DocumentError` has the line and column of what is wrong.

        >>> event = Event.from_xml(b"<quote><symbol>ACME</symbol></quote>", {"feed": "nyse"})
        >>> dict(event)
        {'feed': 'nyse', 'xml': '<quote><symbol>ACME</symbol></quote>'}
        """
        from palio.events.xml import document_text

        text = document_text(document, check_limits(limits))
        content = dict(cls.from_dict(attributes, limits=limits)) if attributes is not None else {}
        if attribute in content:
            raise EventError("the attribute of the document is given twice", attribute)
        return cls({**content, attribute: text}, id, source, time, limits=limits)

    @classmethod
    def from_arrow(cls, data: Any, *, limits: Limits = DEFAULT_LIMITS) -> Iterator[Event]:
        """An event per row of a pyarrow Table or RecordBatch, or of anything that exports an Arrow stream.

        Types that no event can hold are refused at once, values when their batch is reached.
        """
        from palio.events.arrow import read_rows

        return (cls._made(attributes) for attributes in read_rows(data, check_limits(limits)))

    @classmethod
    def _made(cls, attributes: dict[str, Value]) -> Event:
        """An event of checked attributes."""
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
        """Every attribute that is present, by its canonical name; must not be changed."""
        return self._attributes

    @property
    def id(self) -> str:
        """Unique together with `source`; a random UUID where none was given."""
        if self._id is None:
            self._id = random_id()
        return self._id

    @property
    def source(self) -> str | None:
        """The origin of the event: a URI reference, as in CloudEvents."""
        return self._source

    @property
    def time(self) -> datetime | None:
        """When it happened, in UTC."""
        return self._time

    def __getitem__(self, name: str) -> Value:
        return self._attributes[name]

    def __contains__(self, name: object) -> bool:
        return name in self._attributes

    def __len__(self) -> int:
        return len(self._attributes)

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def __bool__(self) -> bool:
        # An event without attributes is an event: `if event` tests for None.
        return True

    @overload
    def get(self, name: str) -> Value: ...
    @overload
    def get(self, name: str, default: Value | _T) -> Value | _T: ...
    def get(self, name: str, default: Any = None) -> Any:
        """The value of an attribute, which may be null (None); the default where it is missing."""
        return self._attributes.get(name, default)

    # The views of the dict itself, which are faster than those of Mapping.

    def keys(self) -> KeysView[str]:
        return self._attributes.keys()

    def values(self) -> ValuesView[Value]:
        return self._attributes.values()

    def items(self) -> ItemsView[str, Value]:
        return self._attributes.items()

    def to_dict(self) -> dict[str, Any]:
        """The content as nested dicts and lists, the inverse of `Event.from_dict`; `dict(event)` is flat."""
        return unflatten(self._attributes)

    def to_json(self) -> str:
        """The content as JSON text.

        Values that JSON cannot represent become strings, as in Spark's `to_json`: dates and timestamps in ISO 8601,
        bytes in Base64, NaN and the infinities by name. Decimals are written as numbers, digit by digit. The bytes of
        a CloudEvent are its `data_base64`, so that it can be read as one again.
        """
        from palio.events.cloudevents import with_base64

        return write_json(with_base64(self.to_dict()))

    def said_by(self, source: str) -> Event:
        """A copy with another source."""
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
        # With its id, which is generated now if necessary: a copy, in this process or another, is the same event.
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
    if isinstance(attributes, Event):
        attributes = attributes._attributes
    if isinstance(attributes, GroupedAttributes):
        # The groups were checked when the event was read that they come from.
        return GroupedAttributes(_checked_attributes(attributes.ungrouped, limits), attributes.groups)
    checked: dict[str, Value] = {}
    for name, value in attributes.items():
        path = check_path(name, limits)
        if isinstance(value, Mapping):
            raise EventError("an attribute holds scalars; Event.from_dict takes nested content", path)
        if not isinstance(value, list | tuple):
            checked[path] = to_scalar(value, path)
        elif len(value) > limits.array_length:
            raise EventError(f"an array of more than {limits.array_length:,} values", path)
        else:
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


# A generator of its own, seeded once per process: asking the operating system for every event costs as much as reading
# the event, and a program that seeds Python's generator must not repeat the ids of another run.
_random = Random()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)
_UUID4_MASK, _UUID4_BITS = ~(0xF << 76 | 0x3 << 62), 0x4 << 76 | 0x2 << 62


def random_id() -> str:
    """A random UUID (RFC 9562 §5.4) as text; about half a microsecond.

    >>> len(random_id()), random_id()[14]
    (36, '4')
    """
    digits = f"{_random.getrandbits(128) & _UUID4_MASK | _UUID4_BITS:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

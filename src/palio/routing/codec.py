"""How is anything written down that leaves a broker? One binary form, MessagePack with short tags, and its version.

Bytes from outside are hostile until read: whatever they are, what comes out is a message or a `WireError`. A filter is
its canonical text, read once and remembered, so that brokers of one process share it. The body of an event keeps the
nine kinds of value apart; MessagePack has no decimal and no date, they are extensions of it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final, TypeVar, get_args

import msgspec
from msgspec import Struct

from palio.errors import EventError, PalioError, WireError
from palio.events import Event, Limits
from palio.events.limits import DEFAULT_LIMITS
from palio.filters.filter import Filter
from palio.routing.clients import Answer, ClientRequest
from palio.routing.frames import Frame
from palio.routing.messages import Message

VERSION: Final = 1  # of all that is written here; neighbours of another version are refused when a link is set up
LONGEST_FRAME: Final = 32 * 1024 * 1024
_LONGEST_FILTER: Final = 1024 * 1024
_REMEMBERED_FILTERS: Final = 65_536
_SHORT_FILTER: Final = 1024
_REMEMBERED_LONG_FILTERS: Final = 64
_DECIMAL, _DATE = 1, 2
_UNREADABLE: Final = msgspec.DecodeError, RecursionError, UnicodeError, OverflowError, InvalidOperation, ValueError
_Event = TypeVar("_Event", bound=Event)
_WRITTEN_AS_IT_IS: Final = frozenset((str, int, float, bool, type(None), bytes, datetime))

# What traffic is counted by: the kinds of messages by their tags.
KINDS: Final[dict[int, str]] = {
    each.__struct_config__.tag: each.__name__.lower() for each in (*get_args(Message), *get_args(Frame))
}
HELLO, GRANT, PACKET, PUBLISH = (
    next(tag for tag, name in KINDS.items() if name == kind) for kind in ("hello", "grant", "packet", "publish")
)


def encode(message: Message | Frame | ClientRequest | Answer) -> bytes:
    """A message as bytes."""
    return _encoder.encode(message)


def encode_any(message: Struct | tuple[int, ...]) -> bytes:
    """Anything that is said in this form elsewhere, as bytes."""
    return _encoder.encode(message)


def reader(kinds: Any) -> Callable[[bytes], Any]:
    """A function that reads one of some kinds of messages, whoever says them; it raises `WireError` for others."""
    return _reading(msgspec.msgpack.Decoder(kinds, dec_hook=_filter))


def _reading(decoder: msgspec.msgpack.Decoder[Any]) -> Callable[[bytes], Any]:
    decode = decoder.decode

    def read(data: bytes) -> Any:
        if len(data) > LONGEST_FRAME:
            raise WireError(f"{len(data):,} bytes are more than one message may have")
        try:
            return decode(data)
        except _UNREADABLE as error:
            raise WireError(str(error) or type(error).__name__) from None

    return read


def kind_of(data: bytes) -> int:
    """The tag of an encoded message: every one is an array that begins with it."""
    return data[1]


def encode_event(event: Event) -> bytes:
    """The body of an event, with its identity."""
    return _encoder.encode((event.id, event.source, event.time, _content(event)))


def decode_event(body: bytes, limits: Limits = DEFAULT_LIMITS) -> Event:
    """An event from its body; `WireError` or `EventError` for bytes that are none."""
    return decode_event_as(Event, body, limits)


def decode_event_as(kind: type[_Event], body: bytes, limits: Limits = DEFAULT_LIMITS) -> _Event:
    """The same as an event of some class."""
    id, source, time, content = _read_body(body)
    return kind.from_dict(content, id=id, source=source, time=time, limits=limits)


def _content(event: Event) -> Any:
    """What an event says as it is written: most have no objects, arrays, decimals or dates, and stay as they are."""
    attributes = event.attributes
    if type(attributes) is dict and _WRITTEN_AS_IT_IS.issuperset(map(type, attributes.values())):
        names = "".join(attributes)
        if "." not in names and "`" not in names:
            return attributes
    return _portable(event.to_dict())


def _portable(value: Any) -> Any:
    """Content in which decimals and dates are what they are; MessagePack would make text of them."""
    kind = type(value)
    if kind is dict:
        return {name: _portable(one) for name, one in value.items()}
    if kind is list or kind is tuple:
        return [_portable(one) for one in value]
    if kind is Decimal:
        return msgspec.msgpack.Ext(_DECIMAL, str(value).encode())
    if kind is date:
        return msgspec.msgpack.Ext(_DATE, value.toordinal().to_bytes(4, "big"))
    return value


def _extension(code: int, data: memoryview) -> Any:
    if code == _DECIMAL:
        return Decimal(bytes(data).decode("ascii"))
    if code == _DATE:
        return date.fromordinal(int.from_bytes(data, "big"))
    raise EventError(f"an extension {code} that no event has")


def _plain(value: Any) -> Any:
    if isinstance(value, Filter):
        return str(value) if value.timezone == "UTC" else (value.timezone, str(value))
    raise TypeError(f"nothing that is sent has a {type(value).__name__}")


def _filter(kind: type, value: Any) -> Any:
    zone, text = ("UTC", value) if isinstance(value, str) else value
    if not isinstance(zone, str) or not isinstance(text, str) or len(text) > _LONGEST_FILTER:
        raise WireError("a filter is its text, of bounded length, or a time zone and its text")
    if len(text) <= _SHORT_FILTER:
        return _short(zone, text)
    found = _long(zone, text)
    if isinstance(found, PalioError):
        raise found.with_traceback(None)
    return found


@lru_cache(_REMEMBERED_FILTERS)
def _short(zone: str, text: str) -> Filter:
    return Filter.parse(text, timezone=zone)


@lru_cache(_REMEMBERED_LONG_FILTERS)
def _long(zone: str, text: str) -> Filter | PalioError:
    """A filter that takes long to read, or why it cannot be: a server reads it in another thread first."""
    try:
        return Filter.parse(text, timezone=zone)
    except PalioError as error:
        return error


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_plain)
_BODY: Final = tuple[str, str | None, datetime | None, dict[str, Any]]
_read_body: Final = _reading(msgspec.msgpack.Decoder(_BODY, ext_hook=_extension))  # extensions are of events alone
# What a neighbour said, or its session; what its broker said; what a client asked for; what a broker answered it.
decode: Final[Callable[[bytes], Message | Frame]] = reader(Message | Frame)
decode_message: Final[Callable[[bytes], Message]] = reader(Message)
decode_request: Final[Callable[[bytes], ClientRequest]] = reader(ClientRequest)
decode_answer: Final[Callable[[bytes], Answer]] = reader(Answer)

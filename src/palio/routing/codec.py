"""Wire format: MessagePack with short tags, for all that leaves a broker.

Bytes from outside are hostile until decoded: whatever they are, the result is a message or a `WireError`. A filter
travels as its canonical text, parsed once and cached, so that brokers of one process share it. The body of an event
keeps the nine kinds of value apart; MessagePack has no decimal and no date, they are extensions of it.

A broker that forwards by header need not read the body of an event that it only passes on. So an event is routed as an
`Arrival`, which decodes body and header at most once, when they are first read.

The envelope of an event carries hop timestamps, where brokers have wall clocks. One is added when a broker writes the
event to its links, and completed when the next one reads it. The clocks of two brokers differ: a timestamp is what
either of them believed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from palio.errors import EventError, PalioError, ParseError, WireError
from palio.events import Event, Limits
from palio.events.values import DEFAULT_LIMITS
from palio.filters.filter import Filter
from palio.filters.stored_filter import StoredFilter
from palio.routing.client_messages import AdvertiseClient, Answer, ClientRequest, SubscribeClient
from palio.routing.forwarding import headers
from palio.routing.messages import Frame, Message, Publish, PublishColumns
from palio.routing.sealing import Keyring, event_context

WIRE_VERSION: Final = 1  # neighbours of another version are refused when a link is set up
CANONICAL_TEXT_VERSION: Final = 2  # of the forms of filters and predicates that digests are made of
MAX_FRAME_BYTES: Final = 32 * 1024 * 1024
_MAX_FILTER_CHARACTERS: Final = 1024 * 1024
_MAX_CACHED_FILTERS: Final = 65_536
_SHORT_FILTER_CHARACTERS: Final = 1024
_MAX_CACHED_LONG_FILTERS: Final = 64
_DECIMAL, _DATE = 1, 2  # codes of extensions
_DECODE_ERRORS: Final = msgspec.DecodeError, RecursionError, UnicodeError, OverflowError, InvalidOperation, ValueError
_NOT_DECODED: Any = object()  # None is a value of `_header`
_Event = TypeVar("_Event", bound=Event)
_PLAIN_TYPES: Final = frozenset((str, int, float, bool, type(None), bytes, datetime))

# The names by which traffic is counted, by the tags of messages.
MESSAGE_KINDS: Final[dict[int, str]] = {
    each.__struct_config__.tag: each.__name__.lower() for each in (*get_args(Message), *get_args(Frame))
}
HELLO, GRANT, PACKET, PUBLISH, PUBLISH_COLUMNS = (
    next(tag for tag, name in MESSAGE_KINDS.items() if name == kind)
    for kind in ("hello", "grant", "packet", "publish", "publishcolumns")
)


class _BatchBegin(Struct, array_like=True, tag=PUBLISH_COLUMNS):
    id: msgspec.Raw
    count: int


def encode(message: Message | Frame | ClientRequest | Answer) -> bytes:
    """Encode a message."""
    return _encoder.encode(message)


def encode_any(message: Struct | tuple[int, ...]) -> bytes:
    """Encode a message of another protocol that has this wire format."""
    return _encoder.encode(message)


def reader(kinds: Any, max_bytes: int = MAX_FRAME_BYTES) -> Callable[[bytes], Any]:
    """A function that decodes a message of one of some kinds, and raises `WireError` for anything else."""
    return checked(msgspec.msgpack.Decoder(kinds, dec_hook=_decode_filter).decode, max_bytes)


def checked(decode: Callable[[bytes], Any], max_bytes: int = MAX_FRAME_BYTES) -> Callable[[bytes], Any]:
    """A decoder that raises `WireError` for whatever cannot be decoded."""

    def read(data: bytes) -> Any:
        if len(data) > max_bytes:
            raise WireError(f"{len(data):,} bytes are more than one message may have")
        try:
            return decode(data)
        except _DECODE_ERRORS as error:
            # msgspec wraps every ValueError. A filter that cannot be read is the subscriber's mistake, not the wire's.
            if isinstance(error.__cause__, ParseError):
                raise error.__cause__.with_traceback(None) from None
            raise WireError(str(error) or type(error).__name__) from None

    return read


def kind_of(data: bytes) -> int:
    """The tag of an encoded message, which is the first item of an array."""
    return data[1]


def count_of_batch(data: bytes) -> int:
    """The number of events in an encoded batch, without decoding its body; 0 for bytes that are none."""
    try:
        return _batch_begin.decode(data).count
    except _DECODE_ERRORS:
        return 0


def encode_event(event: Event) -> bytes:
    """Encode the body of an event, with its id, source and time."""
    return _encoder.encode((event.id, event.source, event.time, _content(event)))


def encode_rows(rows: Iterable[tuple[str, str | None, datetime | None, dict[str, Any]]]) -> list[bytes]:
    """Encode the bodies of events given by id, source, time and attributes, which are plain and not nested."""
    return list(map(_encoder.encode, rows))


def decode_event(body: bytes, limits: Limits = DEFAULT_LIMITS) -> Event:
    """Decode an event from its body; `WireError` or `EventError` for anything else."""
    return decode_event_as(Event, body, limits)


def decode_event_as(kind: type[_Event], body: bytes, limits: Limits = DEFAULT_LIMITS) -> _Event:
    """Decode an event as one of a subclass."""
    id, source, time, content = _decode_body(body)
    return kind.from_dict(content, id=id, source=source, time=time, limits=limits)


def _content(event: Event) -> Any:
    """The content of an event for the encoder. Most have no objects, arrays, decimals or dates: no conversion."""
    attributes = event.attributes
    if type(attributes) is dict and _PLAIN_TYPES.issuperset(map(type, attributes.values())):
        # A dot or a backtick in a name stands for nesting, which `to_dict` restores.
        names = "".join(attributes)
        if "." not in names and "`" not in names:
            return attributes
    return _portable(event.to_dict())


def _portable(value: Any) -> Any:
    """Content with decimals and dates as extensions; the encoder would make text of them."""
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


def _decode_extension(code: int, data: memoryview) -> Any:
    if code == _DECIMAL:
        return Decimal(bytes(data).decode("ascii"))
    if code == _DATE:
        return date.fromordinal(int.from_bytes(data, "big"))
    raise EventError(f"an extension {code} that no event has")


def _encode_filter(value: Any) -> Any:
    """Hook of the encoder for what MessagePack lacks: a filter is its text, with a time zone other than UTC; an event
    in a message between peers is its body."""
    if isinstance(value, Filter):
        return str(value) if value.timezone == "UTC" else (value.timezone, str(value))
    if isinstance(value, Event):
        return encode_event(value)
    raise TypeError(f"a message cannot contain a {type(value).__name__}")


def _decode_filter(kind: type, value: Any) -> Any:
    if kind is Event:
        if not isinstance(value, bytes):
            raise WireError("an event is its body, in bytes")
        return decode_event(value)
    zone, text = ("UTC", value) if isinstance(value, str) else value
    if not isinstance(zone, str) or not isinstance(text, str) or len(text) > _MAX_FILTER_CHARACTERS:
        raise WireError("a filter is its text, of bounded length, or a time zone and its text")
    # Two caches, so that a few very long filters cannot push out the many short ones, nor fill the memory.
    if len(text) <= _SHORT_FILTER_CHARACTERS:
        return _parse_short(zone, text)
    parsed = _parse_long(zone, text)
    if isinstance(parsed, PalioError):
        # Without its traceback, which would grow each time that the cached error is raised.
        raise parsed.with_traceback(None)
    return parsed


@lru_cache(_MAX_CACHED_FILTERS)
def _parse_short(zone: str, text: str) -> Filter:
    return Filter.parse(text, timezone=zone)


@lru_cache(_MAX_CACHED_LONG_FILTERS)
def _parse_long(zone: str, text: str) -> Filter | PalioError:
    """A long filter, or the error of parsing it, cached because a server parses it in another thread first."""
    try:
        return Filter.parse(text, timezone=zone)
    except PalioError as error:
        return error


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_encode_filter)
_envelope: Final = msgspec.msgpack.Decoder(tuple[str, str | None, datetime | None, msgspec.Raw])
_content_decoder: Final = msgspec.msgpack.Decoder(dict[str, Any], ext_hook=_decode_extension)  # only events have these
_batch_begin: Final = msgspec.msgpack.Decoder(_BatchBegin)
_members: Final = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_elements: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])
# Frames of a link; messages between brokers; requests of clients; answers to them.
decode: Final[Callable[[bytes], Message | Frame]] = reader(Message | Frame)
decode_message: Final[Callable[[bytes], Message]] = reader(Message)
decode_request: Final[Callable[[bytes], ClientRequest]] = reader(ClientRequest)
decode_answer: Final[Callable[[bytes], Answer]] = reader(Answer)
_decode_standing: Final = checked(
    msgspec.msgpack.Decoder(SubscribeClient | AdvertiseClient, dec_hook=lambda kind, value: _unparsed(value)).decode
)


def decode_stored_request(data: bytes, digest: bytes) -> SubscribeClient | AdvertiseClient:
    """A standing request whose filter has this digest, and is parsed when it is needed (`StoredFilter`)."""
    request: SubscribeClient | AdvertiseClient = _decode_standing(data)
    (request.wanted if isinstance(request, SubscribeClient) else request.offered).digest = digest
    return request


def _unparsed(value: Any) -> StoredFilter:
    zone, text = ("UTC", value) if isinstance(value, str) else value
    return StoredFilter.of_text(text, zone, b"")


def _decode_unique(data: bytes) -> tuple[str, str | None, datetime | None, dict[str, Any]]:
    """Identity and content of an event, in which no name occurs twice.

    The decoder keeps the last of two equal names, and other readers of the same bytes the first: what was checked
    against a grant would not be what others read.
    """
    id, source, time, raw = _envelope.decode(data)
    content = _content_decoder.decode(raw)
    _check_unique(bytes(raw), content)
    return id, source, time, content


_decode_body: Final = checked(_decode_unique)


def _check_unique(raw: bytes, content: dict[str, Any]) -> None:
    if _map_size(raw) != len(content):
        raise WireError("a name occurs twice in an object of an event")
    nested = [name for name, value in content.items() if type(value) in (dict, list)]
    if nested:  # rare: only then are the bytes of each member looked for
        parts = _members.decode(raw)
        for name in nested:
            _check_nested(bytes(parts[name]), content[name])


def _check_nested(raw: bytes, value: Any) -> None:
    if type(value) is dict:
        _check_unique(raw, value)
    elif type(value) is list and any(type(each) in (dict, list) for each in value):
        for part, each in zip(_elements.decode(raw), value, strict=True):
            _check_nested(bytes(part), each)


def _map_size(raw: bytes) -> int:
    """The number of members that the first bytes of a MessagePack map announce."""
    match raw[0]:
        case 0xDE:
            return int.from_bytes(raw[1:3], "big")
        case 0xDF:
            return int.from_bytes(raw[1:5], "big")
    return raw[0] & 0x0F


class Arrival(Struct, gc=False, eq=False):
    """An event that came by an interface; content and header are decoded at most once, when first asked for."""

    interface: int
    message: Publish
    _event: Event = _NOT_DECODED
    keys: Keyring | None = None  # of a network with sealed events, for those that came by a link
    _header: headers.Header | None = _NOT_DECODED
    is_copy: bool = False  # it has come before by another way: it goes on, and is not delivered again

    @property
    def event(self) -> Event:
        """The content; a `PalioError` where the body cannot be decoded."""
        if self._event is _NOT_DECODED:
            self._event = decode_event(self.content)
        return self._event

    @property
    def content(self) -> bytes:
        """The body, opened where it is sealed; `SealError` where that fails."""
        if self.keys is None:
            return self.message.body
        return self.keys.open(self.message.body, event_context(self.message.id))

    @property
    def is_read(self) -> bool:
        """Whether the content was asked for."""
        return self._event is not _NOT_DECODED

    @property
    def header(self) -> headers.Header | None:
        """The header of the previous broker; None where there is none that can be decoded."""
        if self._header is _NOT_DECODED:
            self._header = headers.decode(self.message.header)
        return self._header


_WRITTEN: Final = struct.Struct("<qd")
_READ: Final = struct.Struct("<d")
_STAMP: Final = struct.Struct("<qdd")
_MAX_STAMPS: Final = 64  # on one event; on a longer way the later ones are left out


class Stamp(NamedTuple):
    """Timestamps of one hop: the broker that wrote the event to a link and when, and when the next broker read it."""

    broker: int
    written: float
    read: float


def stamp_written(event: Publish | PublishColumns, broker: int, time: float) -> Publish | PublishColumns:
    """The event, or the batch, with the timestamp of a broker that writes it to its links."""
    # A remainder is a timestamp that was never completed, or bytes that a broken peer wrote: left as they are.
    if len(event.stamps) % _STAMP.size or len(event.stamps) >= _MAX_STAMPS * _STAMP.size:
        return event
    return replace(event, stamps=event.stamps + _WRITTEN.pack(broker, time))


def stamp_read(event: Publish | PublishColumns, time: float) -> None:
    """Complete the timestamp of an event that was just decoded, in place: nothing else refers to it yet."""
    if len(event.stamps) % _STAMP.size == _WRITTEN.size:
        force_setattr(event, "stamps", event.stamps + _READ.pack(time))


def stamps_in(written: bytes) -> tuple[Stamp, ...]:
    """The timestamps in the field `stamps` of an envelope."""
    return () if len(written) % _STAMP.size else tuple(map(Stamp._make, _STAMP.iter_unpack(written)))

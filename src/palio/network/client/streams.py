"""Which of a connection's streams is an event for? The broker says so by the numbers of requests, each once."""

from __future__ import annotations

from collections.abc import Iterator

from palio.errors import InvalidArgument
from palio.network.client.stream import Stream
from palio.network.protocol import Matched, numbers_in
from palio.routing.codec import decode_event
from palio.routing.recurring import Remembered


class Streams:
    """The subscriptions of one connection, by their names and by what they are called on the wire."""

    __slots__ = ("_known", "_name_of", "_named", "_number_of", "_stream_of")

    def __init__(self) -> None:
        self._named: dict[str, Stream] = {}
        self._number_of: dict[str, int] = {}
        self._stream_of: dict[int, Stream] = {}
        self._name_of: dict[int, str] = {}
        self._known = Remembered[bytes, tuple[tuple[Stream, tuple[str, ...]], ...]]()  # whom numbers mean, as written

    def __iter__(self) -> Iterator[Stream]:
        """Each once."""
        return iter(dict.fromkeys(self._named.values()))

    def get(self, name: str) -> Stream | None:
        """The stream of a subscription."""
        return self._named.get(name)

    def add(self, name: str, stream: Stream) -> None:
        if name in self._named:
            raise InvalidArgument(f"there is a subscription {name!r} of this connection already")
        self._named[name] = stream

    def move(self, name: str, stream: Stream) -> None:
        """A subscription that was of another connection."""
        self._named[name] = stream

    def number(self, number: int, stream: Stream, name: str) -> None:
        """A subscription is asked for by a request of this number; what it was called before is past."""
        self._unnumber(name)
        self._number_of[name] = number
        self._stream_of[number] = stream
        self._name_of[number] = name
        self._known.clear()

    def forget(self, name: str) -> None:
        self._named.pop(name, None)
        self._unnumber(name)

    def _unnumber(self, name: str) -> None:
        number = self._number_of.pop(name, 0)
        self._stream_of.pop(number, None)
        self._name_of.pop(number, None)
        self._known.clear()

    def matched(self, said: Matched) -> None:
        """An event came. Mostly one stream is meant, however many subscriptions are."""
        written = bytes(said.subscriptions)
        meant = self._known.found.get(written)
        if meant is None:
            meant = self._read(written)
        if len(meant) == 1:
            [(stream, names)] = meant
            stream.put(said.body, names, said.stamps)
            return
        event = decode_event(said.body)  # once for all
        for stream, names in meant:
            stream.put(event, names, said.stamps)

    def _read(self, written: bytes) -> tuple[tuple[Stream, tuple[str, ...]], ...]:
        names: dict[Stream, list[str]] = {}
        for number in numbers_in(written):
            stream = self._stream_of.get(number)
            if stream is not None:
                names.setdefault(stream, []).append(self._name_of[number])
        meant = tuple((stream, tuple(mine)) for stream, mine in names.items())
        return self._known.put(written, meant, len(written))

"""How does a message that is longer than a datagram cross a link of datagrams? In pieces, which are put together again.

Pieces may be lost, doubled and reordered as all datagrams may. A message of which one is missing never comes; the
session says it again, in pieces of another number. What waits for its last piece is bounded in bytes and in messages:
the oldest is given up first, which is as if it had been lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from palio.routing import codec

PIECE: Final = 112  # the tag
_MOST_MESSAGES: Final = 64
_BESIDE: Final = 32  # bytes of a piece that are not the message's


class Piece(Struct, frozen=True, array_like=True, tag=PIECE):
    """One of so many pieces of a message, which has a number of its sender's."""

    number: int
    place: int
    count: int
    data: bytes


_read = codec.reader(Piece)


def cut(data: bytes, number: int, largest: int) -> Iterator[bytes]:
    """A message as datagrams of at most so many bytes."""
    size = largest - _BESIDE
    count = -(-len(data) // size)
    for place in range(count):
        yield codec.encode_any(Piece(number, place, count, data[place * size : (place + 1) * size]))


class Pieces:
    """What has come of the messages of one link."""

    def __init__(self, most: int = codec.LONGEST_FRAME) -> None:
        """`most` is how many bytes may wait."""
        self._most = most
        self._bytes = 0
        self._unfinished: dict[int, dict[int, bytes]] = {}  # by number and place, the oldest message first

    def put(self, datagram: bytes) -> bytes | None:
        """The message that a piece completes; WireError for what is no piece."""
        piece: Piece = _read(datagram)
        parts = self._unfinished.setdefault(piece.number, {})
        if piece.place not in parts:
            parts[piece.place] = piece.data
            self._bytes += len(piece.data)
        if len(parts) >= piece.count:
            self._give_up(piece.number)
            return b"".join(parts[place] for place in sorted(parts))
        while self._bytes > self._most or len(self._unfinished) > _MOST_MESSAGES:
            self._give_up(next(iter(self._unfinished)))
        return None

    def _give_up(self, number: int) -> None:
        self._bytes -= sum(map(len, self._unfinished.pop(number).values()))

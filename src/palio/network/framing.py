"""Where does one message end in a stream of bytes, and the next begin? Each has its length before it, in four bytes."""

from __future__ import annotations

from struct import Struct
from typing import Final

from palio.errors import WireError
from palio.routing.codec import LONGEST_FRAME

_LENGTH: Final = Struct(">I")
_HTTP: Final = (b"HTTP", b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE")  # lengths that no frame has
length_of = _LENGTH.pack  # what goes before a frame of so many bytes


class FrameReader:
    """Cuts a stream into frames. `limit` bounds one frame, and so what a sender can make this end remember."""

    __slots__ = ("_missing", "_pieces", "limit")

    def __init__(self, limit: int = LONGEST_FRAME) -> None:
        self.limit = limit
        self._pieces: list[bytes] = []
        self._missing = 0  # bytes to come before it is worth looking again

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are whole now; `WireError` for a length that no frame has."""
        if self._pieces:
            self._pieces.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return []
            data = b"".join(self._pieces)
            self._pieces = []
        frames: list[bytes] = []
        at, end = 0, len(data)
        while end - at >= 4:
            (length,) = _LENGTH.unpack_from(data, at)
            if not 2 <= length <= self.limit:
                if data[at : at + 4] in _HTTP:
                    raise WireError("the other end speaks HTTP, and this is no port for that")
                raise WireError(f"a frame of {length:,} bytes, where one has from 2 to {self.limit:,}")
            if end - at - 4 < length:
                self._missing = length - (end - at - 4)
                break
            frames.append(data[at + 4 : at + 4 + length])
            at += 4 + length
        else:
            self._missing = 4 - (end - at)
        if at < end:
            self._pieces.append(data[at:] if at else data)
        return frames

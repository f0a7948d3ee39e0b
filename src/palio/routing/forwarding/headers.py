"""What one broker may write on an event for the next: a header, a small value that knows its own bytes.

A kind of header is registered under a number, the first byte of what travels. Bytes that cannot be read are no header:
the broker matches content anew, which is always right.
"""

from __future__ import annotations

from typing import ClassVar, Protocol, Self, TypeVar

from palio.errors import PalioError


class Header(Protocol):
    """A small frozen value; `kind` is a number from 1 to 255 of its own. 1 is reuse, 2 prefix, 3 Bloom, 4 annotated."""

    kind: ClassVar[int]

    def encode(self) -> bytes:
        """The bytes that follow the kind."""
        ...

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """From what `encode` wrote; a `PalioError` for anything else."""
        ...


_H = TypeVar("_H", bound=type[Header])
_kinds: dict[int, type[Header]] = {}


def register(header: _H) -> _H:
    """Make a kind of header known; a decorator."""
    known = _kinds.setdefault(header.kind, header)
    if known is not header:
        raise ValueError(f"headers of kind {header.kind} are {known.__name__}")
    return header


def encode(header: Header | None) -> bytes:
    return b"" if header is None else bytes((header.kind,)) + header.encode()


def decode(data: bytes) -> Header | None:
    """The header, or None where there is none that can be read."""
    kind = _kinds.get(data[0]) if data else None
    if kind is None:
        return None
    try:
        return kind.decode(data[1:])
    except PalioError:
        return None

"""Header codec and registry: what one broker writes on an event for the next.

Each kind of header is registered under a number, the first byte on the wire. Bytes that cannot be decoded count as no
header: the broker then matches content anew, which is always right.
"""

from __future__ import annotations

from typing import ClassVar, Protocol, Self, TypeVar

from palio.errors import PalioError


class Header(Protocol):
    """A small frozen value; `kind` is a unique number from 1 to 255. 1 is reuse, 2 prefix, 3 Bloom, 4 annotated,
    5 a multicast list."""

    kind: ClassVar[int]

    def encode(self) -> bytes:
        """The bytes that follow the kind."""
        ...

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """From what `encode` wrote; a `PalioError` for anything else."""
        ...


_H = TypeVar("_H", bound=type[Header])
_classes: dict[int, type[Header]] = {}


def register(header: _H) -> _H:
    """Register a class of headers under its kind; a decorator."""
    registered = _classes.setdefault(header.kind, header)
    if registered is not header:
        raise ValueError(f"headers of kind {header.kind} are {registered.__name__}")
    return header


def encode(header: Header | None) -> bytes:
    return b"" if header is None else bytes((header.kind,)) + header.encode()


def decode(data: bytes) -> Header | None:
    """The header, or None where there is none that can be decoded."""
    header_class = _classes.get(data[0]) if data else None
    if header_class is None:
        return None
    try:
        return header_class.decode(data[1:])
    except PalioError:
        return None  # as without a header: content is matched anew

"""A header that was written before an event came to its first broker, by a Spark job say: who may believe it, and when?

Content is examined once, at the edge, and a bulk job is a very large edge. It matches events against what one broker
knew at one moment, and writes down which broker, in which life of it, at which version of its table, with which
constants. That broker at that version takes the header as its own. At a later version it matches only the filters that
were added since, for what went away is harmless: nobody is asked for it any more. Anywhere else the event is matched
anew, which is always right.

A client can write what it likes. So what a header from outside says decides on the way of that event, and never on
whether a subscription gets it: where it ends, content is looked at.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from palio.errors import WireError
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.routing.constants import CONJUNCTION_LIMIT, TEXT
from palio.routing.forwarding.headers import Header, decode, encode, register
from palio.routing.forwarding.numbered import as_texts
from palio.routing.forwarding.protocol import Arrival, Setting
from palio.routing.messages import LOCAL

_ENTRY: Final = struct.Struct("<QQQ8s")
MOST_NEWER: Final = 1_024  # filters added since: where there are more, the event is matched anew with the index


@dataclass(frozen=True, slots=True)
class Entry:
    """The table that events were matched against: whose, in which life, at which version, with which constants."""

    node: int
    incarnation: int
    version: int
    constants: bytes

    @classmethod
    def of(cls, setting: Setting, version: int, constants: Mapping[str, Any]) -> Entry:
        """The table of a broker; `constants` are those that its headers depend on."""
        known = {"text": TEXT, "conjunctions": CONJUNCTION_LIMIT, "propagation": setting.propagation, **constants}
        said = repr(sorted(known.items())).encode()
        return cls(setting.node, setting.incarnation, version, blake2b(said, digest_size=8).digest())

    def is_of(self, other: Entry) -> bool:
        """Whether both are versions of one table, and this one is no newer."""
        return (self.node, self.incarnation, self.constants) == (
            other.node,
            other.incarnation,
            other.constants,
        ) and self.version <= other.version


@register
@dataclass(frozen=True, slots=True)
class AnnotatedHeader:
    """A header with the table it was made from."""

    kind: ClassVar[int] = 4

    entry: Entry
    inner: Header

    def encode(self) -> bytes:
        entry = self.entry
        return _ENTRY.pack(entry.node, entry.incarnation, entry.version, entry.constants) + encode(self.inner)

    @classmethod
    def decode(cls, data: bytes) -> AnnotatedHeader:
        if len(data) < _ENTRY.size:
            raise WireError("an annotated header begins with the table it was made from")
        inner = decode(data[_ENTRY.size :])
        if inner is None or isinstance(inner, AnnotatedHeader):
            raise WireError("an annotated header has a header in it")
        return cls(Entry(*_ENTRY.unpack_from(data)), inner)


def prefix(entry: Entry, kind: int) -> bytes:
    """The bytes before those of an inner header of a kind."""
    packed = _ENTRY.pack(entry.node, entry.incarnation, entry.version, entry.constants)
    return bytes((AnnotatedHeader.kind,)) + packed + bytes((kind,))


def believed(arrival: Arrival, now: Entry) -> AnnotatedHeader | None:
    """The header of an event that a client brought, where it was made from an earlier or this version of the table."""
    header = arrival.header
    if arrival.interface != LOCAL or not isinstance(header, AnnotatedHeader):
        return None
    return header if header.entry.is_of(now) else None


class HeaderWriter(Protocol):
    """Writes headers in bulk; it travels to where the matching is done."""

    def write(self, rows: npt.NDArray[np.int64], numbers: npt.NDArray[np.int32], count: int) -> pa.BinaryArray:
        """The headers of so many events, from the rows and numbers of the filters that match, in the order of rows."""
        ...


@dataclass(frozen=True)
class EntryTable:
    """What one broker knows at one moment, for those who match events in its stead: filters by number, and a writer."""

    entry: Entry
    filters: Sequence[Filter]
    writer: HeaderWriter

    def matcher(self) -> Matcher:
        """An index of the filters under their numbers, new, so that its own numbers are the same."""
        made = Matcher()
        made.add_subscriptions(as_texts((str(number), wanted) for number, wanted in enumerate(self.filters)))
        return made


@runtime_checkable
class WrittenAhead(Protocol):
    """A forwarding whose headers others may write."""

    def entry_table(self) -> EntryTable: ...


def joined(start: bytes, values: npt.NDArray[Any], starts: npt.NDArray[np.int64]) -> pa.BinaryArray:
    """For each row the same beginning and the bytes of its values."""
    import pyarrow.compute as pc

    offsets = (starts * values.itemsize).astype(np.int64)
    rest = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(starts) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(values))]
    )
    first = pa.scalar(start, pa.large_binary())
    return pc.binary_join_element_wise(first, rest, pa.scalar(b"", pa.large_binary())).cast(pa.binary())

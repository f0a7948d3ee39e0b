"""Annotated headers: headers that a bulk job, Spark say, wrote before an event reached its first broker.

Content is examined once, at the edge, and a bulk job is a very large edge. It matches events against a snapshot of one
broker's table, and records which broker, which incarnation, which version of the table and which constants. That broker
at that version takes the header as its own. At a later version it matches only the filters that were added since;
removed filters are harmless, as no link asks for them any more. Anywhere else the event is matched anew, which is
always right.

A client can write any bytes. So a header from outside decides only on the way of its own event, and never on whether a
subscription gets an event: the broker that delivers matches content.
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
from palio.routing.codec import CANONICAL_TEXT_VERSION, Arrival
from palio.routing.conjunctions import CONJUNCTION_LIMIT
from palio.routing.forwarding.filter_index import as_subscriptions
from palio.routing.forwarding.headers import Header, decode, encode, register
from palio.routing.forwarding.strategy import ForwardingConfig
from palio.routing.messages import LOCAL

_TABLE_VERSION: Final = struct.Struct("<QQQ8s")
MAX_NEWER_FILTERS: Final = 1_024  # filters evaluated one by one since the snapshot; beyond, the index matches anew


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One version of one broker's table: node, incarnation, version number, and a digest of the constants."""

    node: int
    incarnation: int
    version: int
    constants: bytes

    @classmethod
    def of(cls, config: ForwardingConfig, version: int, constants: Mapping[str, Any]) -> TableVersion:
        """The version of a broker's table; `constants` are those that its headers depend on."""
        everything = {
            "text": CANONICAL_TEXT_VERSION,
            "conjunctions": CONJUNCTION_LIMIT,
            "propagation": config.propagation,
            **constants,
        }
        text = repr(sorted(everything.items())).encode()
        return cls(config.node, config.incarnation, version, blake2b(text, digest_size=8).digest())

    def precedes(self, other: TableVersion) -> bool:
        """Whether both are versions of one table, and this one is not the newer."""
        own, others = (self.node, self.incarnation, self.constants), (other.node, other.incarnation, other.constants)
        return own == others and self.version <= other.version

    def encode(self) -> bytes:
        return _TABLE_VERSION.pack(self.node, self.incarnation, self.version, self.constants)


@register
@dataclass(frozen=True, slots=True)
class AnnotatedHeader:
    """A header with the table version that it was made from."""

    kind: ClassVar[int] = 4

    entry: TableVersion
    inner: Header

    def encode(self) -> bytes:
        return self.entry.encode() + encode(self.inner)

    @classmethod
    def decode(cls, data: bytes) -> AnnotatedHeader:
        if len(data) < _TABLE_VERSION.size:
            raise WireError("an annotated header begins with the table it was made from")
        inner = decode(data[_TABLE_VERSION.size :])
        # No nesting: a client could otherwise make a broker recurse as deep as its header is long.
        if inner is None or isinstance(inner, AnnotatedHeader):
            raise WireError("an annotated header has a header in it")
        return cls(TableVersion(*_TABLE_VERSION.unpack_from(data)), inner)


def annotation_prefix(entry: TableVersion, kind: int) -> bytes:
    """The bytes of an annotated header before those of its inner header, whose kind is given."""
    return bytes((AnnotatedHeader.kind,)) + entry.encode() + bytes((kind,))


def trusted_annotation(arrival: Arrival, now: TableVersion) -> AnnotatedHeader | None:
    """The annotated header of a client's event, where it was made from this table at this or an earlier version."""
    # A neighbour never sends annotated headers: brokers take out the inner one.
    header = arrival.header
    if arrival.interface != LOCAL or not isinstance(header, AnnotatedHeader):
        return None
    return header if header.entry.precedes(now) else None


class BulkHeaderWriter(Protocol):
    """Writes the headers of many events; it is pickled to where the matching is done."""

    def write(self, rows: npt.NDArray[np.int64], numbers: npt.NDArray[np.int32], count: int) -> pa.BinaryArray:
        """The headers of `count` events, from matches: row of the event, ascending, and number of the filter."""
        ...


@dataclass(frozen=True)
class TableSnapshot:
    """One broker's table at one moment, for a job that matches events in its stead: filters by number, and a writer."""

    entry: TableVersion
    filters: Sequence[Filter]
    writer: BulkHeaderWriter

    def matcher(self) -> Matcher:
        """A new index of the filters; being new, it numbers them as `filters` does."""
        made = Matcher()
        made.add_subscriptions(as_subscriptions((str(number), wanted) for number, wanted in enumerate(self.filters)))
        return made


@runtime_checkable
class SnapshotSource(Protocol):
    """A forwarding whose headers a bulk job may write."""

    @property
    def table_version(self) -> int:
        """The version of its table, one more with each filter."""
        ...

    def entry_table(self) -> TableSnapshot: ...


def concatenate_headers(start: bytes, values: npt.NDArray[Any], starts: npt.NDArray[np.int64]) -> pa.BinaryArray:
    """For each row the bytes of `start` and of its values, which begin at `starts[row]`."""
    import pyarrow.compute as pc

    offsets = (starts * values.itemsize).astype(np.int64)
    rest = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(starts) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(values))]
    )
    first = pa.scalar(start, pa.large_binary())
    return pc.binary_join_element_wise(first, rest, pa.scalar(b"", pa.large_binary())).cast(pa.binary())

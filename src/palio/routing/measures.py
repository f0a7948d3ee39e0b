"""Measures of what events cost brokers, in the terms of the sources: of one broker, or of all together."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Measures:
    """Counts since brokers started; those of two moments subtract, and those of two brokers add up.

    >>> Measures(content_reads=5, lookups=7) - Measures(content_reads=3)
    Measures(content_reads=2, lookups=7, header_bytes=0, tree_updates=0, false_positives=0)
    """

    content_reads: int = 0
    """Events whose content a broker examined."""
    lookups: int = 0
    """Keys of headers that reuse forwarding looked up (Shen §3.5)."""
    header_bytes: int = 0
    """Bytes of headers that were sent over links."""
    tree_updates: int = 0
    """Routing trees that prefix forwarding took into use, counted at each broker (Jerzak §4.4)."""
    false_positives: int = 0
    """Events that came over a link for nothing."""

    def __add__(self, other: Measures) -> Measures:
        return Measures(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, earlier: Measures) -> Measures:
        return Measures(*(now - then for now, then in zip(astuple(self), astuple(earlier), strict=True)))


@runtime_checkable
class HasMeasures(Protocol):
    """A forwarding that counts what it does."""

    def measures(self) -> Measures: ...

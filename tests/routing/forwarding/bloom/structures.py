"""All structures from a digest to interfaces behind one interface, and the oracle that they must agree with."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol

from palio.routing.forwarding.bloom.classical import CountingSbstree, Sbstree, Skiptree
from palio.routing.forwarding.bloom.digest import Bits
from palio.routing.forwarding.bloom.digest_table import DigestTable

WIDTH = 1 << 14


class Structure(Protocol):
    def add(self, interface: int, key: Hashable, bits: Bits) -> None: ...

    def remove(self, interface: int, key: Hashable, bits: Bits) -> None: ...

    def match(self, bits: Bits) -> set[int]: ...

    def __len__(self) -> int: ...


class Table:
    """The compiled table, which counts equal bits of one interface and need not know whose they are."""

    def __init__(self) -> None:
        self.inner = DigestTable(WIDTH)

    def add(self, interface: int, key: Hashable, bits: Bits) -> None:
        self.inner.add(interface, bits)

    def remove(self, interface: int, key: Hashable, bits: Bits) -> None:
        self.inner.remove(interface, bits)

    def match(self, bits: Bits) -> set[int]:
        return self.inner.match(bits)

    def __len__(self) -> int:
        return len(self.inner)


class SubsetTest:
    """Every filter asked: the specification."""

    def __init__(self) -> None:
        self.filed: list[tuple[int, Hashable, Bits]] = []

    def add(self, interface: int, key: Hashable, bits: Bits) -> None:
        self.filed.append((interface, key, bits))

    def remove(self, interface: int, key: Hashable, bits: Bits) -> None:
        self.filed.remove((interface, key, bits))

    def match(self, bits: Bits) -> set[int]:
        return {interface for interface, _, own in self.filed if set(own) <= set(bits)}

    def __len__(self) -> int:
        return len(self.filed)


STRUCTURES: dict[str, Callable[[], Structure]] = {
    "sbstree": Sbstree,
    "counting": CountingSbstree,
    "skiptree": lambda: Skiptree(WIDTH),
    "table": Table,
}

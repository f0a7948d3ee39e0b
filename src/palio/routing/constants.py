"""What must all brokers of a network agree on? Constants that are exchanged when a link is set up.

A header means something only to those who hash, split and number alike: the width and the number of hashes of Bloom
filters, the canonical text of predicates, the limit on conjunctions. A neighbour with another constant is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from palio.routing.codec import VERSION
from palio.routing.combinations import Combination

CONJUNCTION_LIMIT: Final = 64  # conjunctions of one filter that enter trees, digests and curves
TEXT: Final = 1  # version of the canonical text of filters and predicates, which digests are made of

# Options that only matter inside one broker or one simulated link.
_PRIVATE: Final = frozenset(
    "delay jitter loss duplication reordering bandwidth session queue disk drift skew stamps".split()
)


class Constants(Struct, frozen=True, array_like=True):
    """Names and values; equal in all of a network."""

    values: dict[str, bool | int | float | str]

    @classmethod
    def of(cls, combination: Combination) -> Constants:
        """The constants of a network in which every broker makes these choices."""
        options: Mapping[str, Any] = combination.options
        return cls(
            {
                "version": VERSION,
                "text": TEXT,
                "conjunctions": CONJUNCTION_LIMIT,
                "propagation": combination.propagation,
                "forwarding": combination.forwarding,
                "advertisements": combination.advertisements,
                "upkeep": combination.upkeep,
                **{name: value for name, value in sorted(options.items()) if name not in _PRIVATE},
            }
        )

    def difference(self, other: Constants) -> str | None:
        """The first constant in which two networks differ, as a sentence; None where there is none."""
        for name in sorted(self.values.keys() | other.values.keys()):
            mine, theirs = self.values.get(name), other.values.get(name)
            if mine != theirs:
                return f"{name} is {mine!r} here and {theirs!r} there"
        return None

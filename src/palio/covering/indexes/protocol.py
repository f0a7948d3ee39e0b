"""What a relation graph asks of the filters it holds: who covers this one, and whom does it cover? (Shen §4.1.2)"""

from __future__ import annotations

from typing import Protocol

from palio.covering.interests import Interest


class CoveringIndex(Protocol):
    """Holds interests; finds those above and below one, which need not be in it.

    Whoever is found truly is above, or below. An exact index finds all there are; an approximate one may miss some,
    which costs a filter forwarded in vain and nothing else.
    """

    def add(self, interest: Interest) -> None:
        """Take in an interest that is not there."""

    def remove(self, interest: Interest) -> None:
        """Forget an interest that is there."""

    def covering(self, interest: Interest, limit: int) -> list[Interest]:
        """Some that stand above one, `limit` of them where there are as many (cov_l in the source)."""
        ...

    def covered(self, interest: Interest) -> list[Interest]:
        """All that one stands above."""
        ...

    @property
    def comparisons(self) -> int:
        """How many filters, or parts of the index that hold several, were looked at so far."""
        ...

"""Has everybody heard? Where subscriptions follow advertisements, one may come long after its broker is known to be
there: then a broker counts as reached only when all have answered since, along the tree (`waves`).
"""

from __future__ import annotations


class Echo:
    """The states of the network for which one broker has asked, and has been answered; they are numbered."""

    __slots__ = ("_answered", "_asked", "_is_needed")

    def __init__(self, is_needed: bool) -> None:
        self._is_needed = is_needed
        self._asked = self._answered = 0

    def is_due(self, state: int) -> bool:
        return self._is_needed and self._asked != state

    def asked(self, state: int) -> None:
        self._asked = state

    def answered(self, state: int) -> None:
        self._answered = max(self._answered, state)  # one that was asked earlier may be answered later

    def holds(self, state: int) -> bool:
        """Whether all brokers know what there is to know."""
        return not self._is_needed or self._answered == state

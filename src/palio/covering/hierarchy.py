"""Graphs in which one can walk down from the forwarded filters to all others, and so find what matches an event.

An event that a filter does not match, none of those that it covers matches. So the forwarded ones are asked, and what
stands directly below one that matches (Jerzak §2.5.5); the graph that decides what is forwarded is also a matcher.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator

from palio.covering.graph import RelationGraph
from palio.covering.interests import Interest
from palio.filters.filter import Filter
from palio.filters.tree import Attributes


class Hierarchy(RelationGraph, ABC):
    """A graph that keeps for each filter some of those it covers, so that all can be reached from the forwarded ones.

    `questions` counts the filters that were asked about events.
    """

    def __init__(self) -> None:
        super().__init__()
        self._children: dict[Interest, dict[Interest, None]] = {}
        self.questions = 0

    def matching(self, attributes: Attributes) -> Iterator[Filter]:
        """The filters that match an event, as they are found; costs time in what matches and what stands below it."""
        waiting = [self._interests[filter] for filter in self._forwarded]
        seen = set(waiting)
        for each in waiting:
            self.questions += 1
            if each.filter.matches_attributes(attributes):
                yield each.filter
                for child in self._children[each]:
                    if child not in seen:
                        seen.add(child)
                        waiting.append(child)

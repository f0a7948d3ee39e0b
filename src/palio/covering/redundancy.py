"""Which subscriptions could go without their subscriber missing anything?

One that equals another of the same subscriber, or is covered by it. Equal filters have equal trees, so they
are found exactly by hashing; those that may cover another stand on its shelves. Where candidates are too many
the search stops: what is reported is true, and so is how many searches were cut short.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from palio.covering.shelves import Shelves
from palio.filters.filter import Filter
from palio.filters.tree import Node, leaves

_ALL_PAIRS: Final = 16_000_000  # pairs of conditions that are compared for all filters together
_FEWEST_PAIRS: Final = 512  # and for each of them, however many they are
_LOOKS: Final = 3  # candidates that may be looked at for a pair that is compared


class Redundant(NamedTuple):
    """Number `number` is superfluous because of number `by`."""

    number: int
    by: int
    is_equal: bool


@dataclass(slots=True)
class Redundancies:
    """What was found, and for how many filters the search for a wider one was cut short."""

    found: list[Redundant] = field(default_factory=list)
    cut_short: int = 0


def find_redundant(
    filters: Sequence[Filter], subscribers: Sequence[Hashable], most_pairs: int | None = None
) -> Redundancies:
    """The superfluous ones among filters, each beside its subscriber; by number, in order.

    Costs a hash for each filter, and comparing at most `most_pairs` pairs of a condition of it and one of
    another; by default sixteen million pairs for all of them, or 512 for each.
    """
    answer = Redundancies()
    groups: defaultdict[Hashable, dict[Node, int]] = defaultdict(dict)
    for number, (filter, subscriber) in enumerate(zip(filters, subscribers, strict=True)):
        if filter == Filter.nothing:
            continue
        first = groups[subscriber].setdefault(filter.tree, number)
        if first != number:
            answer.found.append(Redundant(number, first, True))
    pairs = most_pairs or max(_FEWEST_PAIRS, _ALL_PAIRS // max(1, len(filters)))
    for distinct in groups.values():
        if len(distinct) > 1:
            _find_covered({number: filters[number] for number in distinct.values()}, pairs, answer)
    answer.found.sort()
    return answer


def _find_covered(filters: Mapping[int, Filter], most_pairs: int, answer: Redundancies) -> None:
    shelves = Shelves({number: filter.tree for number, filter in filters.items()})
    sizes = {number: sum(1 for _ in leaves(filter.tree)) for number, filter in filters.items()}
    for number, filter in filters.items():
        allowed = most_pairs
        for candidate in shelves.candidates(number, filter.tree, most_pairs * _LOOKS):
            allowed -= sizes[number] * sizes[candidate]
            if allowed < 0:
                answer.cut_short += 1
                break
            other = filters[candidate]
            if other.covers(filter) and not (candidate > number and filter.covers(other)):
                answer.found.append(Redundant(number, candidate, False))
                break

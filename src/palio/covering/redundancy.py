"""Which subscriptions could go without their subscriber missing anything?

One that equals another of the same subscriber, or is covered by it. Equal filters have equal trees, so they
are found exactly by hashing; those that may cover another are searched for (`maximal`). Where candidates are too
many the search stops: what is reported is true, and so is how many searches were cut short.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from palio.covering.maximal import CoveringSearch
from palio.filters.filter import Filter
from palio.filters.tree import Node
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription

_ALL_PAIRS: Final = 16_000_000  # pairs of conditions that are compared for all filters together
_FEWEST_PAIRS: Final = 512  # and for each of them, however many they are
_WORTH_AN_INDEX: Final = 500  # filters


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
    numbers = list(filters)
    search = CoveringSearch(
        lambda place: filters[numbers[place]],
        len(numbers),
        _matcher(filters) if len(numbers) >= _WORTH_AN_INDEX else None,
        most_pairs,
    )
    for place, by in enumerate(search.covered_by(range(len(numbers)))):
        if by >= 0:
            answer.found.append(Redundant(numbers[place], numbers[by], False))
    answer.cut_short += search.cut_short


def _matcher(filters: Mapping[int, Filter]) -> Matcher:
    matcher = Matcher()
    matcher.add_subscriptions([Subscription(str(number), filter) for number, filter in filters.items()])
    return matcher

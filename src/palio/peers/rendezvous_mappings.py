"""Rendezvous mappings: keys under which a subscription and an event meet (Baldoni et al.).

Two stateless functions, known to every node: SK gives the keys of a subscription, EK those of an event, such that where
an event matches a subscription they have a key in common (the *mapping intersection rule*). The owner of a key, a node
of an overlay or a partition of a Spark job, then finds all matches among what it receives.

A key is a cell of an axis. Axes are distinct, unlike in the printed mappings: with one key space for all attributes an
event may meet a subscription under the key of another attribute, and its subscriber would be notified twice.

A filter is keyed by its alternatives, each a conjunction of one set of values per attribute. Patterns and residuals
narrow an alternative and are left out; an alternative without a condition on any keyed attribute gets all keys. A
missing attribute is a value like any other; an attribute with several values is keyed by each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from hashlib import blake2b
from math import prod
from typing import Final, NamedTuple, Protocol, TypeAlias

from palio.errors import PalioError
from palio.events import Event
from palio.events.nested_content import GroupedAttributes
from palio.filters.filter import Filter
from palio.filters.kinds import MISSING, Kind, Value
from palio.filters.normal_form import covering_conjunction, expand
from palio.filters.tree import Attributes
from palio.filters.value_sets import ValueSet
from palio.peers.histograms import Histogram, Run, merge_runs

Alternative: TypeAlias = Mapping[str, ValueSet]

MAPPINGS: Final = ("attribute-split", "key-space-split", "selective-attribute")
ANY_ATTRIBUTE: Final = "any-attribute"  # needs no sample
_MAX_ALTERNATIVES: Final = 16  # a filter with more is keyed by one conjunction that covers it
_MAX_PRODUCT_CELLS: Final = 1 << 20  # of all attributes of a key space together


class Key(NamedTuple):
    """A cell of an axis."""

    axis: int
    cell: int


class Arc(NamedTuple):
    """A range of keys of one axis, both ends included."""

    axis: int
    first: int
    last: int

    def __contains__(self, key: object) -> bool:
        return isinstance(key, Key) and key.axis == self.axis and self.first <= key.cell <= self.last


class KeyMapping(Protocol):
    """SK and EK; `sizes` are the numbers of cells of the axes."""

    @property
    def name(self) -> str: ...

    @property
    def histograms(self) -> Mapping[str, Histogram]: ...

    @property
    def sizes(self) -> tuple[int, ...]: ...

    def subscription_keys(self, alternatives: Iterable[Alternative]) -> list[Arc]:
        """The keys of a subscription, given its `alternatives`: none where it can never match."""
        ...

    def event_keys(self, attributes: Attributes) -> list[Key]:
        """The keys of an event, each once."""
        ...


def alternatives(filter: Filter) -> list[Alternative]:
    """The conjunctions of single-attribute conditions that together match at least what a filter does."""
    found = expand(filter.tree, _MAX_ALTERNATIVES)
    if found is None:
        wider = covering_conjunction(filter.tree)
        found = [] if wider is None else [wider]
    return [each.leaves for each in found]


@dataclass(frozen=True)
class AttributeSplit:
    """SK: all cells of each attribute's condition. EK: the cell of one attribute, always the same.

    Where every subscription constrains the chosen attribute narrowly, no mapping needs fewer keys. The printed mapping
    also keys subscriptions under the attributes that no event is keyed by; here `chosen` names the one that is. Without
    it, events may be published under any, by `turn`, and subscriptions are keyed under all: an attribute that a
    subscription does not constrain then takes all cells, or events keyed by it would be lost.
    """

    histograms: Mapping[str, Histogram]
    chosen: str | None = None
    name: str = "attribute-split"

    def __post_init__(self) -> None:
        _check_histograms(self.histograms)
        if self.chosen is not None and self.chosen not in self.histograms:
            raise MappingError(f"there is no histogram for the chosen attribute {self.chosen}")

    @cached_property
    def _axes(self) -> tuple[str, ...]:
        return tuple(self.histograms) if self.chosen is None else (self.chosen,)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.histograms[name].cells for name in self._axes)

    def subscription_keys(self, alternatives: Iterable[Alternative]) -> list[Arc]:
        found: list[list[Run]] = [[] for _ in self._axes]
        for alternative in alternatives:
            for runs, name in zip(found, self._axes, strict=True):
                runs += _runs(self.histograms[name], alternative.get(name))
        return [Arc(axis, *run) for axis, runs in enumerate(found) for run in merge_runs(runs)]

    def event_keys(self, attributes: Attributes, turn: int = 0) -> list[Key]:
        axis = turn % len(self._axes)
        name = self._axes[axis]
        return [Key(axis, cell) for cell in _cells(self.histograms[name], attributes, name)]


@dataclass(frozen=True)
class KeySpaceSplit:
    """SK: all combinations of cells of all attributes. EK: the one combination that the event is.

    The cells of the attributes are the digits of a key, the first attribute's first, so that all cells of the last lie
    together; on a ring, digits of a power of two are the printed mapping's bits, flush left. An attribute without a
    condition takes all its cells.
    """

    histograms: Mapping[str, Histogram]
    name: str = "key-space-split"

    def __post_init__(self) -> None:
        _check_histograms(self.histograms)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return (prod(histogram.cells for histogram in self.histograms.values()),)

    def subscription_keys(self, alternatives: Iterable[Alternative]) -> list[Arc]:
        found: list[Run] = []
        for alternative in alternatives:
            runs = [_runs(histogram, alternative.get(name)) for name, histogram in self.histograms.items()]
            found += self._combine(runs)
        return [Arc(0, *run) for run in merge_runs(found)]

    def _combine(self, digits: list[list[Run]]) -> list[Run]:
        """The runs of all combinations, from the last digit on; a run stays one where all lower digits are free."""
        runs, size = [(0, 0)], 1
        for own, histogram in zip(reversed(digits), reversed(list(self.histograms.values())), strict=True):
            # All lower digits are free: a run of this digit is one run of keys, and need not be split by cell.
            if runs == [(0, size - 1)]:
                runs = [(first * size, (last + 1) * size - 1) for first, last in own]
            else:
                cells = (cell * size for first, last in own for cell in range(first, last + 1))
                runs = [(base + first, base + last) for base in cells for first, last in runs]
            size *= histogram.cells
        return runs

    def event_keys(self, attributes: Attributes) -> list[Key]:
        keys = [0]
        for name, histogram in self.histograms.items():
            cells = _cells(histogram, attributes, name)
            keys = [key * histogram.cells + cell for key in keys for cell in cells]
        return [Key(0, key) for key in keys]


@dataclass(frozen=True)
class SelectiveAttribute:
    """SK: the cells of the most selective condition. EK: the event's cell of every attribute.

    An axis for each attribute, and a last one with a single key for what has no condition to choose. A condition is the
    more selective the fewer sampled events stand in its cells; of equal ones the first is chosen. One that also holds
    for events without the attribute is never chosen, so that events are keyed by the attributes they have.
    """

    histograms: Mapping[str, Histogram]
    name: str = "selective-attribute"

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return (*(histogram.cells for histogram in self.histograms.values()), 1)

    @property
    def everywhere(self) -> int:
        """The axis of the one key that every event has: for subscriptions without a selective condition."""
        return len(self.histograms)

    def subscription_keys(self, alternatives: Iterable[Alternative]) -> list[Arc]:
        found: dict[int, list[Run]] = {}
        for alternative in alternatives:
            chosen = self._most_selective(alternative)
            if chosen is None:
                return [Arc(self.everywhere, 0, 0)]
            axis, runs = chosen
            found.setdefault(axis, []).extend(runs)
        return [Arc(axis, *run) for axis in sorted(found) for run in merge_runs(found[axis])]

    def _most_selective(self, alternative: Alternative) -> tuple[int, list[Run]] | None:
        best: tuple[float, int, list[Run]] | None = None
        for axis, (name, histogram) in enumerate(self.histograms.items()):
            values = alternative.get(name)
            if values is None or not _needs_value(values):
                continue
            runs = histogram.runs(values)
            weight = histogram.weight(runs)
            if best is None or weight < best[0]:
                best = (weight, axis, runs)
        return None if best is None else (best[1], best[2])

    def event_keys(self, attributes: Attributes) -> list[Key]:
        found = [
            Key(axis, cell)
            for axis, (name, histogram) in enumerate(self.histograms.items())
            for cell in _present_cells(histogram, attributes, name)
        ]
        return [*found, Key(self.everywhere, 0)]


@dataclass(frozen=True)
class AnyAttribute:
    """`SelectiveAttribute` over whatever attributes there are, for a workload of which nothing is known.

    An axis is the hash of an attribute's name, and all have the cells of `Histogram.unsampled`; axis 0 has the single
    key of what has no condition to choose. Two attributes with one hash share their axis: that makes more candidates,
    never fewer.
    """

    name: str = "any-attribute"
    histograms: Mapping[str, Histogram] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Empty: the axes are not known before events and subscriptions are; `axis_size` gives those of each."""
        return ()

    def axis_size(self, axis: int) -> int:
        return _unsampled().cells if axis else 1

    def subscription_keys(self, alternatives: Iterable[Alternative]) -> list[Arc]:
        histogram = _unsampled()
        found: dict[int, list[Run]] = {}
        for alternative in alternatives:
            usable = [(name, histogram.runs(values)) for name, values in alternative.items() if _needs_value(values)]
            if not usable:
                return [Arc(0, 0, 0)]
            name, runs = min(usable, key=lambda each: (histogram.weight(each[1]), each[0]))
            found.setdefault(axis_of(name), []).extend(runs)
        return [Arc(axis, *run) for axis in sorted(found) for run in merge_runs(found[axis])]

    def event_keys(self, attributes: Attributes) -> list[Key]:
        histogram = _unsampled()
        found = {
            Key(axis_of(name), cell) for name in attributes for cell in _present_cells(histogram, attributes, name)
        }
        return [Key(0, 0), *sorted(found)]


@cache
def _unsampled() -> Histogram:
    return Histogram.unsampled()


@lru_cache(4_096)
def axis_of(attribute: str) -> int:
    """The axis of an attribute of `AnyAttribute`, a number from 1 on."""
    return 1 + int.from_bytes(blake2b(attribute.encode("utf-8", "surrogatepass"), digest_size=6).digest())


def mapping_of(
    name: str,
    filters: Iterable[Filter],
    events: Iterable[Event],
    cells: int,
    attributes: Collection[str] = (),
    chosen: str | None = None,
) -> KeyMapping:
    """A mapping by its name, with about so many cells, on some attributes, or all of some filters and events.

    It is right for every filter and event; how evenly keys are spread depends on those that are given. Equal arguments
    make equal mappings, in every process.
    """
    if name == ANY_ATTRIBUTE:
        return AnyAttribute()
    conditions: dict[str, list[ValueSet]] = {}
    for alternative in (each for filter in filters for each in alternatives(filter)):
        for attribute, values in alternative.items():
            conditions.setdefault(attribute, []).append(values)
    sampled: dict[str, list[Value]] = {}
    for event in events:
        for attribute, value in event.attributes.items():
            sampled.setdefault(attribute, []).extend(value if isinstance(value, tuple) else (value,))
    keyed = (
        list(attributes) or sorted(sampled.keys() | conditions.keys()) or ["id"]
    )  # some attribute, where nothing is known
    if name == "key-space-split":
        # The cells of all attributes multiply.
        cells = max(2, round(min(_MAX_PRODUCT_CELLS, cells) ** (1 / len(keyed))))
    histograms = {each: Histogram.of(sampled.get(each, ()), cells, conditions.get(each, ())) for each in keyed}
    match name:
        case "attribute-split":
            return AttributeSplit(histograms, chosen)
        case "key-space-split":
            return KeySpaceSplit(histograms)
        case "selective-attribute":
            return SelectiveAttribute(histograms)
    raise MappingError(f"there is no mapping {name!r:.80}; known are {', '.join((*MAPPINGS, ANY_ATTRIBUTE))}")


class MappingError(PalioError, ValueError):
    """An impossible mapping, such as one without an attribute to key by."""


def _check_histograms(histograms: Mapping[str, Histogram]) -> None:
    if not histograms:
        raise MappingError("there is no attribute to key by; give a histogram for at least one")


def _needs_value(values: ValueSet) -> bool:
    return values.parts[Kind.MISSING].is_empty and values.parts[Kind.NULL].is_empty


def _runs(histogram: Histogram, values: ValueSet | None) -> list[Run]:
    return [(0, histogram.cells - 1)] if values is None else histogram.runs(values)


def _cells(histogram: Histogram, attributes: Attributes, name: str) -> list[int]:
    value = attributes.get(name, MISSING)
    if not isinstance(value, tuple):
        return [histogram.cell(value)]
    # An array without elements is as good as none, and of several objects one may lack what another has.
    elements = value if value and not isinstance(attributes, GroupedAttributes) else (*value, MISSING)
    return sorted({histogram.cell(element) for element in elements})


def _present_cells(histogram: Histogram, attributes: Attributes, name: str) -> list[int]:
    value = attributes.get(name)
    elements = value if isinstance(value, tuple) else (value,)
    return sorted({histogram.cell(element) for element in elements if element is not None})

"""Path automaton: a deterministic automaton over the tag paths of documents, built where documents lead.

All paths of a trie are searched at once (as in YFilter, Diao et al., 2003), by states that are made when a document
first needs them (Green et al., 2004). A state is the set of nodes of the trie that an element can be placed on,
together with the nodes above it that wait for descendants. A document costs one lookup in a hash table for each
element, whatever the number of patterns; the number of states is bounded by the tag paths that documents have. A
state lists the patterns and the links that end at it.

States take memory. They are all forgotten between documents when they take more than half of `MAX_STATE_BYTES`, and a
document that needs more than that by itself is refused.
"""

from __future__ import annotations

from array import array
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from palio.errors import LimitReached
from palio.xml.automaton_kernels import (
    EMPTY,
    FIRST_FACTOR,
    HAS_ATTRIBUTES,
    HAS_LINKS,
    HAS_PATTERNS,
    HAS_SEARCHES,
    HAS_TESTS,
    HAS_TEXTS,
    SECOND_FACTOR,
    AutomatonArrays,
)
from palio.xml.path_trie import ROOT_NODE, PathTrie
from palio.xml.pattern import Axis, NodeKind
from palio.xml.value_groups import ValueGroup

MAX_STATE_BYTES: Final = 256 * 2**20
_BYTES_PER_STATE: Final = 400  # beside its lists: keys of dictionaries, tuples, transitions
_BYTES_PER_NODE: Final = 24  # in the tuple of a state and in its array
_FIRST_TRANSITIONS: Final = 1_024

_Nodes = tuple[int, ...]


class PathAutomaton:
    """The states of a trie that documents have led to."""

    def __init__(self, trie: PathTrie) -> None:
        self._trie = trie
        self.forget()

    def forget(self) -> None:
        """Forget all states, after the trie has changed or because they take too much memory."""
        self._trie.forget_symbols()
        self._sets: list[tuple[_Nodes, int]] = []
        self._numbers: dict[tuple[_Nodes, int], int] = {}
        self._waiting: list[_Nodes] = []
        """Sets of nodes that wait for descendants."""
        self._waiting_numbers: dict[_Nodes, int] = {}
        self._descents: dict[tuple[int, int], _Nodes] = {}
        self.value_groups: list[list[ValueGroup]] = []
        """By state: the groups of value tests for a node in this state."""
        self._flags = GrowingArray()
        self._patterns, self._pattern_starts = GrowingArray(), GrowingArray([0])
        self._links, self._link_starts = GrowingArray(), GrowingArray([0])
        self._searches, self._search_starts = GrowingArray(), GrowingArray([0])
        self._transitions = 0
        self._keys = np.full(_FIRST_TRANSITIONS, EMPTY, np.int64)
        self._targets = np.zeros(_FIRST_TRANSITIONS, np.int32)
        self._arrays: AutomatonArrays | None = None
        self.bytes = 0
        start = (ROOT_NODE,)
        self._state(start, self._waiting_number(() if not self._trie.edges[Axis.DESCENDANT][ROOT_NODE] else start))

    def __len__(self) -> int:
        """The number of states."""
        return len(self._sets)

    @property
    def is_large(self) -> bool:
        """Whether states take so much memory that they are better forgotten."""
        return 2 * self.bytes > MAX_STATE_BYTES

    def arrays(self) -> AutomatonArrays:
        """The states as they are now, for the kernels."""
        if self._arrays is None:
            self._arrays = AutomatonArrays(
                transition_keys=self._keys,
                transition_targets=self._targets,
                flags=self._flags.values,
                pattern_starts=self._pattern_starts.values,
                patterns=self._patterns.values,
                link_starts=self._link_starts.values,
                links=self._links.values,
                search_starts=self._search_starts.values,
                searches=self._searches.values,
            )
        return self._arrays

    def add_transition(self, state: int, symbol: int) -> None:
        """Make the transition that a document needs."""
        if self.bytes > MAX_STATE_BYTES:
            reason = "the document has too many different paths for the patterns"
            raise LimitReached("MAX_STATE_BYTES", MAX_STATE_BYTES, reason)
        nodes, waiting = self._sets[state]
        kind = self._trie.symbol_kinds[symbol]
        found = set(self._descend(waiting, symbol))
        edges = self._trie.edges[Axis.CHILD]
        accepted = self._trie.accepted[symbol]
        for node in nodes:
            after = edges[node]
            if after:
                found.update([after[test] for test in accepted if test in after])
        reached = tuple(sorted(found))
        if kind != NodeKind.ELEMENT:
            target = self._state(reached, self._waiting_number(()))
        else:
            target = self._state(reached, self._waiting_below(waiting, reached))
        self._put_transition(state, symbol, target)
        self._arrays = None

    def _descend(self, waiting: int, symbol: int) -> _Nodes:
        """The nodes that a set of waiting nodes leads to."""
        known = self._descents.get((waiting, symbol))
        if known is None:
            edges, accepted = self._trie.edges[Axis.DESCENDANT], self._trie.accepted[symbol]
            found = (edges[node].get(test) for node in self._waiting[waiting] for test in accepted)
            known = self._descents[waiting, symbol] = tuple(node for node in found if node is not None)
            self.bytes += _BYTES_PER_STATE // 2 + 8 * len(known)
        return known

    def _waiting_below(self, waiting: int, reached: _Nodes) -> int:
        edges = self._trie.edges[Axis.DESCENDANT]
        more = {node for node in reached if edges[node]}
        if not more:
            return waiting
        return self._waiting_number(tuple(sorted(more.union(self._waiting[waiting]))))

    def _waiting_number(self, nodes: _Nodes) -> int:
        number = self._waiting_numbers.get(nodes)
        if number is None:
            number = self._waiting_numbers[nodes] = len(self._waiting)
            self._waiting.append(nodes)
            self.bytes += _BYTES_PER_STATE // 2 + _BYTES_PER_NODE * len(nodes)
        return number

    def _state(self, nodes: _Nodes, waiting: int) -> int:
        number = self._numbers.get((nodes, waiting))
        if number is None:
            number = self._numbers[nodes, waiting] = len(self._sets)
            self._sets.append((nodes, waiting))
            self._describe(nodes, waiting)
        return number

    def _describe(self, nodes: _Nodes, waiting: int) -> None:
        """Add what a new state finds."""
        trie = self._trie
        patterns = [pattern for node in nodes for pattern in trie.patterns[node]]
        links = [link for node in nodes for link in trie.links[node]]
        searches = [unit for node in nodes for unit in trie.searches[node]]
        groups = [trie.values[node] for node in nodes if node in trie.values]
        kinds = 0
        for node in nodes:
            kinds |= trie.edge_kinds[Axis.CHILD][node]
        for node in self._waiting[waiting]:
            kinds |= trie.edge_kinds[Axis.DESCENDANT][node]
        self._flags.append(
            HAS_PATTERNS * bool(patterns)
            | HAS_LINKS * bool(links)
            | HAS_SEARCHES * bool(searches)
            | HAS_TESTS * bool(groups)
            | HAS_ATTRIBUTES * bool(kinds & 1 << NodeKind.ATTRIBUTE)
            | HAS_TEXTS * bool(kinds & 1 << NodeKind.TEXT)
        )
        self.value_groups.append(groups)
        for pool, starts, values in (
            (self._patterns, self._pattern_starts, patterns),
            (self._links, self._link_starts, links),
            (self._searches, self._search_starts, searches),
        ):
            pool.extend(values)
            starts.append(len(pool))
        self.bytes += _BYTES_PER_STATE + 4 * (len(patterns) + len(links)) + _BYTES_PER_NODE * len(nodes)

    def _put_transition(self, state: int, symbol: int, target: int) -> None:
        if 2 * (self._transitions + 1) > len(self._keys):
            self._grow_transitions()
        self._place(state << 32 | symbol, target)
        self._transitions += 1

    def _place(self, key: int, target: int) -> None:
        keys = self._keys
        size = len(keys) - 1
        at = ((key >> 32) * FIRST_FACTOR + (key & 0xFFFFFFFF) * SECOND_FACTOR) & size
        while keys[at] != EMPTY:
            at = (at + 1) & size
        keys[at], self._targets[at] = key, target

    def _grow_transitions(self) -> None:
        keys, targets = self._keys, self._targets
        self.bytes += 12 * len(keys)
        self._keys = np.full(2 * len(keys), EMPTY, np.int64)
        self._targets = np.zeros(2 * len(keys), np.int32)
        for place in np.flatnonzero(keys != EMPTY).tolist():
            self._place(int(keys[place]), int(targets[place]))


class GrowingArray:
    """An array of 32-bit integers with room at its end."""

    def __init__(self, values: list[int] | None = None) -> None:
        self.values: npt.NDArray[np.int32] = np.zeros(64, np.int32)
        self._length = 0
        self.extend(values or [])

    def __len__(self) -> int:
        return self._length

    def append(self, value: int) -> None:
        self.extend((value,))

    def extend(self, values: list[int] | tuple[int, ...] | array[Any]) -> None:
        end = self._length + len(values)
        if end > len(self.values):
            grown = np.zeros(max(end, 2 * len(self.values)), np.int32)
            grown[: self._length] = self.values[: self._length]
            self.values = grown
        self.values[self._length : end] = values
        self._length = end

"""Path automaton: a deterministic automaton over the tag paths of documents, built where documents lead.

All paths of a trie are searched at once (as in YFilter, Diao et al., 2003), by states that are made when a document
first needs them (Green et al., 2004). A state is the set of nodes of the trie that an element can be placed on,
together with the nodes above it that wait for descendants. A document costs one lookup in a hash table for each
element, whatever the number of patterns, and some microseconds for a transition that no document needed before. A
state lists the patterns that it finds, and the links that end at it.

States take memory. They are all forgotten between documents when they take more than half of `MAX_STATE_BYTES`, and a
document that needs more than that by itself is refused.
"""

from __future__ import annotations

from typing import Final

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
    SIZES,
    STATE_NODES,
    STATES,
    WAITING_NODES,
    WAITINGS,
    AutomatonArrays,
    TrieArrays,
)
from palio.xml.branch_table import compressed
from palio.xml.path_trie import ROOT_NODE, PathTrie
from palio.xml.pattern import Axis, NodeKind
from palio.xml.value_groups import ValueGroup

MAX_STATE_BYTES: Final = 256 * 2**20
_FIRST_ROOM: Final = 1_024
_TABLES: Final = ("transition_keys", "state_table", "waiting_table")  # hash tables, which are empty at first

_Ints = npt.NDArray[np.int32]


class PathAutomaton:
    """The states of a trie that documents have led to."""

    def __init__(self, trie: PathTrie) -> None:
        self._trie = trie
        self.forget()

    def forget(self) -> None:
        """Forget all states, after the trie has changed or because they take too much memory."""
        self._trie.forget_symbols()
        self._trie_arrays: TrieArrays | None = None
        self._symbols = 0
        self._groups: dict[int, list[ValueGroup]] = {}
        # At least as much room as the trie has nodes: no state has more.
        self.arrays = _empty_automaton(_FIRST_ROOM, len(self._trie))
        self._add_first_state()

    def _add_first_state(self) -> None:
        """The document node, and the empty set of waiting nodes."""
        arrays, trie = self.arrays, self._trie
        flags = _edge_flags(trie.edge_kinds[Axis.CHILD][ROOT_NODE])
        arrays.sizes[STATES] = arrays.sizes[STATE_NODES] = arrays.node_starts[1] = arrays.sizes[WAITINGS] = 1
        arrays.nodes[0] = ROOT_NODE
        if trie.edges[Axis.DESCENDANT][ROOT_NODE]:
            flags |= _edge_flags(trie.edge_kinds[Axis.DESCENDANT][ROOT_NODE])
            arrays.waiting_nodes[0] = ROOT_NODE
            arrays.waiting_starts[2] = arrays.sizes[WAITING_NODES] = 1
            arrays.waitings[0] = 1
            arrays.sizes[WAITINGS] = 2
            _enter(arrays.waiting_table, 1, 0, arrays.waiting_nodes[:1])
        arrays.flags[0] = flags

    def __len__(self) -> int:
        """The number of states."""
        return int(self.arrays.sizes[STATES])

    @property
    def bytes(self) -> int:
        """The memory that states take."""
        return sum(each.nbytes for each in self.arrays)

    @property
    def is_large(self) -> bool:
        """Whether states take so much memory that they are better forgotten."""
        return 2 * self.bytes > MAX_STATE_BYTES

    def grow(self) -> None:
        """Make room for more states."""
        if self.bytes > MAX_STATE_BYTES:
            reason = "the document has too many different paths for the patterns"
            raise LimitReached("MAX_STATE_BYTES", MAX_STATE_BYTES, reason)
        grown = {}
        for name, values in self.arrays._asdict().items():
            if name in ("sizes", "reached"):
                grown[name] = values
            elif name not in (*_TABLES, "transition_targets"):
                grown[name] = np.concatenate((values, np.zeros_like(values)))
        keys, targets = _grown_transitions(self.arrays.transition_keys, self.arrays.transition_targets)
        self.arrays = AutomatonArrays(
            **grown,
            transition_keys=keys,
            transition_targets=targets,
            state_table=np.full(2 * len(self.arrays.state_table), EMPTY, np.int32),
            waiting_table=np.full(2 * len(self.arrays.waiting_table), EMPTY, np.int32),
        )
        self._fill_tables()

    def trie_arrays(self) -> TrieArrays:
        """The trie with all symbols that documents have brought, for the kernels."""
        trie = self._trie
        if self._trie_arrays is None:
            self._trie_arrays = _trie_arrays(trie)
            self._symbols = len(trie.accepted)
        elif self._symbols != len(trie.accepted):
            self._trie_arrays = self._trie_arrays._replace(**_symbol_arrays(trie))
            self._symbols = len(trie.accepted)
        return self._trie_arrays

    def value_groups(self, state: int) -> list[ValueGroup]:
        """The groups of value tests for a node in a state."""
        known = self._groups.get(state)
        if known is None:
            first, last = self.arrays.node_starts[state : state + 2]
            values = self._trie.values
            known = [values[node] for node in self.arrays.nodes[first:last].tolist() if node in values]
            self._groups[state] = known
        return known

    def _fill_tables(self) -> None:
        """Enter all states and sets of waiting nodes in tables that are empty."""
        arrays = self.arrays
        for state in range(1, len(self)):  # the document node is never looked for
            first, last = arrays.node_starts[state : state + 2]
            _enter(arrays.state_table, state, int(arrays.waitings[state]), arrays.nodes[first:last])
        for waiting in range(1, int(arrays.sizes[WAITINGS])):
            first, last = arrays.waiting_starts[waiting : waiting + 2]
            _enter(arrays.waiting_table, waiting, 0, arrays.waiting_nodes[first:last])


def _enter(table: _Ints, number: int, digest: int, nodes: _Ints) -> None:
    """Enter a number in a hash table at the place of its nodes, by the formula of `run_automaton`."""
    for node in nodes.tolist():
        digest = (digest * FIRST_FACTOR + node) & 0x3FFFFFFF
    size = len(table) - 1
    slot = digest & size
    while table[slot] != EMPTY:
        slot = (slot + 1) & size
    table[slot] = number


def _empty_automaton(room: int, nodes: int) -> AutomatonArrays:
    lists = 1 << max(room, 2 * nodes).bit_length()
    return AutomatonArrays(
        sizes=np.zeros(SIZES, np.int64),
        transition_keys=np.full(2 * room, EMPTY, np.int64),
        transition_targets=np.zeros(2 * room, np.int32),
        state_table=np.full(2 * room, EMPTY, np.int32),
        flags=np.zeros(room, np.int32),
        node_starts=np.zeros(room, np.int32),
        nodes=np.zeros(lists, np.int32),
        waitings=np.zeros(room, np.int32),
        pattern_starts=np.zeros(room, np.int32),
        patterns=np.zeros(lists, np.int32),
        link_starts=np.zeros(room, np.int32),
        links=np.zeros(lists, np.int32),
        search_starts=np.zeros(room, np.int32),
        searches=np.zeros(lists, np.int32),
        waiting_table=np.full(2 * room, EMPTY, np.int32),
        waiting_starts=np.zeros(room, np.int32),
        waiting_nodes=np.zeros(lists, np.int32),
        reached=np.zeros(nodes, np.int32),
    )


def _grown_transitions(keys: npt.NDArray[np.int64], targets: _Ints) -> tuple[npt.NDArray[np.int64], _Ints]:
    """The hash table of transitions with twice the places."""
    more_keys = np.full(2 * len(keys), EMPTY, np.int64)
    more_targets = np.zeros(2 * len(keys), np.int32)
    size = len(more_keys) - 1
    for place in np.flatnonzero(keys != EMPTY).tolist():
        key = int(keys[place])
        at = ((key >> 32) * FIRST_FACTOR + (key & 0xFFFFFFFF) * SECOND_FACTOR) & size
        while more_keys[at] != EMPTY:
            at = (at + 1) & size
        more_keys[at], more_targets[at] = key, targets[place]
    return more_keys, more_targets


def _trie_arrays(trie: PathTrie) -> TrieArrays:
    children = [sorted(edges.items()) for edges in trie.edges[Axis.CHILD]]
    descendants = [sorted(edges.items()) for edges in trie.edges[Axis.DESCENDANT]]
    child_starts, child_tests = compressed([[test for test, _ in edges] for edges in children])
    descendant_starts, descendant_tests = compressed([[test for test, _ in edges] for edges in descendants])
    pattern_starts, patterns = compressed(trie.patterns)
    link_starts, links = compressed(trie.links)
    search_starts, searches = compressed(trie.searches)
    return TrieArrays(
        child_starts=child_starts,
        child_tests=child_tests,
        child_targets=compressed([[target for _, target in edges] for edges in children])[1],
        descendant_starts=descendant_starts,
        descendant_tests=descendant_tests,
        descendant_targets=compressed([[target for _, target in edges] for edges in descendants])[1],
        child_flags=np.array([_node_flags(trie, node) for node in range(len(trie))], np.int32),
        descendant_flags=np.array([_edge_flags(kinds) for kinds in trie.edge_kinds[Axis.DESCENDANT]], np.int32),
        pattern_starts=pattern_starts,
        patterns=patterns,
        link_starts=link_starts,
        links=links,
        search_starts=search_starts,
        searches=searches,
        **_symbol_arrays(trie),
    )


def _symbol_arrays(trie: PathTrie) -> dict[str, _Ints]:
    starts, accepted = compressed(trie.accepted)
    kinds = [int(kind == NodeKind.ELEMENT) for kind in trie.symbol_kinds]
    return {"accepted_starts": starts, "accepted": accepted, "symbol_kinds": np.array(kinds, np.int32)}


def _node_flags(trie: PathTrie, node: int) -> int:
    return (
        _edge_flags(trie.edge_kinds[Axis.CHILD][node])
        | HAS_PATTERNS * bool(trie.patterns[node])
        | HAS_LINKS * bool(trie.links[node])
        | HAS_SEARCHES * bool(trie.searches[node])
        | HAS_TESTS * (node in trie.values)
    )


def _edge_flags(kinds: int) -> int:
    has_attributes, has_texts = kinds & 1 << NodeKind.ATTRIBUTE, kinds & 1 << NodeKind.TEXT
    return HAS_ATTRIBUTES * bool(has_attributes) | HAS_TEXTS * bool(has_texts)

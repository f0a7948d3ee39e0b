"""Kernel of the path automaton: its run over a document.

Kernels are plain Python on arrays of integers, and Numba can compile them as they stand. This package does not
compile them: it stands below the compiler of kernels, and whoever has one hands in compiled forms (`PatternKernels`).
Without, Python interprets them over memoryviews. They call no other functions, which would have to be compiled too.

A node of a document is a number here: elements first, then attributes, then text nodes.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

# An array of NumPy, or a memoryview of one.
Integers: TypeAlias = Any

# Counters of a run, by place.
NODE, FOUND, VISITS, TESTED = range(4)
COUNTERS: Final = 4

# Sizes of the parts of an automaton, by place.
STATES, TRANSITIONS, STATE_NODES, STATE_PATTERNS, STATE_LINKS, STATE_SEARCHES, WAITINGS, WAITING_NODES = range(8)
SIZES: Final = 8

# Flags of a state.
HAS_PATTERNS, HAS_LINKS, HAS_TESTS, HAS_ATTRIBUTES, HAS_TEXTS, HAS_SEARCHES = 1, 2, 4, 8, 16, 32

EMPTY: Final = -1
# A pair of numbers has its place in a hash table at first * FIRST_FACTOR + second * SECOND_FACTOR, cut to the size.
FIRST_FACTOR: Final = 0x9E3779B1
SECOND_FACTOR: Final = 0x85EBCA77


class DocumentArrays(NamedTuple):
    """A document for the kernels."""

    parents: Integers
    tags: Integers
    attribute_owners: Integers
    attribute_tags: Integers
    text_owners: Integers
    element_symbols: Integers
    """By name: its symbol as the name of an element."""
    attribute_symbols: Integers
    """By name: its symbol as the name of an attribute."""


class TrieArrays(NamedTuple):
    """The trie of paths, and the symbols of names. Lists by node or symbol begin where `…_starts` says."""

    child_starts: Integers
    child_tests: Integers
    """By node: the name tests of its edges to children; ascending."""
    child_targets: Integers
    descendant_starts: Integers
    descendant_tests: Integers
    descendant_targets: Integers
    child_flags: Integers
    """By node: what a state that has it must look at, as flags of a state."""
    descendant_flags: Integers
    """By node: what a state below it must look at."""
    pattern_starts: Integers
    patterns: Integers
    link_starts: Integers
    links: Integers
    search_starts: Integers
    searches: Integers
    accepted_starts: Integers
    accepted: Integers
    """By symbol: the name tests that accept it."""
    symbol_kinds: Integers
    """By symbol: 1 if it is the name of an element."""


class AutomatonArrays(NamedTuple):
    """The states of the automaton that are known, and its transitions in a hash table. All have room at their ends."""

    sizes: Integers
    transition_keys: Integers
    """State in the upper 32 bits, symbol in the lower; `EMPTY` where there is none. The length is a power of two."""
    transition_targets: Integers
    state_table: Integers
    """Hash table of the states by nodes and waiting nodes; its length is a power of two."""
    flags: Integers
    node_starts: Integers
    nodes: Integers
    """Nodes of the trie that a state stands for; ascending."""
    waitings: Integers
    """By state: its set of waiting nodes."""
    pattern_starts: Integers
    """By state: where its patterns are in `patterns`, up to those of the next."""
    patterns: Integers
    link_starts: Integers
    links: Integers
    search_starts: Integers
    searches: Integers
    """By state: the conjunctions of links of kind `ABOVE` alone, which nothing else leads to."""
    waiting_table: Integers
    waiting_starts: Integers
    waiting_nodes: Integers
    """Sets of nodes that wait for descendants; ascending."""
    reached: Integers
    """Room for as many nodes as the trie has."""


class RunArrays(NamedTuple):
    """What a run over a document writes."""

    counters: Integers
    node_states: Integers
    """By element: its state."""
    node_depths: Integers
    """By element: its depth, from 1."""
    state_documents: Integers
    """By state: the last document in which it occurred."""
    state_parents: Integers
    """By state: the last element below which its links were visited, of that document."""
    pattern_documents: Integers
    """By pattern: the last document that it was found in."""
    found: Integers
    visits: Integers
    """Pairs of node and state whose links are to be followed."""
    tested: Integers
    """Pairs of node and state that has value tests."""


def run_automaton(
    document: DocumentArrays, trie: TrieArrays, automaton: AutomatonArrays, run: RunArrays, number: int
) -> int:
    """Run over a document from the node that the counters name, and make the states that it needs.

    Returns 0 at its end, or 1 where there is no room for one more state.
    """
    parents, tags, attribute_owners, attribute_tags, text_owners, element_symbols, attribute_symbols = document
    keys, targets, flags = automaton.transition_keys, automaton.transition_targets, automaton.flags
    pattern_starts, patterns = automaton.pattern_starts, automaton.patterns
    counters, node_states, node_depths, state_documents, state_parents, pattern_documents, found, visits, tested = run
    sizes, reached = automaton.sizes, automaton.reached
    elements = len(parents)
    attributes_end = elements + len(attribute_owners)
    end = attributes_end + len(text_owners)
    size = len(keys) - 1
    for node in range(counters[NODE], end):
        if node < elements:
            owner = parents[node]
            above = 0
            depth = 1
            if owner >= 0:
                above = node_states[owner]
                depth = node_depths[owner] + 1
            node_depths[node] = depth
            symbol = element_symbols[tags[node]]
        elif node < attributes_end:
            owner = attribute_owners[node - elements]
            above = node_states[owner]
            if not flags[above] & HAS_ATTRIBUTES:
                continue
            symbol = attribute_symbols[attribute_tags[node - elements]]
        else:
            owner = text_owners[node - attributes_end]
            above = node_states[owner]
            if not flags[above] & HAS_TEXTS:
                continue
            symbol = 0
        key = (above << 32) | symbol
        at = (above * FIRST_FACTOR + symbol * SECOND_FACTOR) & size
        while keys[at] != key and keys[at] != EMPTY:
            at = (at + 1) & size
        if keys[at] == EMPTY:
            # A new transition. Its nodes are those after all edges that the symbol passes; the trie is a tree, so
            # that none is reached twice.
            if 2 * (sizes[TRANSITIONS] + 1) > size:
                counters[NODE] = node
                return 1
            waiting = automaton.waitings[above]
            count = 0
            for is_descendant in range(2):
                if is_descendant:
                    first = automaton.waiting_starts[waiting]
                    last = automaton.waiting_starts[waiting + 1]
                else:
                    first = automaton.node_starts[above]
                    last = automaton.node_starts[above + 1]
                for place in range(first, last):
                    if is_descendant:
                        origin = automaton.waiting_nodes[place]
                        edges_start = trie.descendant_starts[origin]
                        edges_end = trie.descendant_starts[origin + 1]
                    else:
                        origin = automaton.nodes[place]
                        edges_start = trie.child_starts[origin]
                        edges_end = trie.child_starts[origin + 1]
                    if edges_start == edges_end:
                        continue
                    for each in range(trie.accepted_starts[symbol], trie.accepted_starts[symbol + 1]):
                        test = trie.accepted[each]
                        low = edges_start
                        high = edges_end
                        while low < high:
                            middle = (low + high) >> 1
                            if is_descendant:
                                is_less = trie.descendant_tests[middle] < test
                            else:
                                is_less = trie.child_tests[middle] < test
                            if is_less:
                                low = middle + 1
                            else:
                                high = middle
                        if low < edges_end:
                            if is_descendant:
                                if trie.descendant_tests[low] == test:
                                    reached[count] = trie.descendant_targets[low]
                                    count += 1
                            elif trie.child_tests[low] == test:
                                reached[count] = trie.child_targets[low]
                                count += 1
            # In ascending order (Shell, 1959), so that a set of nodes is one state, however it was reached.
            gap = count >> 1
            while gap > 0:
                for place in range(gap, count):
                    value = reached[place]
                    other = place
                    while other >= gap and reached[other - gap] > value:
                        reached[other] = reached[other - gap]
                        other -= gap
                    reached[other] = value
                gap >>= 1
            more_patterns = 0
            more_links = 0
            more_searches = 0
            more_waiting = 0
            for place in range(count):
                each = reached[place]
                more_patterns += trie.pattern_starts[each + 1] - trie.pattern_starts[each]
                more_links += trie.link_starts[each + 1] - trie.link_starts[each]
                more_searches += trie.search_starts[each + 1] - trie.search_starts[each]
                if trie.descendant_starts[each + 1] > trie.descendant_starts[each]:
                    more_waiting += 1
            waiting_end = sizes[WAITING_NODES]
            waiting_count = automaton.waiting_starts[waiting + 1] - automaton.waiting_starts[waiting]
            if (
                sizes[STATES] + 2 > len(flags)
                or 2 * (sizes[STATES] + 1) > len(automaton.state_table)
                or sizes[STATE_NODES] + count > len(automaton.nodes)
                or sizes[STATE_PATTERNS] + more_patterns > len(patterns)
                or sizes[STATE_LINKS] + more_links > len(automaton.links)
                or sizes[STATE_SEARCHES] + more_searches > len(automaton.searches)
                or sizes[WAITINGS] + 2 > len(automaton.waiting_starts)
                or 2 * (sizes[WAITINGS] + 1) > len(automaton.waiting_table)
                or waiting_end + waiting_count + more_waiting > len(automaton.waiting_nodes)
            ):
                counters[NODE] = node
                return 1
            if not trie.symbol_kinds[symbol]:
                waiting = 0  # nothing is below attributes and texts
            elif more_waiting > 0:
                # Both sets are ascending.
                first = automaton.waiting_starts[waiting]
                last = automaton.waiting_starts[waiting + 1]
                place = 0
                tail = waiting_end
                digest = 0
                while first < last or place < count:
                    if place < count:
                        each = reached[place]
                        if trie.descendant_starts[each + 1] == trie.descendant_starts[each]:
                            place += 1
                            continue
                    if place == count or (first < last and automaton.waiting_nodes[first] < reached[place]):
                        automaton.waiting_nodes[tail] = automaton.waiting_nodes[first]
                        first += 1
                    else:
                        automaton.waiting_nodes[tail] = reached[place]
                        place += 1
                    digest = (digest * FIRST_FACTOR + automaton.waiting_nodes[tail]) & 0x3FFFFFFF
                    tail += 1
                table_size = len(automaton.waiting_table) - 1
                slot = digest & table_size
                waiting = EMPTY
                while waiting == EMPTY and automaton.waiting_table[slot] != EMPTY:
                    waiting = automaton.waiting_table[slot]
                    first = automaton.waiting_starts[waiting]
                    if automaton.waiting_starts[waiting + 1] - first != tail - waiting_end:
                        waiting = EMPTY
                    else:
                        for place in range(tail - waiting_end):
                            if automaton.waiting_nodes[first + place] != automaton.waiting_nodes[waiting_end + place]:
                                waiting = EMPTY
                                break
                    slot = (slot + 1) & table_size
                if waiting == EMPTY:
                    waiting = sizes[WAITINGS]
                    automaton.waiting_table[slot] = waiting
                    automaton.waiting_starts[waiting + 1] = tail
                    sizes[WAITINGS] += 1
                    sizes[WAITING_NODES] = tail
            digest = waiting
            for place in range(count):
                digest = (digest * FIRST_FACTOR + reached[place]) & 0x3FFFFFFF
            table_size = len(automaton.state_table) - 1
            slot = digest & table_size
            state = EMPTY
            while state == EMPTY and automaton.state_table[slot] != EMPTY:
                state = automaton.state_table[slot]
                first = automaton.node_starts[state]
                if automaton.waitings[state] != waiting or automaton.node_starts[state + 1] - first != count:
                    state = EMPTY
                else:
                    for place in range(count):
                        if automaton.nodes[first + place] != reached[place]:
                            state = EMPTY
                            break
                slot = (slot + 1) & table_size
            if state == EMPTY:
                state = sizes[STATES]
                automaton.state_table[slot] = state
                automaton.waitings[state] = waiting
                flag = 0
                for place in range(automaton.waiting_starts[waiting], automaton.waiting_starts[waiting + 1]):
                    flag |= trie.descendant_flags[automaton.waiting_nodes[place]]
                for place in range(count):
                    each = reached[place]
                    flag |= trie.child_flags[each]
                    automaton.nodes[sizes[STATE_NODES]] = each
                    sizes[STATE_NODES] += 1
                    for value in range(trie.pattern_starts[each], trie.pattern_starts[each + 1]):
                        patterns[sizes[STATE_PATTERNS]] = trie.patterns[value]
                        sizes[STATE_PATTERNS] += 1
                    for value in range(trie.link_starts[each], trie.link_starts[each + 1]):
                        automaton.links[sizes[STATE_LINKS]] = trie.links[value]
                        sizes[STATE_LINKS] += 1
                    for value in range(trie.search_starts[each], trie.search_starts[each + 1]):
                        automaton.searches[sizes[STATE_SEARCHES]] = trie.searches[value]
                        sizes[STATE_SEARCHES] += 1
                flags[state] = flag
                automaton.node_starts[state + 1] = sizes[STATE_NODES]
                pattern_starts[state + 1] = sizes[STATE_PATTERNS]
                automaton.link_starts[state + 1] = sizes[STATE_LINKS]
                automaton.search_starts[state + 1] = sizes[STATE_SEARCHES]
                state_documents[state] = 0
                sizes[STATES] += 1
            keys[at] = key
            targets[at] = state
            sizes[TRANSITIONS] += 1
        state = targets[at]
        if node < elements:
            node_states[node] = state
        flag = flags[state]
        if flag & HAS_PATTERNS and state_documents[state] != number:
            for place in range(pattern_starts[state], pattern_starts[state + 1]):
                pattern = patterns[place]
                if pattern_documents[pattern] < number:
                    pattern_documents[pattern] = number
                    found[counters[FOUND]] = pattern
                    counters[FOUND] += 1
        if flag & HAS_LINKS and (state_documents[state] != number or state_parents[state] != owner):
            # For a sibling in the same state, links hold at the same elements.
            visits[2 * counters[VISITS]] = node
            visits[2 * counters[VISITS] + 1] = state
            counters[VISITS] += 1
            state_parents[state] = owner
        state_documents[state] = number
        if flag & HAS_TESTS:
            tested[2 * counters[TESTED]] = node
            tested[2 * counters[TESTED] + 1] = state
            counters[TESTED] += 1
    counters[NODE] = end
    return 0

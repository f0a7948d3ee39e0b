"""Kernels of pattern matching: the run of the path automaton over a document, and the join of branches.

The functions are plain Python on arrays of integers, and Numba can compile them as they stand. This package does not
compile them: it stands below the compiler of kernels, and whoever has one hands in compiled forms (`PatternKernels`).
Without, Python interprets them over memoryviews. They call no other functions, which would have to be compiled too.

A node of a document is a number here: elements first, then attributes, then text nodes. An instance of a row is the
row at the element that its node of the pattern is placed on. Its mask has a bit for each child row that has been found
below that element, and lives in a hash table of the document (`Instances`).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

# An array of NumPy, or a memoryview of one.
Integers: TypeAlias = Any

# Counters of a run, by place.
NODE, FOUND, VISITS, TESTED, MISSING_STATE, MISSING_SYMBOL, DEPTH = range(7)
COUNTERS: Final = 7

# Flags of a state.
HAS_PATTERNS, HAS_ROWS, HAS_TESTS, HAS_ATTRIBUTES, HAS_TEXTS = 1, 2, 4, 8, 16

# Links of a row to its parent row.
TOP = 0
"""No parent: its pattern matches."""
FIXED = 1
"""A fixed number of levels above."""
ROOT = 2
"""The document node."""
FREE = 3
"""Any ancestor on which the node of the parent row can be placed."""
CHECKED = 4
"""As `FREE`, if the steps between fit the elements between."""

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


class AutomatonArrays(NamedTuple):
    """The states of the automaton that are known, and its transitions in a hash table."""

    transition_keys: Integers
    """State in the upper 32 bits, symbol in the lower; `EMPTY` where there is none. The length is a power of two."""
    transition_targets: Integers
    flags: Integers
    pattern_starts: Integers
    """By state: where its patterns are in `patterns`, up to those of the next."""
    patterns: Integers
    row_starts: Integers
    rows: Integers
    node_starts: Integers
    nodes: Integers
    """Nodes of the trie that a state stands for; ascending."""
    accepted_starts: Integers
    """By symbol: where the name tests that accept it are in `accepted`."""
    accepted: Integers


class RunArrays(NamedTuple):
    """What a run over a document writes."""

    counters: Integers
    node_states: Integers
    """By element: its state."""
    node_depths: Integers
    """By element: its depth, from 1."""
    state_documents: Integers
    """By state: the last document in which its patterns were reported."""
    state_parents: Integers
    """By state: the last element below which its rows were visited, of that document."""
    pattern_documents: Integers
    """By pattern: the last document that it was found in."""
    found: Integers
    visits: Integers
    """Pairs of node and state whose rows are to be joined."""
    tested: Integers
    """Pairs of node and state that has value tests."""


class RowArrays(NamedTuple):
    """The rows of all patterns."""

    links: Integers
    levels: Integers
    """The levels between a row's node and its parent row's, exactly or at least; counted from the element of a node."""
    parents: Integers
    bits: Integers
    """The bit of the row in the mask of its parent row."""
    masks: Integers
    """The mask of a row that is complete."""
    patterns: Integers
    """The pattern of a row without a parent."""
    trie_nodes: Integers
    step_starts: Integers
    """Where the steps from the parent row to a row are, first to last."""
    step_axes: Integers
    """1 for a descendant, 0 for a child."""
    step_tests: Integers


class InstanceArrays(NamedTuple):
    """Hash table of the masks of instances; an entry of an earlier document is free."""

    keys: Integers
    documents: Integers
    masks: Integers
    stack: Integers
    """Instances that are complete and not yet handed to their parent rows: pairs of row and element."""
    used: Integers
    """One number: the entries of this document."""


def run_automaton(document: DocumentArrays, automaton: AutomatonArrays, run: RunArrays, number: int) -> int:
    """Run over a document from the node that the counters name; 0 at its end, 1 where a transition is missing."""
    parents, tags, attribute_owners, attribute_tags, text_owners, element_symbols, attribute_symbols = document
    keys, targets, flags, pattern_starts, patterns, _, _, _, _, _, _ = automaton
    counters, node_states, node_depths, state_documents, state_parents, pattern_documents, found, visits, tested = run
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
            counters[DEPTH] = max(counters[DEPTH], depth)
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
            counters[NODE] = node
            counters[MISSING_STATE] = above
            counters[MISSING_SYMBOL] = symbol
            return 1
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
        if flag & HAS_ROWS and (state_documents[state] != number or state_parents[state] != owner):
            # A sibling in the same state would set the same bits.
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


def join_rows(
    first: int,
    visits: Integers,
    starts: Integers,
    rows: Integers,
    document: DocumentArrays,
    automaton: AutomatonArrays,
    run: RunArrays,
    table: RowArrays,
    instances: InstanceArrays,
    number: int,
) -> int:
    """Hand the rows of visits, pairs of a node and a place in `starts`, to their parent rows.

    Returns the next visit: the count of all, or the one before which the hash table has to grow.
    """
    parents, tags, attribute_owners, _, text_owners, element_symbols, _ = document
    _, _, _, _, _, _, _, node_starts, nodes, accepted_starts, accepted = automaton
    counters, node_states, _, _, _, pattern_documents, found, _, _ = run
    links, levels, row_parents, bits, full, row_patterns, trie_nodes, step_starts, step_axes, step_tests = table
    keys, documents, masks, stack, used = instances
    elements = len(parents)
    attributes_end = elements + len(attribute_owners)
    size = len(keys) - 1
    room = len(stack) // 2
    for visit in range(first, len(visits) // 2):
        if 2 * (used[0] + room) > size:
            return visit
        node = visits[2 * visit]
        where = visits[2 * visit + 1]
        is_element = node < elements
        if is_element:
            leaf_element = node
        elif node < attributes_end:
            leaf_element = attribute_owners[node - elements]
        else:
            leaf_element = text_owners[node - attributes_end]
        for place in range(starts[where], starts[where + 1]):
            if 2 * (used[0] + room) > size:
                return visit
            depth = 1
            stack[0] = rows[place]
            stack[1] = leaf_element
            is_on_element = is_element
            while depth > 0:
                depth -= 1
                row = stack[2 * depth]
                element = stack[2 * depth + 1]
                link = links[row]
                if link == TOP:
                    pattern = row_patterns[row]
                    if pattern_documents[pattern] < number:
                        pattern_documents[pattern] = number
                        found[counters[FOUND]] = pattern
                        counters[FOUND] += 1
                    is_on_element = True
                    continue
                parent = row_parents[row]
                ancestor = element
                if link == ROOT:
                    ancestor = -1
                else:
                    for _ in range(levels[row]):
                        ancestor = parents[ancestor]
                while True:
                    fits = True
                    if link >= FREE:
                        wanted = trie_nodes[parent]
                        state = node_states[ancestor]
                        low = node_starts[state]
                        high = node_starts[state + 1]
                        stop = high
                        while low < high:
                            middle = (low + high) >> 1
                            if nodes[middle] < wanted:
                                low = middle + 1
                            else:
                                high = middle
                        fits = low < stop and nodes[low] == wanted
                        if fits and link == CHECKED:
                            # The steps between, last to first: the last one is placed on the node itself. A step after
                            # a descendant axis is placed as low as possible, and higher where the next one fails.
                            start = step_starts[row]
                            step = step_starts[row + 1] - 1
                            position = parents[element] if is_on_element else element
                            retry_step = -1
                            retry_position = -1
                            fits = False
                            while True:
                                if step_axes[step]:
                                    retry_step = step
                                    retry_position = position
                                if step == start:
                                    placed = position == ancestor
                                elif position <= ancestor:
                                    placed = False
                                else:
                                    placed = False
                                    symbol = element_symbols[tags[position]]
                                    for each in range(accepted_starts[symbol], accepted_starts[symbol + 1]):
                                        if accepted[each] == step_tests[step - 1]:
                                            placed = True
                                            break
                                if placed:
                                    if step == start:
                                        fits = True
                                        break
                                    step -= 1
                                    position = parents[position]
                                    continue
                                if retry_step < 0 or retry_position <= ancestor:
                                    break
                                step = retry_step
                                position = parents[retry_position]
                    if fits:
                        key = (parent << 32) | (ancestor + 1)
                        at = (parent * FIRST_FACTOR + (ancestor + 1) * SECOND_FACTOR) & size
                        while documents[at] == number and keys[at] != key:
                            at = (at + 1) & size
                        if documents[at] != number:
                            documents[at] = number
                            keys[at] = key
                            masks[at] = 0
                            used[0] += 1
                        mask = masks[at]
                        if not mask & bits[row]:
                            mask |= bits[row]
                            masks[at] = mask
                            if mask == full[parent]:
                                stack[2 * depth] = parent
                                stack[2 * depth + 1] = ancestor
                                depth += 1
                    if link < FREE:
                        break
                    ancestor = parents[ancestor]
                    if ancestor < 0:
                        break
                is_on_element = True
    return len(visits) // 2


def rehash(old: InstanceArrays, new: InstanceArrays, number: int) -> None:
    """Copy the entries of a document into a larger table."""
    old_keys, old_documents, old_masks, _, old_used = old
    keys, documents, masks, _, used = new
    size = len(keys) - 1
    for place in range(len(old_keys)):
        if old_documents[place] == number:
            key = old_keys[place]
            at = ((key >> 32) * FIRST_FACTOR + (key & 0xFFFFFFFF) * SECOND_FACTOR) & size
            while documents[at] == number:
                at = (at + 1) & size
            documents[at] = number
            keys[at] = key
            masks[at] = old_masks[place]
    used[0] = old_used[0]

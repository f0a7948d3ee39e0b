"""Kernel of the join: the conjunctions of branches in a document, found from the last element to the first.

`palio.xml.branch_table` says what links and units are, `automaton_kernels` what kernels are.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from palio.xml.automaton_kernels import (
    EMPTY,
    FOUND,
    HAS_SEARCHES,
    VISITS,
    AutomatonArrays,
    DocumentArrays,
    Integers,
    RunArrays,
)

# Kinds of links: at which element a link holds, seen from the element where it ends.
UP = 0
"""A number of levels above."""
AT_DEPTH = 1
"""The ancestor at a depth, which is 0 for the document node."""
ABOVE = 2
"""All ancestors of the element a number of levels above; with -1 levels, of an attribute or text, its element too."""

# What is known of a link in one document, in three numbers: attempt in the upper 32 bits, and in the lower
LAST_MARK = 0
"""the element (+ 1) that it was last noted for,"""
HOLDS_AT = 1
"""the element (+ 1) at which it was last found to hold,"""
NEXT_BELOW = 2
"""of a link of kind `ABOVE`, the place of the first node after the present element that it leads up from."""
LINK_NUMBERS: Final = 3


class BranchArrays(NamedTuple):
    """Links and units of all patterns."""

    kinds: Integers
    levels: Integers
    pivot_starts: Integers
    pivots: Integers
    """By link: the conjunctions that are looked at when it holds."""
    other_starts: Integers
    others: Integers
    """By unit: the other links of a conjunction."""
    pattern_starts: Integers
    patterns: Integers
    """By unit: the patterns that match where it is found."""
    link_starts: Integers
    links: Integers
    """By unit: the links that end at it."""


class JoinArrays(NamedTuple):
    """Working memory of the join."""

    link_numbers: Integers
    """What is known of each link, `LINK_NUMBERS` for each."""
    ends: Integers
    """By element: the number after that of its last descendant."""
    heads: Integers
    """By element + 1: its last entry."""
    entry_links: Integers
    entry_nexts: Integers
    pending: Integers
    """Conjunctions found at the present element whose links are to be followed."""


def join_branches(
    hits: Integers,
    document: DocumentArrays,
    automaton: AutomatonArrays,
    run: RunArrays,
    branches: BranchArrays,
    join: JoinArrays,
    number: int,
    attempt: int,
) -> int:
    """Find the conjunctions of a document, from the visits of a run and from hits, pairs of node and unit.

    Elements are looked at from the last to the first, so that everything below one is known before it. A link is noted
    in a list of the element at which it holds. One of kind `ABOVE` is noted at the element that it leads up from, and
    holds at an element in whose subtree the nearest of these is: no ancestors are searched. The place of a node for
    this is twice the number of its element, and 1 more for attributes and texts.

    Returns 0, or 1 where there is no room for more entries.
    """
    parents, attribute_owners, text_owners = document.parents, document.attribute_owners, document.text_owners
    counters, node_states, node_depths, visits = run.counters, run.node_states, run.node_depths, run.visits
    pattern_documents, found = run.pattern_documents, run.found
    flags, state_link_starts, state_links = automaton.flags, automaton.link_starts, automaton.links
    search_starts, searches = automaton.search_starts, automaton.searches
    kinds, levels = branches.kinds, branches.levels
    pivot_starts, pivots = branches.pivot_starts, branches.pivots
    other_starts, others = branches.other_starts, branches.others
    pattern_starts, patterns = branches.pattern_starts, branches.patterns
    unit_link_starts, unit_links = branches.link_starts, branches.links
    numbers, ends, heads, entry_links, entry_nexts, pending = join
    elements = len(parents)
    attributes_end = elements + len(attribute_owners)
    most_entries = len(entry_links)
    stamp = attempt << 32
    visited = counters[VISITS]
    sources = visited + len(hits) // 2
    entries = 0
    source = 0
    pending_count = 0
    current = elements
    heads[0] = EMPTY
    for element in range(elements):
        heads[element + 1] = EMPTY
        ends[element] = element + 1
    for element in range(elements - 1, 0, -1):
        ends[parents[element]] = max(ends[parents[element]], ends[element])
    while True:
        # Note the links that follow from what was found.
        while source < sources or pending_count > 0:
            if source < visited:
                node = visits[2 * source]
                unit = EMPTY
                first = state_link_starts[visits[2 * source + 1]]
                last = state_link_starts[visits[2 * source + 1] + 1]
                source += 1
            else:
                if source < sources:
                    node = hits[2 * (source - visited)]
                    unit = hits[2 * (source - visited) + 1]
                    source += 1
                else:
                    pending_count -= 1
                    node = current
                    unit = pending[pending_count]
                first = unit_link_starts[unit]
                last = unit_link_starts[unit + 1]
                for place in range(pattern_starts[unit], pattern_starts[unit + 1]):
                    pattern = patterns[place]
                    if pattern_documents[pattern] < number:
                        pattern_documents[pattern] = number
                        found[counters[FOUND]] = pattern
                        counters[FOUND] += 1
            if node < elements:
                element = node
            elif node < attributes_end:
                element = attribute_owners[node - elements]
            else:
                element = text_owners[node - attributes_end]
            if entries + last - first > most_entries:
                return 1
            for place in range(first, last):
                if unit == EMPTY:
                    link = state_links[place]
                else:
                    link = unit_links[place]
                up = levels[link]
                if kinds[link] == AT_DEPTH:
                    up = node_depths[element] - up
                above = element
                while up > 0:
                    above = parents[above]
                    up -= 1
                mark = stamp | (above + 1)
                if numbers[LINK_NUMBERS * link + LAST_MARK] != mark:
                    numbers[LINK_NUMBERS * link + LAST_MARK] = mark
                    entry_links[entries] = link
                    entry_nexts[entries] = heads[above + 1]
                    heads[above + 1] = entries
                    entries += 1
        # What is above the present element is below those that follow.
        if current < elements:
            entry = heads[current + 1]
            while entry != EMPTY:
                link = entry_links[entry]
                entry = entry_nexts[entry]
                if link != EMPTY and kinds[link] == ABOVE and levels[link] >= 0:
                    numbers[LINK_NUMBERS * link + NEXT_BELOW] = stamp | (2 * current)
        current -= 1
        while current >= 0 and heads[current + 1] == EMPTY and not flags[node_states[current]] & HAS_SEARCHES:
            current -= 1
        if current < -1:
            return 0
        # The links that hold at the element.
        mark = stamp | (current + 1)
        entry = heads[current + 1]
        while entry != EMPTY:
            link = entry_links[entry]
            if kinds[link] != ABOVE:
                if numbers[LINK_NUMBERS * link + HOLDS_AT] == mark:
                    entry_links[entry] = EMPTY  # noted before
                numbers[LINK_NUMBERS * link + HOLDS_AT] = mark
            elif levels[link] < 0:
                numbers[LINK_NUMBERS * link + NEXT_BELOW] = stamp | (2 * current + 1)
            entry = entry_nexts[entry]
        # The conjunctions whose pivot holds, and those that are looked for at every element in this state.
        entry = heads[current + 1]
        place = 0
        last = 0
        if current >= 0:
            place = search_starts[node_states[current]]
            last = search_starts[node_states[current] + 1]
        is_searching = True
        while True:
            if place == last:
                is_searching = False
                while entry != EMPTY and (entry_links[entry] == EMPTY or kinds[entry_links[entry]] == ABOVE):
                    entry = entry_nexts[entry]
                if entry == EMPTY:
                    break
                place = pivot_starts[entry_links[entry]]
                last = pivot_starts[entry_links[entry] + 1]
                entry = entry_nexts[entry]
                continue
            if is_searching:
                unit = searches[place]
            else:
                unit = pivots[place]
            place += 1
            holds = True
            for other in range(other_starts[unit], other_starts[unit + 1]):
                link = others[other]
                if kinds[link] == ABOVE:
                    below = numbers[LINK_NUMBERS * link + NEXT_BELOW]
                    holds = stamp | (2 * current) < below < stamp | (2 * ends[current])
                else:
                    holds = numbers[LINK_NUMBERS * link + HOLDS_AT] == mark
                if not holds:
                    break
            if holds:
                pending[pending_count] = unit
                pending_count += 1

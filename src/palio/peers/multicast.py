"""m-cast: one message to all owners of a set of keys, along the fingers of Chord (Baldoni et al. §4.3, corrected).

The printed algorithm hands the keys between two fingers to the far one, so that those that it does not own travel
backwards one node at a time. Handing them to the near one instead makes some nodes receive a message twice. Here a
finger is responsible for the nodes from itself up to the next finger, itself included, which takes the predecessor of
each finger: then every owner is reached, no node receives twice, and no way is longer than the number of bits.

Where a predecessor is not known, or no longer the right one, coverage stays whole, because every node keeps what it
owns and passes on the rest; a node may then receive a message twice, and recognises it by its number.
"""

from __future__ import annotations

from collections.abc import Mapping

from palio.peers.ring import Ring, Runs, intersect_runs


def split_keys(ring: Ring, node: int, fingers: Mapping[int, int | None], keys: Runs) -> dict[int, Runs]:
    """Keys that a node does not own, by the finger that is responsible for them.

    `fingers` map nodes that this one knows to their predecessors, as far as those are known; the successor is one of
    them. Without any finger there is nobody to pass keys on to, and nothing is returned.
    """
    ordered = sorted((each for each in fingers if each != node), key=lambda finger: ring.distance(node, finger))
    begins: list[int] = []
    before = 0  # the distance of the finger before; nobody stands between this node and the first one
    for finger in ordered:
        own, predecessor = ring.distance(node, finger), fingers[finger]
        # What a finger itself owns is left to the one before it, where its predecessor is not known; and one that is
        # farther than the finger before is out of date.
        begin = own if predecessor is None else ring.distance(node, predecessor)
        begins.append(min(max(begin, before), own) if before else 0)
        before = own
    found: dict[int, Runs] = {}
    for place, finger in enumerate(ordered):
        begin, end = begins[place], begins[place + 1] if place + 1 < len(ordered) else ring.size
        if begin == end:
            continue
        low, high = (node + begin) % ring.size, (node + end) % ring.size
        taken = intersect_runs(keys, ring.arc(low, high))
        if taken:
            found[finger] = taken
    return found

"""Membership of a node on a Chord ring: neighbours, fingers, and the arc of keys that it is responsible for.

Maintenance follows the corrected protocol of Zave ("Reasoning about identifier spaces: how to make Chord correct"): a
node keeps a list of successors, takes over the list of its first one, drops those that are dead, and checks whether a
predecessor is alive before another takes its place. The printed protocol of Chord can lose the order of the ring.

Two things are added for what is stored under keys. A node that joins is responsible for nothing until its successor has
transferred its arc; the successor stays responsible until the transfer is acknowledged. So every key has an owner at
any time. And a node whose predecessor has crashed takes what a node sends to it as to its successor: it has the copies.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from palio.peers.messages import (
    AskNeighbours,
    Cast,
    Effect,
    Interest,
    Kept,
    Leave,
    Lookup,
    Neighbours,
    Notify,
    Send,
    Taken,
    Transfer,
    Transferred,
)
from palio.peers.ring import Ring, Runs, intersect_runs

Stored: TypeAlias = tuple[tuple[Interest, ...], tuple[Kept, ...]]  # under some keys

_MAX_JOINING_ROUNDS: Final = 5  # of maintenance, in which a node that joins acknowledges its arc
MAX_REMEMBERED_ARCS: Final = 32  # of nodes that answered, as further fingers


class Membership:
    """One node of a ring."""

    def __init__(self, ring: Ring, node: int, successors: int, effects: list[Effect]) -> None:
        self.ring = ring
        self.node = node
        self.length = successors
        self.successors: list[int] = [node]
        self.predecessor: int | None = None
        self.is_member = False
        self.joining: int | None = None  # the node to which an arc is being transferred
        self._effects = effects
        self._fingers: dict[int, tuple[int, int | None]] = {}  # by power of two: a node and its predecessor
        self._remembered: OrderedDict[int, int | None] = OrderedDict()
        self._next_finger = 0
        self._joining_rounds = 0

    # Beginning and end

    def found_ring(self) -> None:
        """Be the first node of a ring, responsible for all keys."""
        self.predecessor = self.node
        self.is_member = True

    def restore(self, predecessor: int, successors: Iterable[int], fingers: dict[int, tuple[int, int | None]]) -> None:
        """Take a known place on a stable ring."""
        self.predecessor, self.successors, self._fingers = predecessor, list(successors), fingers
        self.is_member = True

    def on_place_found(self, owner: int, answer: Taken) -> None:
        """The owner of this node's own position is its successor."""
        if not self.is_member and owner != self.node:
            self._set_successors((owner, *answer.successors))
            self._send(owner, Notify(False))

    def leave(self, heir: int, interests: tuple[Interest, ...], kept: tuple[Kept, ...]) -> None:
        """Hand the own arc to the next node that stays, and tell both neighbours."""
        message = Leave(self.predecessor, tuple(self.successors), interests, kept)
        for neighbour in dict.fromkeys((heir, self.successors[0], self.predecessor)):
            if neighbour is not None and neighbour != self.node:
                self._send(neighbour, message)
        self.is_member = False

    # Keys

    def own_keys(self, keys: Runs, sender: int | None = None) -> Runs:
        """Those of some keys that this node is responsible for; `sender` holds it for its successor."""
        if not self.is_member:
            return ()
        low = self.predecessor if self.predecessor is not None else sender
        return () if low is None else intersect_runs(keys, self.ring.arc(low, self.node))

    def behind_sender(self, keys: Runs, sender: int) -> Runs:
        """Keys that belong to the predecessor, which the sender does not know yet."""
        if self.predecessor is None or not self.ring.is_between(sender, self.predecessor, self.node):
            return ()
        return intersect_runs(keys, self.ring.arc(sender, self.predecessor))

    def transferred_keys(self) -> Runs:
        """The arc that is being transferred, which the joining node must hear of as well."""
        if self.joining is None:
            return ()
        low = self.node if self.predecessor is None else self.predecessor
        return self.ring.arc(low, self.joining)

    def nodes_since(self, sender: int) -> list[int]:
        """Nodes between one that holds this for its successor and this one, which it has not heard of yet."""
        found = (self.predecessor, self.joining)
        return [each for each in found if each is not None and self.ring.is_between(sender, each, self.node)]

    def routes(self) -> dict[int, int | None]:
        """The nodes that this one knows, with their predecessors as far as they are known."""
        known: dict[int, int | None] = {**self._remembered, **dict(self._fingers.values())}
        before = self.node
        for each in self.successors:
            if each != self.node:
                known[each] = before
                before = each
        return known

    def remember(self, owner: int, predecessor: int | None) -> None:
        """Keep the arc of a node that answered, as a further finger."""
        if owner == self.node or predecessor is None:
            return
        for power, (node, _) in self._fingers.items():
            if node == owner:
                self._fingers[power] = owner, predecessor
        self._remembered[owner] = predecessor
        self._remembered.move_to_end(owner)
        if len(self._remembered) > MAX_REMEMBERED_ARCS:
            self._remembered.popitem(last=False)

    # Maintenance, once in each period

    def stabilise(self) -> None:
        """Ask the successor for its neighbours, and see whether the predecessor is alive."""
        successor = self.successors[0]
        if successor != self.node:
            self._send(successor, AskNeighbours() if self.is_member else Notify(False))
        if self.predecessor is not None and self.predecessor not in (self.node, successor):
            self._send(self.predecessor, AskNeighbours())
        if self.joining is not None:
            self._joining_rounds += 1
            if self._joining_rounds > _MAX_JOINING_ROUNDS:
                self.joining = None  # it may have found another place
            else:
                self._send(self.joining, AskNeighbours())

    def next_finger(self) -> int | None:
        """The position whose owner is to be looked up next; None where the successor owns them all."""
        reach = self.ring.distance(self.node, self.successors[0])
        first = reach.bit_length()  # nearer positions belong to the successor
        if self.successors[0] == self.node or first >= self.ring.bits:
            return None
        self._next_finger = max(first, (self._next_finger + 1) % self.ring.bits)
        return self._next_finger

    def finger_position(self, power: int) -> int:
        return (self.node + (1 << power)) % self.ring.size

    def on_finger_found(self, power: int, owner: int, predecessor: int | None) -> None:
        if owner == self.node:
            self._fingers.pop(power, None)
        else:
            self._fingers[power] = (owner, predecessor)

    def on_neighbours(self, sender: int, found: Neighbours) -> None:
        successor = self.successors[0]
        if not self.is_member and successor == self.node:
            return  # it is still looking for its place, and any peer would look like its successor
        self.remember(sender, found.predecessor)
        before = found.predecessor
        if not self.is_member and sender == successor and before is not None:
            if self.ring.is_between(self.node, before, sender):
                self.successors = [self.node]
            return
        if sender == successor or self.ring.is_between(self.node, sender, successor):
            self._set_successors((sender, *found.successors))
            candidate = found.predecessor
            if sender == successor and candidate is not None and self.ring.is_between(self.node, candidate, sender):
                # It is asked first: it may be dead, and its list of successors is needed.
                self._send(candidate, AskNeighbours())
            else:
                self._send(sender, Notify(self.is_member))

    def on_notify(self, sender: int, message: Notify, stored: Callable[[Runs], Stored]) -> None:
        """A node holds this one for its successor: it becomes the predecessor, if it is nearer than the present one."""
        if not self.is_member or sender == self.node:
            return
        if self.successors[0] == self.node:
            self.successors = [sender]
        known = self.predecessor
        if known is None and message.is_member:
            self.predecessor = sender  # after a crash: it has its arc
        elif known is None or self.ring.is_between(known, sender, self.node):
            if self.joining not in (None, sender):
                return  # one after the other: two that took over at once would both own a part
            if self.joining is None:
                self.joining, self._joining_rounds = sender, 0
            # All but what stays here: copies of its predecessors' arcs as well. If one of them crashes before it has
            # heard of the newcomer, the newcomer owns its arc.
            self._send(sender, Transfer(known, *stored(self.ring.arc(self.node, sender))))
        elif sender != known and known != self.node:
            self._send(known, AskNeighbours())  # if it is dead, the sender takes its place the next time
            if not message.is_member:
                # Others have joined before this newcomer since it was told its place: it asks anew.
                self._send(sender, Neighbours(known, tuple(self.successors)))

    def on_transfer(self, sender: int, message: Transfer) -> None:
        if sender == self.successors[0] and not self.is_member:
            self.predecessor, self.is_member = message.predecessor, True
        if self.is_member:
            self._send(sender, Transferred())

    def on_transferred(self, sender: int) -> None:
        if sender == self.joining:
            self.joining, self.predecessor = None, sender

    def on_leave(self, sender: int, message: Leave) -> None:
        if sender == self.predecessor:
            self.predecessor = message.predecessor if message.predecessor != sender else self.node
        following = [each for each in message.successors if each != sender]
        if sender == self.successors[0]:
            self._set_successors(following or (self.node,))
        self.forget(sender)

    def forget(self, dead: int) -> None:
        """A node cannot be reached."""
        self._remembered.pop(dead, None)
        self._fingers = {
            power: (owner, None if predecessor == dead else predecessor)
            for power, (owner, predecessor) in self._fingers.items()
            if owner != dead
        }
        if self.joining == dead:
            self.joining = None
        if self.predecessor == dead:
            self.predecessor = None
        if dead in self.successors:
            left = [each for each in self.successors if each != dead]
            # More have failed at once than the list is long: whoever is nearest of those that are known.
            self._set_successors(left or sorted(self.routes(), key=lambda each: self.ring.distance(self.node, each)))
        if self.successors == [self.node] and self.predecessor is None:
            self.predecessor = self.node

    def _set_successors(self, given: Iterable[int]) -> None:
        """The first of some nodes, up to this one itself: behind it the ring begins anew."""
        found: list[int] = []
        for each in given:
            if each == self.node:
                break
            if each not in found:
                found.append(each)
        self.successors = found[: self.length] or [self.node]

    def _send(self, to: int, message: AskNeighbours | Notify | Transfer | Transferred | Leave | Neighbours) -> None:
        self._effects.append(Send(to, message))


def lookup(node: int, key: int, number: int) -> Cast:
    """A question for the owner of a key."""
    return Cast(((key, key),), Lookup(), node, number, node, False, 0)

"""Replication: copies of what a peer owns at its next successors, and of its predecessors' arcs here.

An owner sends the digest of its arc to those with copies, in each period; whoever has something else asks for all of
it. Copies of arcs whose owners have not been heard of for a while are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from palio.peers.messages import (
    Agreed,
    AskInterests,
    Copies,
    Digest,
    Interest,
    Kept,
    Released,
    Replicate,
    Replicated,
)
from palio.peers.peer_context import PeerContext
from palio.peers.ring import Runs, intersect_runs, union_runs

_COPY_GRACE_PERIODS: Final = 20  # of maintenance, in which the owner of a copy has not been heard of
_NEW_ARC_PERIODS: Final = 4  # in which the owner of an arc asks those with copies for what it may lack


class Replication:
    """Copies of one peer's arc, and copies at it."""

    def __init__(self, context: PeerContext, on_answer: Callable[[int], None]) -> None:
        """`on_answer` gets the number of a `Replicate` that is done."""
        self._context = context
        self._on_answer = on_answer
        self._digested: dict[int, tuple[int, float]] = {}  # arcs of which this peer has copies: low end, and last heard
        self._swept_at: float | None = None
        self._low: int | None = None  # end of the own arc at the last round of maintenance
        self._grew_at = 0.0

    def holders(self, keys: Runs) -> list[int]:
        """The nodes that store what this one owns, and the one to which an arc is being transferred."""
        context, membership = self._context, self._context.membership
        found: list[int] = []
        hosts = {context.host_of(context.node)}
        for each in membership.successors:
            if len(found) == context.settings.replicas - 1:
                break
            if (host := context.host_of(each)) not in hosts:
                found.append(each)
                hosts.add(host)
        joining = membership.joining
        if joining is not None and joining not in found and intersect_runs(keys, membership.transferred_keys()):
            found.append(joining)
        return found

    def store(self, interests: tuple[Interest, ...], kept: tuple[Kept, ...] = ()) -> None:
        """Store what another peer has of an arc."""
        store, shedding = self._context.store, self._context.shedding
        for each in interests:
            if shedding.is_hot and not store.knows(each):
                shedding.forget()  # those who have copies of the own arc may not have heard of it
            store.store(each, self._context.now)
        store.kept.add(kept)

    def on_message(
        self, sender: int, message: Replicate | Replicated | Digest | Agreed | AskInterests | Copies | Released
    ) -> None:
        context = self._context
        match message:
            case Replicate():
                self.store(message.interests, message.kept)
                if message.number:
                    context.send(sender, Replicated(message.number))
                    for each in context.membership.nodes_since(sender):
                        context.send(each, Replicate(0, message.interests, message.kept))
            case Replicated():
                self._on_answer(message.number)
            case Digest():
                self._on_digest(sender, message)
            case Agreed():
                if sender in self.holders(()):
                    context.shedding.agree(sender, message.low, message.load)
            case AskInterests():
                context.shedding.forget(sender)
                self.store(message.interests, message.kept)
                self._send_copies(sender)
            case Copies():
                arc = context.keys.ring.arc(message.low, sender)
                context.store.replace(arc, message.interests, context.now)
                context.store.kept.replace(arc, message.kept)
            case Released():
                context.store.kept.release(message.pairs)

    def _on_digest(self, sender: int, message: Digest) -> None:
        context = self._context
        self._digested[sender] = message.low, context.now
        arc = context.keys.ring.arc(message.low, sender)
        if context.store.digest(arc) != message.digest:
            held = context.store.stored(arc) if message.is_new else ((), ())
            context.send(sender, AskInterests(*held))
        elif message.is_hot:
            context.send(sender, Agreed(message.low, context.shedding.load))

    def _send_copies(self, to: int) -> None:
        context, low = self._context, self._context.membership.predecessor
        if low is not None and context.membership.is_member:
            context.send(to, Copies(low, *context.store.stored(context.keys.ring.arc(low, context.node))))

    # Maintenance

    def maintain(self) -> None:
        """Drop copies of others that are not needed, and tell those with copies of the own arc its digest."""
        context, low = self._context, self._context.membership.predecessor
        self._drop_strange_copies()
        context.shedding.on_period()
        if low is None:
            return
        digest = context.store.digest(context.keys.ring.arc(low, context.node))
        message = Digest(low, digest, self._is_arc_new(low), context.shedding.is_hot)
        for each in self.holders(()):
            context.send(each, message)

    def _is_arc_new(self, low: int) -> bool:
        """Whether this peer owns a part of its arc since a few periods only."""
        context, ring, before = self._context, self._context.keys.ring, self._low
        if before is None or ring.distance(low, context.node) > ring.distance(before, context.node):
            self._grew_at = context.now
        self._low = low
        return context.now - self._grew_at < _NEW_ARC_PERIODS * context.settings.period

    def _drop_strange_copies(self) -> None:
        """Drop what this peer neither owns nor has copies of any more: others have come between it and the owner."""
        context, now, low = self._context, self._context.now, self._context.membership.predecessor
        grace = _COPY_GRACE_PERIODS * context.settings.period
        if self._swept_at is None or low is None:
            self._swept_at = now
        if now - self._swept_at < grace:
            return
        self._swept_at = now
        self._digested = {node: (begin, at) for node, (begin, at) in self._digested.items() if now - at < grace}
        ring = context.keys.ring
        own = ring.arc(context.node if low is None else low, context.node)
        copied = (ring.arc(begin, node) for node, (begin, _) in self._digested.items())
        context.store.retain(union_runs((own, *copied)))

"""Requests of one peer by m-cast, repeated for the keys that nobody answered for, and the way of casts of others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from palio.peers.chord import lookup
from palio.peers.messages import Cast, Confirmed, Failed, Lookup, Neighbours, Payload, Taken
from palio.peers.multicast import split_keys
from palio.peers.peer_context import PeerContext
from palio.peers.ring import Runs, subtract_runs

RETRY_TIMER: Final = "retry "


@dataclass(slots=True)
class _Request:
    """Something that this peer has sent by m-cast."""

    payload: Payload
    keys: Runs  # that nobody has answered for
    finger: int | None = None  # the power of two whose owner is looked up
    attempts: int = 1


class Casts:
    """What one peer sends by m-cast, and passes on."""

    def __init__(self, context: PeerContext, take: Callable[[Cast, Runs], None]) -> None:
        """`take` does what a cast asks for, for keys that this peer owns."""
        self._context = context
        self._take = take
        self._requests: dict[int, _Request] = {}
        self._contacts: deque[int] = deque()
        self._place_request: int | None = None

    def __len__(self) -> int:
        """Requests without an answer for all their keys."""
        return len(self._requests)

    # Own requests

    def request(self, payload: Payload, keys: Runs) -> int:
        """Send something to all owners of keys; the number that `Confirmed` or `Failed` will have."""
        number = self._context.number()
        if keys:
            self._send(number, _Request(payload, keys))
        else:
            self._context.effects.append(Confirmed(number))  # a condition that can never match has no keys
        return number

    def look_up_next_finger(self) -> None:
        """Ask for the owner of the position at the next power of two."""
        membership = self._context.membership
        power = membership.next_finger()
        if power is not None:
            position = membership.finger_position(power)
            self._send(self._context.number(), _Request(Lookup(), ((position, position),), power))

    def _send(self, number: int, request: _Request) -> None:
        context = self._context
        self._requests[number] = request
        context.set_timer(f"{RETRY_TIMER}{number}", context.settings.patience, upkeep=True)
        self.on_cast(Cast(request.keys, request.payload, context.node, number, context.node, False, 0))

    def retry(self, number: int) -> None:
        """Ask again for the keys that nobody has answered for."""
        request = self._requests.get(number)
        if request is None:
            return
        request.attempts += 1
        if request.finger is not None:
            del self._requests[number]  # the next round looks up the next one
        elif request.attempts > self._context.settings.attempts:
            del self._requests[number]
            self._context.effects.append(Failed(number, request.keys))
        else:
            self._send(number, request)

    def on_taken(self, owner: int, answer: Taken) -> None:
        """An owner has done what was asked for, for some keys."""
        membership = self._context.membership
        membership.remember(owner, answer.predecessor)
        if answer.number == self._place_request:
            membership.on_place_found(owner, answer)
            return
        request = self._requests.get(answer.number)
        if request is None:
            return
        if request.finger is not None:
            del self._requests[answer.number]
            membership.on_finger_found(request.finger, owner, answer.predecessor)
            return
        request.keys = subtract_runs(request.keys, answer.keys)
        if not request.keys:
            del self._requests[answer.number]
            self._context.effects.append(Confirmed(answer.number))

    # The own place on the ring

    def join_by(self, contacts: Iterable[int]) -> None:
        """Name further peers to join by."""
        self._contacts.extend(each for each in contacts if each not in self._contacts)

    def ask_for_place(self) -> None:
        """Ask a contact who owns this peer's own position; the next one in every period, until somebody answers."""
        context = self._context
        if not self._contacts or context.membership.successors[0] != context.node:
            return
        if self._place_request is None:
            self._place_request = context.number()
        context.send(self._contacts[0], lookup(context.node, context.node, self._place_request))
        self._contacts.rotate(-1)

    # The way of a cast

    def on_cast(self, cast: Cast) -> None:
        """Take what this peer owns, and pass the rest on."""
        context, membership = self._context, self._context.membership
        own = membership.own_keys(cast.keys, cast.sender if cast.to_successor else None)
        if own:
            self._take(cast, own)
        rest = subtract_runs(cast.keys, own)
        back = membership.behind_sender(rest, cast.sender) if cast.sender != context.node else ()
        if back and membership.predecessor is not None:
            if not cast.to_successor and cast.hops:  # a newcomer that looks for its place has no fingers
                # The sender's finger is out of date. Uncorrected, both could pass the keys to each other for ever.
                context.send(cast.sender, Neighbours(membership.predecessor, tuple(membership.successors)))
            elif cast.to_successor:
                passed = Cast(back, cast.payload, cast.origin, cast.number, cast.sender, True, cast.hops + 1)
                context.send(membership.predecessor, passed)
                rest = subtract_runs(rest, back)
        if rest:
            self.forward(cast, rest)

    def forward(self, cast: Cast, keys: Runs) -> None:
        """Pass keys of a cast on to those who are nearer to their owners."""
        context, membership = self._context, self._context.membership
        # While the ring changes a message might go round it; whoever sent it will repeat it.
        if cast.hops > 4 * context.keys.ring.bits:
            return
        successor = membership.successors[0]
        if not membership.is_member:
            routes = {successor: keys} if successor != context.node else {}
        else:
            routes = split_keys(context.keys.ring, context.node, membership.routes(), keys)
        for finger, part in routes.items():
            is_next = finger == successor and membership.is_member
            passed = Cast(part, cast.payload, cast.origin, cast.number, context.node, is_next, cast.hops + 1)
            context.send(finger, passed)

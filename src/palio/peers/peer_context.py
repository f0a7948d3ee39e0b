"""Context of one peer: what its parts share, and the settings that all peers of a ring have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from palio.peers.chord import Membership
from palio.peers.interest_store import InterestStore
from palio.peers.key_space import KeySpace
from palio.peers.load_shedding import LoadShedding
from palio.peers.messages import Effect, Message, Send, SetTimer
from palio.peers.notification_buffer import MAX_COLLECT_STEPS


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Settings that all peers of a ring share; seconds where nothing else is said."""

    replicas: int = 3  # nodes that store an interest, its owner included
    successors: int = 8
    period: float = 1.0  # between two rounds of maintenance
    retry: float = 2.0  # after which keys without an answer are asked for again
    attempts: int = 20
    lease: float = 60.0  # of a subscription; it is renewed after a third of it
    durable_lease: float = 7 * 86_400.0  # of a durable one, whose peer may be away
    buffer: float = 0.0  # in which notifications are held back, to be sent together
    shed_above: int = 0  # events of a node in a period, above which it leaves some to its neighbours; 0 is never
    collects: bool = False  # whether those of one subscription are collected by the node in the middle of its keys

    @property
    def patience(self) -> float:
        """After which keys without an answer are asked for again, however long notifications are held back."""
        return self.retry + self.buffer * (MAX_COLLECT_STEPS + 2 if self.collects else 2)

    @property
    def lifetime(self) -> float:
        """After which whoever asked for something has asked again for the last time."""
        return self.patience * self.attempts


class PeerContext:
    """A peer's place on the ring, what it stores, and how its parts send and number messages."""

    def __init__(
        self, node: int, keys: KeySpace, settings: PeerSettings, incarnation: int, host_of: Callable[[int], int]
    ) -> None:
        self.node = node
        self.keys = keys
        self.settings = settings
        self.host_of = host_of
        self.effects: list[Effect] = []
        self.membership = Membership(keys.ring, node, settings.successors, self.effects)
        self.store = InterestStore(keys)
        self.shedding = LoadShedding(settings.shed_above)
        self.now = 0.0
        self.last_number = incarnation << 32

    def number(self) -> int:
        """The next number of a request, a message or a receipt."""
        self.last_number += 1
        return self.last_number

    def send(self, to: int, message: Message) -> None:
        self.effects.append(Send(to, message))

    def set_timer(self, name: str, after: float, *, upkeep: bool = False) -> None:
        self.effects.append(SetTimer(name, after, upkeep))

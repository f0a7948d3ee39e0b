"""What becomes of what clients ask for? It is written down before anybody hears of it, in the order of each client.

A subscription that others know but that a crash forgets would draw events to nobody. So a request that changes tables
is applied when it is on disk. All requests of a batch share one write, also those of one client, where they follow each
other. What a client asks while one of its own is being written waits for it; what others ask does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from palio.routing.clients import (
    AdvertiseClient,
    ClientRequest,
    Refusal,
    Refused,
    SubscribeClient,
    UnadvertiseClient,
    UnsubscribeClient,
)
from palio.routing.effects import Client, Effect, Persist, Record, Reply

LASTING: Final = (SubscribeClient, UnsubscribeClient, AdvertiseClient, UnadvertiseClient)
Apply = Callable[[Client, ClientRequest], None]


class Requests:
    """Requests that wait for the disk, and those that wait for them."""

    __slots__ = ("_apply", "_behind", "_collected", "_gone", "_joining", "_tokens", "_writing")

    def __init__(self, apply: Apply, gone: Callable[[Client], list[ClientRequest]], tokens: Iterator[int]) -> None:
        """`apply` carries one request out; it may be called at once or when the disk has answered. `gone` says what a
        client takes back when it leaves."""
        self._apply = apply
        self._gone = gone
        self._tokens = tokens
        self._collected: list[Record] = []
        self._joining: set[Client] = set()  # those of whom all that waits is collected
        self._writing: dict[int, list[Record]] = {}
        self._behind: dict[Client, list[ClientRequest | None]] = {}  # None where the client left

    def take(self, client: Client, request: ClientRequest) -> None:
        behind = self._behind.get(client)
        is_lasting = type(request) in LASTING
        if is_lasting and (behind is None or client in self._joining):
            self._collected.append(Record(client, request))
            self._behind[client] = []
            self._joining.add(client)
        elif behind is None:
            self._apply(client, request)
        else:
            behind.append(request)
            self._joining.discard(client)

    def leave(self, client: Client) -> None:
        """A client left; what is under way to the disk is taken back when it is there."""
        behind = self._behind.get(client)
        if behind is not None:
            behind.append(None)
            self._joining.discard(client)
            return
        for request in self._gone(client):
            self.take(client, request)

    def write(self) -> Persist | None:
        """What is to be written after a batch."""
        if not self._collected:
            return None
        token = next(self._tokens)
        self._writing[token] = self._collected
        self._collected = []
        self._joining.clear()
        return Persist(tuple(self._writing[token]), token)

    def written(self, token: int) -> None:
        """The disk has answered."""
        records = self._writing.pop(token, [])
        for client, request in records:
            self._apply(client, request)
        self._go_on(records)

    def failed(self, token: int, reason: str, kind: Refusal) -> list[Effect]:
        """The disk has not taken it: nothing was asked for, and who asked is told."""
        records = self._writing.pop(token, [])
        self._go_on(records)
        return [
            Reply(client, Refused(reason, kind, name=request.name))
            for client, request in records
            if isinstance(request, LASTING)
        ]

    def _go_on(self, records: list[Record]) -> None:
        """With what waited for some records."""
        for client in dict.fromkeys(client for client, _ in records):
            for further in self._behind.pop(client, ()):
                if further is None:
                    self.leave(client)
                    continue
                self.take(client, further)

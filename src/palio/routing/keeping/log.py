"""What does a broker owe to publishers whom it assured? Events that it has on disk, until they are where they are for.

An event is confirmed when it is written, and finished when an attempt was whole. Attempts are bounded in number, and so
are events that are not finished: what exceeds that is refused for now, so that nothing is promised that has no room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from palio.routing.clients import Accepted, Proceed, Refusal, Refused
from palio.routing.effects import Client, Effect, Finished, Logged, Reply
from palio.routing.keeping.window import Window
from palio.routing.messages import Acknowledged, EventId, Kept, Key, Publish


class Log:
    """The events that one broker let in and has not finished."""

    __slots__ = (
        "_attempt",
        "_bound",
        "_confirming",
        "_finished",
        "_held",
        "_ready",
        "_refused",
        "_seen",
        "_under_way",
        "_unfinished",
        "_unwritten",
        "_unwritten_by",
        "_window",
    )

    def __init__(self, incarnation: int, bound: int, window: int, seen: Window, unfinished: Iterable[Logged]) -> None:
        """At most `bound` events are not finished, and `window` under way."""
        self._attempt = incarnation << 32
        self._bound = bound
        self._window = window
        self._seen = seen
        self._unfinished = {logged.event.id: logged.event for logged in unfinished}
        self._ready = deque(self._unfinished)  # to be routed
        self._under_way: set[EventId] = set()
        self._held: dict[EventId, None] = {}  # to be routed again
        self._unwritten_by: dict[EventId, tuple[int, ...]] = {}  # homes that could not write it when it last came
        self._unwritten: list[Logged] = []
        self._finished: list[Finished] = []
        self._confirming: dict[Key, list[tuple[Client, int]]] = {}
        self._refused: dict[Client, None] = {}

    def __len__(self) -> int:
        """How many events are not finished."""
        return len(self._unfinished) + len(self._confirming)

    @property
    def has_held(self) -> bool:
        return bool(self._held)

    def publish(self, client: Client, number: int, logged: Logged, missing: list[int]) -> list[Effect]:
        """Somebody wants to be assured of an event; `missing` are the brokers that are waited for."""
        is_new = logged.key[1:] not in self._confirming and logged.key not in self._seen
        if is_new and self._is_busy_for(client):
            return self._refuse(client, number, missing)
        return self._take(client, number, logged)

    def publish_together(
        self, client: Client, events: Sequence[tuple[int, Logged]], missing: list[int]
    ) -> list[Effect]:
        """Somebody wants to be assured of several events, all or none. They are let in where one of them could be, so
        that many find room as soon as one does, and the bound is exceeded by the others."""
        if self._is_busy_for(client):
            return self._refuse(client, events[0][0], missing)
        return [effect for number, logged in events for effect in self._take(client, number, logged)]

    def _is_busy_for(self, client: Client) -> bool:
        # Who was refused is refused until it is told to proceed: what it sends meanwhile must not overtake.
        return client in self._refused or len(self) >= self._bound

    def _refuse(self, client: Client, number: int, missing: list[int]) -> list[Effect]:
        self._refused[client] = None
        return [Reply(client, Refused(self._reason(missing), "busy", number))]

    def _take(self, client: Client, number: int, logged: Logged) -> list[Effect]:
        """An event that is here already is not written again; whoever asked is assured with the first."""
        confirming = self._confirming.get(logged.key[1:])
        if confirming is not None:
            confirming.append((client, number))
            return []
        if logged.key in self._seen:
            return [Reply(client, Accepted(number))]
        self._confirming[logged.key[1:]] = [(client, number)]
        self._unwritten.append(logged)
        return []

    def unwritten(self) -> list[Logged | Finished]:
        """What is to be written since the last call."""
        records: list[Logged | Finished] = [*self._unwritten, *self._finished]
        self._unwritten, self._finished = [], []
        return records

    def written(self, logged: Logged) -> list[Effect]:
        """An event is on disk: whoever asked is assured, and it is routed."""
        event = logged.event
        identity = logged.key[1:]
        self._seen.add(logged.key)
        self._unfinished[event.id] = event
        self._ready.append(event.id)
        return [Reply(client, Accepted(number)) for client, number in self._confirming.pop(identity, ())]

    def failed(self, logged: Logged, reason: str, kind: Refusal) -> list[Effect]:
        """An event could not be written."""
        asked = self._confirming.pop(logged.key[1:], ())
        return [Reply(client, Refused(reason, kind, number)) for client, number in asked]

    def attempts(self) -> Iterator[Publish]:
        """What is to be routed now."""
        while self._ready and len(self._under_way) < self._window:
            id = self._ready.popleft()
            event = self._unfinished[id]
            identity = event.kept.identity if event.kept is not None else b""
            self._attempt += 1
            self._under_way.add(id)
            yield Publish(
                id,
                event.body,
                event.header,
                epoch=event.epoch,
                publisher=event.publisher,
                kept=Kept(identity, self._attempt),
            )

    def ended(self, attempt: Acknowledged) -> None:
        """An attempt is over."""
        self._under_way.discard(attempt.id)
        self._unwritten_by.pop(attempt.id, None)
        if attempt.whole:
            self._unfinished.pop(attempt.id, None)
            self._finished.append(Finished(attempt.id))
        else:
            self._held[attempt.id] = None
            if attempt.unwritten:
                self._unwritten_by[attempt.id] = attempt.unwritten

    @property
    def unwritten_by(self) -> set[int]:
        """The homes that could not write some of these events when they last came."""
        return {home for homes in self._unwritten_by.values() for home in homes}

    def again(self) -> None:
        """Route again what could not reach everyone, in the order in which it was let in."""
        self._ready.extend(sorted(self._held))
        self._held = {}

    def room(self) -> list[Effect]:
        """Who was refused is told when half of the room is there again."""
        if not self._refused or 2 * len(self) > self._bound:
            return []
        refused, self._refused = self._refused, {}
        return [Reply(client, Proceed()) for client in refused]

    def _reason(self, missing: list[int]) -> str:
        waited = f"brokers that are away: {', '.join(map(str, missing))}" if missing else "brokers that are slow"
        return f"busy: {self._bound:,} events that were confirmed wait for {waited}"

"""Host of a peer: a broker without neighbours for this peer's own clients, and the ring in place of links.

Clients subscribe, acknowledge and are held back exactly as at a broker, since it is one that serves them. What differs
is where requests go first. A subscription is confirmed when the ring has stored it; a publication goes to the ring, and
comes back by it to subscribers here as to those elsewhere. What the ring delivers is published at the broker, which
answers when it is safe; so an event is confirmed to its publisher when every subscriber's peer has it, or owners of its
keys keep it for one that is away.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, Final

from palio.errors import PalioError
from palio.events import Event
from palio.filters.filter import Filter
from palio.network.error_codes import refusal_of
from palio.network.peers.drivers import PeerDriver
from palio.network.server.batch_delivery import Groups, SharedBatch
from palio.network.server.durable_consumers import DURABLE_CLIENT_PREFIX
from palio.network.server.host import Host
from palio.peers.messages import identity
from palio.routing import codec
from palio.routing.client_messages import (
    Accepted,
    Answer,
    ClientRequest,
    ForgetClient,
    Proceed,
    PublishBatch,
    PublishClient,
    Refused,
    ReplayClient,
    SubscribeClient,
    UnsubscribeClient,
)
from palio.routing.columnar_codec import bodies_of
from palio.routing.effects import BatchRequest, Client, ClientGone, Reply
from palio.routing.messages import Publish
from palio.routing.node import NodeInput

RING_CLIENT: Final = "ring"
_MAX_PUBLISHING_EVENTS: Final = 8_192  # under way on the ring; further ones wait at their publishers
_MAX_WAITING_REQUESTS: Final = 16_384  # for the ring that this peer is still joining
_MAX_REMEMBERED_EVENTS: Final = 65_536  # delivered here, by which repeated ones are recognised
_Subscription = tuple[Client, str]  # a client and its name for a subscription


@dataclass(slots=True)
class _RingInterest:
    """One condition of this peer's clients on the ring, whoever of them has it."""

    wanted: Filter
    durable: bool
    users: set[_Subscription] = field(default_factory=set)
    is_installed: bool = False
    waiting: list[tuple[_Subscription, SubscribeClient]] = field(default_factory=list)


class PeerHost(Host):
    """A host whose publications and subscriptions go by the ring."""

    _ring: PeerDriver | None = None

    def begin(self, number: int) -> None:
        """Take the number of this peer, which stays the same over its lives."""
        self._number = number
        self._interests: dict[str, _RingInterest] = {}
        self._ids: dict[_Subscription, str] = {}
        self._early: list[tuple[Client, ClientRequest | BatchRequest]] = []
        self._publishing = 0
        self._held_back: set[Client] = set()
        self._receipts: dict[int, list[int]] = {}  # of the ring, by numbers of publications at the broker
        self._arriving: dict[str, int] = {}  # such numbers, by identities of events
        self._keys_of_numbers: dict[int, str] = {}
        self._delivered: OrderedDict[str, None] = OrderedDict()
        self._last_number = 0
        self.clients[RING_CLIENT] = _RingClient(self)

    def open_ring(self, ring: PeerDriver) -> None:
        """Use the ring from now on; durable subscriptions of an earlier life are on it first."""
        self._ring = ring
        for entry in self.subscriptions_of_clients(DURABLE_CLIENT_PREFIX):
            self._add_interest((entry.client, entry.name), entry.filter, durable=True, then=None)
        early, self._early = self._early, []
        for client, request in early:
            self.request(client, request)

    # Requests of clients

    def enqueue(self, input: NodeInput) -> None:
        if type(input) is ClientGone:
            self._early = [each for each in self._early if each[0] != input.client]
            self._held_back.discard(input.client)
            for each in [each for each in self._ids if each[0] == input.client]:
                self._remove_interest(each)
        super().enqueue(input)

    def request(self, client: Client, request: ClientRequest | BatchRequest) -> None:
        kind = type(request)
        handle = _HANDLERS.get(kind)
        if client == RING_CLIENT or handle is None:
            super().request(client, request)
        elif self._ring is not None:
            handle(self, client, request)
        elif len(self._early) < _MAX_WAITING_REQUESTS:
            self._early.append((client, request))
        else:
            self._refuse(client, request, "this peer has not joined its ring yet", "busy")

    def _refuse(self, client: Client, request: Any, reason: str, kind: Any = "refused") -> None:
        for each in request.events if type(request) is PublishBatch else (request,):
            refused = Refused(reason, kind, getattr(each, "number", 0), getattr(each, "name", ""))
            self._answer(Reply(client, refused))
        if kind == "busy":
            self._held_back.add(client)

    def _subscribe(self, client: Client, request: SubscribeClient) -> None:
        self._add_interest((client, request.name), request.wanted, request.durable, then=request)

    def _unsubscribe(self, client: Client, request: UnsubscribeClient) -> None:
        self._remove_interest((client, request.name))
        super().request(client, request)

    def _refuse_replay(self, client: Client, request: ReplayClient) -> None:
        reason = "a peer has no log of all events: owners of an event's keys forget it when it is delivered"
        self._answer(Reply(client, Refused(reason, number=request.number)))

    def _refuse_forget(self, client: Client, request: ForgetClient) -> None:
        reason = "peers need not be forgotten: the ring closes over one that is away, and leases end what it wanted"
        self._answer(Reply(client, Refused(reason, number=request.number)))

    # Subscriptions on the ring

    def _add_interest(
        self, subscription: _Subscription, wanted: Filter, durable: bool, then: SubscribeClient | None
    ) -> None:
        assert self._ring is not None
        id = self._id_of(wanted, durable)
        if self._ids.get(subscription) not in (None, id):
            self._remove_interest(subscription)  # the condition has changed
        self._ids[subscription] = id
        interest = self._interests.get(id)
        is_new = interest is None
        if interest is None:
            interest = self._interests[id] = _RingInterest(wanted, durable)
        interest.users.add(subscription)
        if then is not None:
            if interest.is_installed:
                super().request(subscription[0], then)
            else:
                interest.waiting.append((subscription, then))
        if is_new:
            self._ring.subscribe(id, wanted, durable, partial(self._on_installed, id, interest))

    def _id_of(self, wanted: Filter, durable: bool) -> str:
        text = f"{wanted.timezone} {wanted}".encode("utf-8", "surrogatepass")
        return f"{self._number:x}.{blake2b(text, digest_size=16).hexdigest()}{'.d' * durable}"

    def _on_installed(self, id: str, interest: _RingInterest, error: PalioError | None) -> None:
        waiting, interest.waiting = interest.waiting, []
        interest.is_installed = error is None
        for subscription, request in waiting:
            if self._ids.get(subscription) != id:
                continue  # it has ended meanwhile
            if error is None:
                super().request(subscription[0], request)
            else:
                self._remove_interest(subscription)
                refused = Refused(str(error), refusal_of(error), name=request.name)
                self._answer(Reply(subscription[0], refused))

    def _remove_interest(self, subscription: _Subscription) -> None:
        id = self._ids.pop(subscription, None)
        if id is None:
            self._early = [
                (client, request)
                for client, request in self._early
                if type(request) is not SubscribeClient or (client, request.name) != subscription
            ]
            return
        interest = self._interests[id]
        interest.users.discard(subscription)
        if not interest.users:
            del self._interests[id]
            if self._ring is not None:
                self._ring.unsubscribe(id)

    # Publications to the ring

    def _publish(self, client: Client, request: PublishClient) -> None:
        self._publish_all(client, (request,))

    def _publish_batch(self, client: Client, request: PublishBatch) -> None:
        self._publish_all(client, request.events)

    def _publish_columns(self, client: Client, request: BatchRequest) -> None:
        self._publish_all(client, [PublishClient(body) for body in bodies_of(request.batch)])

    def _publish_all(self, client: Client, requests: Sequence[PublishClient]) -> None:
        assert self._ring is not None
        if self._publishing >= _MAX_PUBLISHING_EVENTS:
            first = requests[0]
            self._answer(Reply(client, Refused("the ring has not taken earlier events yet", "busy", first.number)))
            self._held_back.add(client)
            return
        self.counts["in"] += len(requests)
        for request in requests:
            try:
                event = codec.decode_event(request.body)
            except PalioError as error:
                self._answer(Reply(client, Refused(str(error), number=request.number)))
                continue
            self._publishing += 1
            self._ring.publish(event, partial(self._on_published, client, request.number if request.confirm else 0))

    def _on_published(self, client: Client, number: int, error: PalioError | None) -> None:
        self._publishing -= 1
        if number:
            answer = Accepted(number) if error is None else Refused(str(error), refusal_of(error), number)
            self._answer(Reply(client, answer))
        elif error is not None:
            self.drops["the ring did not answer"] += 1
        if self._held_back and self._publishing <= _MAX_PUBLISHING_EVENTS // 2:
            held_back, self._held_back = self._held_back, set()
            for each in sorted(held_back):
                self._answer(Reply(each, Proceed()))

    # Events from the ring

    def deliver_from_ring(self, receipt: int, ids: tuple[str, ...], event: Event) -> None:
        """Publish an event at the broker, once for all subscriptions here; owners of several keys may bring it."""
        assert self._ring is not None
        key = identity(event)
        if key in self._delivered:
            self._ring.on_delivered(receipt)
            return
        number = self._arriving.get(key)
        if number is not None:
            self._receipts[number].append(receipt)
            return
        body = codec.encode_event(event)
        if not self.durable_count:
            super().request(RING_CLIENT, PublishClient(body))
            self._remember(key)
            self._ring.on_delivered(receipt)
            return
        self._last_number += 1
        self._arriving[key] = self._last_number
        self._receipts[self._last_number] = [receipt]
        self._keys_of_numbers[self._last_number] = key
        super().request(RING_CLIENT, PublishClient(body, b"", self._last_number, True, RING_CLIENT))

    def on_broker_answer(self, answer: Answer) -> None:
        """The broker has an event from the ring, or could not take it."""
        if not isinstance(answer, Accepted | Refused) or self._ring is None:
            return
        receipts = self._receipts.pop(answer.number, ())
        key = self._keys_of_numbers.pop(answer.number, None)
        if key is None:
            return
        del self._arriving[key]
        if isinstance(answer, Accepted):
            self._remember(key)
        for receipt in receipts:
            if isinstance(answer, Accepted):
                self._ring.on_delivered(receipt)
            else:
                self._ring.on_refused(receipt)

    def _remember(self, key: str) -> None:
        self._delivered[key] = None
        if len(self._delivered) > _MAX_REMEMBERED_EVENTS:
            self._delivered.popitem(last=False)

    @property
    def ring_interests(self) -> int:
        """Different conditions that this peer has on the ring."""
        return len(self._interests)


class _RingClient:
    """The broker's client that stands for the ring."""

    def __init__(self, host: PeerHost) -> None:
        self._host = host

    def offer(self, names: tuple[str, ...], event: Publish) -> None:
        pass  # it subscribes to nothing

    def offer_batch(self, groups: Groups, batch: SharedBatch) -> None:
        pass

    def answer(self, answer: Answer) -> None:
        self._host.on_broker_answer(answer)

    def on_batch_end(self) -> None:
        pass

    def withdraw(self, name: str, reason: PalioError) -> None:
        pass


_HANDLERS: Final[dict[type, Any]] = {
    SubscribeClient: PeerHost._subscribe,
    UnsubscribeClient: PeerHost._unsubscribe,
    PublishClient: PeerHost._publish,
    PublishBatch: PeerHost._publish_batch,
    BatchRequest: PeerHost._publish_columns,
    ReplayClient: PeerHost._refuse_replay,
    ForgetClient: PeerHost._refuse_forget,
}

"""Peer of a semantic overlay: a host of members, one for each of its subscriptions, without I/O.

It has the interface of the peers of a ring (`palio.peers.peer`): calls of its client, `on_message`, `on_unreachable`
and `on_timer` append to `effects`, which whoever runs it carries out and clears. Peers join by one that they know. A
peer without subscriptions knows some others, by which it publishes and lets newcomers in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeAlias

from msgspec import structs

from palio.events import Event
from palio.filters.filter import Filter
from palio.peers.communities.member import MemberHost
from palio.peers.communities.messages import (
    ANY_MEMBER,
    Address,
    Alone,
    AskContacts,
    Begun,
    Contacts,
    Deliver,
    Effect,
    Enter,
    Forward,
    MemberMessage,
    Message,
    Returned,
    Send,
    Useless,
)
from palio.peers.communities.settings import CommunitySettings
from palio.peers.messages import Confirmed, SetTimer

_UPKEEP_TIMER: Final = "upkeep"
_SEARCH_TIMER: Final = "search "
_MAX_CONTACTS: Final = 16
_FEW_CONTACTS: Final = 4  # with fewer, a peer asks for others
_MAX_PUBLISHING: Final = 256  # events that wait for a contact
_MAX_PASSED: Final = 64  # peers without subscriptions that a message may pass in search of a member


class Member(Protocol):
    """A member of an overlay, of whatever kind."""

    address: Address
    wanted: Filter

    @property
    def is_placed(self) -> bool: ...

    @property
    def degree(self) -> int: ...

    def join(self, contact: Address) -> None: ...

    def found(self) -> None: ...

    def leave(self) -> None: ...

    def publish(self, event: Event) -> None: ...

    def on_message(self, message: MemberMessage) -> None: ...

    def on_unreachable(self, to: Address, message: MemberMessage) -> None: ...

    def on_patience_ended(self, number: int) -> None: ...

    def maintain(self) -> None: ...


MakeMember: TypeAlias = Callable[[Address, Filter, CommunitySettings, MemberHost], Member]


class CommunityPeer:
    """One peer. Every call appends to `effects`, which whoever runs it carries out and clears."""

    def __init__(self, node: int, make_member: MakeMember, settings: CommunitySettings) -> None:
        self.node = node
        self.settings = settings
        self.effects: list[Effect] = []
        self.members: dict[int, Member] = {}
        self._make_member = make_member
        self._ids: dict[str, int] = {}  # of the own subscriptions, with their members
        self._id_of: dict[int, str] = {}
        self._requests: dict[int, int] = {}  # members that are being placed
        self._contacts: dict[int, None] = {}  # the latest last
        self._is_founder = False
        self._entries: dict[Address, None] = {}  # members that entered the overlay by this peer, the latest last
        self._has_begun = False  # the overlay, by the founder
        self._publishing: deque[Event] = deque(maxlen=_MAX_PUBLISHING)
        self._inbox: deque[MemberMessage] = deque()  # between members of this peer
        self._next_number = 0

    # What this peer's own client asks for

    def found_ring(self) -> None:
        """Be the first peer. There is no ring; the name is that of all peers."""
        self._is_founder = True
        self.start()

    def join(self, contact: int) -> None:
        """Join by another peer."""
        self._know(contact)
        self.start()
        self._send(contact, AskContacts(ANY_MEMBER, (self.node, ANY_MEMBER)))

    def add_contact(self, contact: int) -> None:
        """Name another peer to join by, where those named before are gone."""
        self._know(contact)
        self._send(contact, AskContacts(ANY_MEMBER, (self.node, ANY_MEMBER)))

    @property
    def is_connected(self) -> bool:
        """Whether this peer has neighbours, or knows another peer, or is the first one."""
        return self._is_founder or bool(self._contacts) or any(each.degree for each in self.members.values())

    def has(self, id: str) -> bool:
        """Whether there is a member for a subscription."""
        return id in self._ids

    def restore(self, contacts: Iterable[int], first: Address | None = None) -> None:
        """Know some peers, as one that joined long ago; and the first member, as the founder."""
        for each in contacts:
            self._know(each)
        if first is not None:
            self._is_founder = self._has_begun = True
            self._remember(first)

    def start(self, after: float | None = None) -> None:
        """Begin maintenance after some seconds, by default after a whole period."""
        self.effects.append(SetTimer(_UPKEEP_TIMER, self.settings.period if after is None else after, upkeep=True))

    def leave(self) -> None:
        """Let all members hand over what is below them."""
        for member in self.members.values():
            member.leave()
        for table in (self.members, self._ids, self._id_of):
            table.clear()
        self._inbox.clear()

    def add_member(self, id: str, wanted: Filter) -> Member:
        """A member for a subscription, without a place yet."""
        number = self._number()
        member = self._make_member((self.node, number), wanted, self.settings, self)
        self.members[number] = member
        self._ids[id], self._id_of[number] = number, id
        return member

    def subscribe(self, id: str, wanted: Filter, now: float) -> int:
        """Subscribe; the number that `Confirmed` will have."""
        member = self.add_member(id, wanted)
        address = member.address
        number = address[1]
        contacts = self.contacts(number)
        self._requests[number] = number
        if contacts:
            member.join(contacts[0])
        elif self._is_founder:
            self._has_begun = True
            member.found()
        else:
            member.join((self.node, ANY_MEMBER))
        self._work()
        return number

    def unsubscribe(self, id: str) -> int:
        """End a subscription; nothing of it is delivered any more."""
        number = self._ids.pop(id)
        del self._id_of[number]
        member = self.members.pop(number)
        self._requests.pop(number, None)
        if member.is_placed and not member.degree:
            # It was the overlay's last member: the next newcomer enters by this peer, which begins it anew.
            self._is_founder, self._has_begun = True, False
        member.leave()
        if not self.members:
            self._ask_contacts()
        self._work()
        answer = self._number()
        self.effects.append(Confirmed(answer))
        return answer

    def publish(self, event: Event) -> int:
        """Publish an event; `Confirmed` says that it is on its way."""
        number = self._number()
        member = next((each for each in self.members.values() if each.is_placed), None)
        if member is not None:
            member.publish(event)
        else:
            self._publish_by_contact(event)
        self._work()
        self.effects.append(Confirmed(number))
        return number

    def _publish_by_contact(self, event: Event) -> None:
        contacts = self.contacts(ANY_MEMBER)
        if not contacts:
            self._publishing.append(event)
            return
        peer, member = contacts[0]
        self._send(peer, Forward(member, (self.node, ANY_MEMBER), event, True, 1))

    # What whoever runs it calls

    def on_message(self, sender: int, message: Message, now: float) -> None:
        self._on_message(sender, message)
        self._work()

    def _on_message(self, sender: int, message: Message) -> None:
        # A peer is known from what it said itself: others may name one that is gone.
        if isinstance(message, AskContacts | Contacts | Enter) or len(self._contacts) < _MAX_CONTACTS:
            self._know(sender)
        match message:
            case AskContacts():
                known = [each for each in self._contacts if each != sender]
                known += [peer for peer, _ in self._entries if peer not in (sender, self.node)]
                self._send(sender, Contacts(ANY_MEMBER, (self.node, ANY_MEMBER), tuple(dict.fromkeys(known))))
            case Contacts():
                for peer in message.peers:
                    if len(self._contacts) < _MAX_CONTACTS:
                        self._know(peer)
                while self._publishing:
                    self._publish_by_contact(self._publishing.popleft())
            case Returned():
                self._on_unreachable(sender, message.message)
            case _ if message.to == ANY_MEMBER:
                self._on_message_to_any(message)
            case _:
                member = self.members.get(message.to)
                if member is not None:
                    member.on_message(message)
                elif sender != self.node:
                    self._send(sender, Returned(message.sender[1], (self.node, message.to), message))
                else:
                    self._on_unreachable(self.node, message)

    def _on_message_to_any(self, message: MemberMessage) -> None:
        """A search, or an event, for the overlay."""
        member = next(
            (each for each in self.members.values() if each.is_placed and not _is_from(message, each.address)), None
        )
        if member is not None:
            member.on_message(message)
            return
        me = self.node, ANY_MEMBER
        if isinstance(message, Forward):
            if message.hops < _MAX_PASSED:
                self._pass_on(message.sender[0], structs.replace(message, sender=me, hops=message.hops + 1))
        elif isinstance(message, Enter):
            origin = message.origin
            if self._is_founder and not self._has_begun:
                # One after the other: the next newcomer enters by this one.
                self._has_begun = True
                self.send(origin, Alone(origin[1], me, message.number))
            elif message.hops >= _MAX_PASSED or not self._pass_on(
                origin[0], structs.replace(message, sender=me, hops=message.hops + 1)
            ):
                self.send(origin, Begun(origin[1], me, message.number, -1))
            self._remember(origin)

    def _pass_on(self, asking: int, message: Enter | Forward) -> bool:
        """Pass a message for the overlay on to a member, or a peer that may have some; whether there is one."""
        known = [each for each in self.contacts(ANY_MEMBER) if each[0] not in (asking, self.node)]
        if not known:
            return False
        # Another one at each step, or peers that know each other would pass it to and fro.
        to = known[message.hops % len(known)]
        self._send(to[0], structs.replace(message, to=to[1]))
        return True

    def _remember(self, member: Address) -> None:
        """Know a member by which others can enter."""
        self._entries.pop(member, None)
        self._entries[member] = None
        if len(self._entries) > _MAX_CONTACTS:
            del self._entries[next(iter(self._entries))]

    def on_unreachable(self, peer: int, message: Message, now: float) -> None:
        """A message could not be delivered."""
        self._contacts.pop(peer, None)
        for each in [each for each in self._entries if each[0] == peer]:
            del self._entries[each]
        if len(self._contacts) < _FEW_CONTACTS:
            self._ask_contacts()
        self._on_unreachable(peer, message)
        self._work()

    def _on_unreachable(self, peer: int, message: Message) -> None:
        if isinstance(message, AskContacts | Contacts | Returned):
            return
        self._entries.pop((peer, message.to), None)
        sender = message.sender[1]
        member = self.members.get(sender)
        if member is not None:
            member.on_unreachable((peer, message.to), message)
        elif sender == ANY_MEMBER and isinstance(message, Forward | Enter):
            self._on_message_to_any(message)

    def on_timer(self, name: str, now: float) -> None:
        if name == _UPKEEP_TIMER:
            self.effects.append(SetTimer(_UPKEEP_TIMER, self.settings.period, upkeep=True))
            for member in list(self.members.values()):
                member.maintain()
            if not self.members:
                self._ask_contacts()
        else:
            number, search = map(int, name.removeprefix(_SEARCH_TIMER).split())
            waiting = self.members.get(number)
            if waiting is not None:
                waiting.on_patience_ended(search)
        self._work()

    # What members ask for

    def send(self, to: Address, message: MemberMessage) -> None:
        if to[0] == self.node:
            self._inbox.append(message)
        else:
            self._send(to[0], message)

    def deliver(self, member: int, event: Event, hops: int) -> None:
        id = self._id_of.get(member)
        if id is not None:
            self.effects.append(Deliver(id, event, hops))

    def ignore(self, member: int, event: Event, hops: int) -> None:
        id = self._id_of.get(member)
        if id is not None and hops:
            self.effects.append(Useless(id, event, hops))

    def set_timer(self, member: int, number: int, after: float) -> None:
        self.effects.append(SetTimer(f"{_SEARCH_TIMER}{member} {number}", after, upkeep=True))

    def on_placed(self, member: int) -> None:
        number = self._requests.pop(member, None)
        if number is not None:
            self.effects.append(Confirmed(number))

    def contacts(self, without: int) -> list[Address]:
        """Members, or peers that may have some: the own ones first."""
        own = [each.address for number, each in self.members.items() if number != without and each.is_placed]
        entries = [each for each in reversed(self._entries) if each[0] != self.node]
        known = [(peer, ANY_MEMBER) for peer in reversed(self._contacts) if peer != self.node]
        return [*own, *entries, *known]

    # Internals

    def _work(self) -> None:
        """Hand the messages over that members of this peer have for each other."""
        while self._inbox:
            message = self._inbox.popleft()
            self._on_message(self.node, message)

    def _ask_contacts(self) -> None:
        contact = next(iter(self._contacts), None)
        if contact is not None:
            self._send(contact, AskContacts(ANY_MEMBER, (self.node, ANY_MEMBER)))

    def _know(self, peer: int) -> None:
        if peer == self.node:
            return
        self._contacts.pop(peer, None)
        self._contacts[peer] = None
        if len(self._contacts) > _MAX_CONTACTS:
            del self._contacts[next(iter(self._contacts))]

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number

    def _send(self, to: int, message: Message) -> None:
        self.effects.append(Send(to, message))


def _is_from(message: MemberMessage, member: Address) -> bool:
    return isinstance(message, Enter) and message.origin == member

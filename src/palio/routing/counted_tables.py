"""Routing tables with counts of registrations: XRoute by counters (Chand §4).

Neighbours are sent changes of counts, `Register`, in place of `Subscribe` and `Unsubscribe`. Each neighbour that
producers may be behind is an upstream, with a table of its own over all other interfaces
(`propagation.registration_table`); one more table, over all interfaces, has the filters by which events are routed.
With advertisements an upstream is a neighbour that advertised anything: in the source producers announce themselves,
not what they publish. Without them every neighbour is one.

Changes of clients wait for the end of a batch, registrations before cancellations: a client that changes its filter
never lacks both.
"""

from __future__ import annotations

from collections.abc import Sequence

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.routing.combinations import Combination
from palio.routing.effects import Client, Drop, Effect, Send
from palio.routing.forwarding.strategy import InterestListener
from palio.routing.messages import LOCAL, Advertise, Key, Register, Registration, Unadvertise
from palio.routing.propagation.registration_table import RegistrationTable
from palio.routing.routing_tables import RoutingTables


class CountedTables(RoutingTables):
    """Tables of filters with the number of registrations behind each interface."""

    __slots__ = ("_all", "_client_changes", "_is_directed", "_open", "_outgoing", "_upstream")

    def __init__(self, node: int, combination: Combination, listener: InterestListener, effects: list[Effect]) -> None:
        super().__init__(node, combination, listener, effects)
        self._is_directed = combination.advertisements
        self._all = RegistrationTable()
        self._open: set[int] = set()
        self._upstream: dict[int, RegistrationTable] = {}
        self._client_changes: dict[Key, Registration] = {}
        self._outgoing: list[tuple[int, Register]] = []

    @property
    def all_registrations(self) -> RegistrationTable:
        """The table of all interfaces."""
        return self._all

    @property
    def upstream_tables(self) -> dict[int, RegistrationTable]:
        """The table towards each upstream, by link."""
        return self._upstream

    # Neighbours

    def open_updates(self, link: int) -> None:
        self.is_dirty = True
        self._open.add(link)
        self.advertisement_updates.open_link(link)
        self._direct(link)

    def close_updates(self, link: int) -> None:
        self._open.discard(link)
        self.advertisement_updates.close_link(link)
        self._upstream.pop(link, None)
        self._outgoing = [each for each in self._outgoing if each[0] != link]

    def forget(self, link: int) -> None:
        self._all.drop_column(link)
        for upstream, table in self._upstream.items():
            if upstream != link:
                self._outgoing += [(upstream, Register(tuple(each))) for each in table.drop_column(link)]
        super().forget(link)

    def on_register(self, link: int, message: Register) -> None:
        """Count registrations behind a neighbour."""
        try:
            self._count(link, message.registrations)
        except InvalidArgument as error:
            self._effects.append(Drop(f"registrations that cannot be: {error}", message))
            return
        known = self.remote_subscriptions.setdefault(link, {})
        gone = []
        for digest, wanted in self._all.touched.items():
            if not self._all.has(link, digest):
                gone.append(digest)
            elif digest not in known:
                known[digest] = wanted
                self._add_subscription(link, digest, wanted)
        for digest in gone:
            if known.pop(digest, None) is not None:
                self._remove_subscription(link, digest)

    # Clients

    def subscribe(self, client: Client, name: str, wanted: Filter) -> None:
        super().subscribe(client, name, wanted)
        self._note(wanted, 1)

    def unsubscribe(self, client: Client, name: str) -> None:
        owned = self.subscriptions.get(client, name)
        super().unsubscribe(client, name)
        if owned is not None:
            self._note(owned.filter, -1)

    def _note(self, wanted: Filter, count: int) -> None:
        if wanted == Filter.nothing:
            return
        known = self._client_changes.get(wanted.digest)
        self._client_changes[wanted.digest] = Registration(wanted, count + (0 if known is None else known.own), 0)
        self.is_dirty = True

    # Updates

    def send_updates(self) -> None:
        self.is_dirty = False
        changes = sorted(self._client_changes.values(), key=lambda each: each.own <= 0)
        self._client_changes = {}
        for each in changes:
            if each.own:
                self._count(LOCAL, (each,))
        offered = self.advertisement_updates.take()
        outgoing, self._outgoing = self._outgoing, []
        # Advertisements enclose registrations, as they do subscriptions.
        self._effects += [Send(links, Advertise(key, each)) for key, each, links in offered.additions]
        self._effects += [Send((link,), message) for link, message in outgoing]
        self._effects += [Send(links, Unadvertise(key)) for key, links in offered.withdrawals]
        self.cancel_unserved()
        if self.after_updates is not None:
            self.after_updates()

    def _count(self, interface: int, message: Sequence[Registration]) -> None:
        """Count in all tables; `InvalidArgument` where the first refuses, and then none has changed."""
        self._all.receive(interface, message)
        self.is_dirty = True
        for upstream, table in self._upstream.items():
            if upstream != interface and (out := table.receive(interface, message)):
                self._outgoing.append((upstream, Register(tuple(out))))

    def _direct(self, link: int) -> None:
        """Send a neighbour registrations if producers may be behind it."""
        is_upstream = link in self._open and (not self._is_directed or bool(self.remote_advertisements.get(link)))
        if is_upstream is (link in self._upstream):
            return
        self.is_dirty = True
        if not is_upstream:
            tops = self._upstream.pop(link).tops()
            self._outgoing += [(link, Register((Registration(each.filter, -each.own, 0),))) for each in tops]
            return
        table = self._upstream[link] = RegistrationTable()
        for entry in self._all.entries.values():
            for interface, counts in entry.columns.items():
                if interface != link:
                    table.register(interface, entry.filter, counts.own, counts.others)
        self._outgoing += [(link, Register((each,))) for each in table.registrations()]

    def _add_subscription(self, interface: int, key: Key, wanted: Filter) -> None:
        self.is_dirty = True
        self._listener.add_filter(interface, key, wanted)

    def _remove_subscription(self, interface: int, key: Key) -> None:
        self.is_dirty = True
        self._listener.remove_filter(interface, key)

    def _add_advertisement(self, interface: int, key: Key, offered: Filter) -> None:
        super()._add_advertisement(interface, key, offered)
        if interface != LOCAL:
            self._direct(interface)

    def _remove_advertisement(self, interface: int, key: Key) -> None:
        super()._remove_advertisement(interface, key)
        if interface != LOCAL:
            self._direct(interface)

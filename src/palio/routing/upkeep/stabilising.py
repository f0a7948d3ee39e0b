"""Self-stabilising tables: whatever state they are brought into, they become right by themselves (Shen §5).

In every round a broker rebuilds its derived tables (`table_rebuild`), and then observes each of its links: it sends a
sketch of what the neighbour should have from it. A neighbour that has something else lists what it has, and the broker
sends the difference, as subscriptions and withdrawals like any others. A link on which both ends agree carries one
message each way in a round, and nothing else.

The bound. What a neighbour should have is a function of the clients here and of what the other neighbours sent. So the
tables that describe a subtree of height h are right after h + 1 rounds, and all of them after D + 1, where D is the
longest path. With advertisements, what a neighbour should have also depends on what it advertised: 2D + 1 rounds.

Deviations from the source. The sender's sketch travels, not the receiver's table: a quiet link carries one message
instead of two, and since links keep order, the receiver compares it with a table that has everything sent before it.
The source computes corrections from a snapshot that is old when they are sent, and then undoes changes made meanwhile.
Here they are computed from what the neighbour should have at the time of sending. Listed entries are compared exactly;
a sketch decides only whether to list them.

A link that breaks keeps the filters of its neighbour for a while (`outages`), and is observed at once when it is back.

The state of this protocol may be wrong, too: a correction never moves a neighbour away from what it should have now,
whatever round or page it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from palio.filters.filter import Filter
from palio.routing.effects import Drop, Effect, Send, SetTimer
from palio.routing.messages import KEY_BYTES, Advertise, Key, Listing, Observe, TableSketch, Unadvertise, Unsubscribe
from palio.routing.routing_tables import RoutingTables
from palio.routing.strategies import Stabilising
from palio.routing.upkeep.outages import Outages
from palio.routing.upkeep.sketches import ENTRY_BYTES, SketchShape, entry_digest, is_equal, joined_entries, sketch_of
from palio.routing.upkeep.table_rebuild import TableRebuild

STABILISATION_TIMER: Final = "stabilisation"
_PAGE_ENTRIES: Final = 20_000  # of a listing: 640 kB
_SUBSCRIPTIONS, _ADVERTISEMENTS = 0, 1
_TABLES: Final = _SUBSCRIPTIONS, _ADVERTISEMENTS
_SEEDS: Final = 2**53
_MAX_BROKERS: Final = 2**32  # behind one link
_ROUND_SEED: Final = 0x9E3779B97F4A7C15


class Stabiliser:
    """The rounds of one broker. `begin_rebuild` makes empty tables, and `adopt` takes them into use when filled.

    `rounds`, `listings` and `corrections` count those that were made, and messages that were sent.
    """

    __slots__ = (
        "_adopt",
        "_begin_rebuild",
        "_chosen",
        "_effects",
        "_is_timed",
        "_links",
        "_listed",
        "_opened",
        "_random",
        "_rebuild",
        "_sides",
        "_tables",
        "corrections",
        "listings",
        "outages",
        "rounds",
    )

    def __init__(
        self,
        chosen: Stabilising,
        tables: RoutingTables,
        links: Mapping[int, bool],
        begin_rebuild: Callable[[], TableRebuild],
        adopt: Callable[[TableRebuild], None],
        random: Callable[[], float],
        effects: list[Effect],
    ) -> None:
        SketchShape.of(chosen, 1)  # refuses options that make no sketch before the broker starts
        self._chosen = chosen
        self._tables = tables
        self._links = links
        self._begin_rebuild = begin_rebuild
        self._adopt = adopt
        self._random = random
        self._effects = effects
        self._rebuild: TableRebuild | None = None
        self._is_timed = False
        self._listed: dict[tuple[int, int], set[Key]] = {}  # by link and table: right entries of the pages so far
        self._sides: dict[int, int] = {}  # by link: the number of brokers behind it
        self._opened: dict[int, None] = {}  # links that are to be observed when their tables are sent
        self.outages = Outages()
        self.rounds = self.listings = self.corrections = 0

    # Links

    def hold_link(self, link: int) -> None:
        """Keep the filters of a link in use that breaks."""
        tables = self._tables
        kept = len(tables.remote_subscriptions.get(link, ())) + len(tables.remote_advertisements.get(link, ()))
        if kept and link in self._links:
            self.outages.begin(link, kept, self.brokers_beside(link))

    def open_link(self, link: int) -> None:
        """Take a link into use, whose filters may have been kept."""
        if self.outages.end(link):
            self._tables.resume_link(link)
        else:
            self._tables.open_link(link)
        self._opened[link] = None

    def close_link(self, link: int) -> None:
        """Give a link up, with its filters unless they are kept."""
        self._opened.pop(link, None)
        self._sides.pop(link, None)
        for table in _TABLES:
            self._listed.pop((link, table), None)
        if link in self.outages.links:
            self._tables.hold_link(link)
        else:
            self._tables.close_link(link)

    def observe_opened(self) -> None:
        """Observe the links whose tables were just sent: the neighbour may have kept filters that are gone since."""
        opened, self._opened = self._opened, {}
        for link in opened:
            self._observe(link)

    def withdraw_overdue(self) -> None:
        """Withdraw the filters of broken links that have cost too much."""
        for link in self.outages.overdue():
            self.outages.end(link)
            # Opened, so that all is as when a link in use is given up.
            self._tables.resume_link(link)
            self._tables.close_link(link)

    # Rounds

    def start(self) -> None:
        """Set the timer of the first round."""
        if not self._is_timed:
            self._is_timed = True
            self._set_timer()

    def on_timer(self) -> None:
        """Rebuild some entries of the tables; when all are, end the round."""
        if self._rebuild is None:
            self._rebuild = self._begin_rebuild()
        if self._rebuild.advance(self._known_links(), self._chosen.rebuild_slice):
            self.end_round()
            self._set_timer()
        else:
            self._effects.append(SetTimer(STABILISATION_TIMER, 0.0, upkeep=True))

    def end_round(self) -> None:
        """Rebuild all tables now, and observe all links."""
        rebuild = self._rebuild or self._begin_rebuild()
        self._rebuild = None
        # What was owed to neighbours would be forgotten with the tables that know of it.
        self._tables.send_updates()
        rebuild.finish(self._known_links(), self.outages.links)
        self._adopt(rebuild)
        self.rounds += 1
        self.outages.count_round()
        self.withdraw_overdue()
        for link in sorted(self._links):
            self._observe(link)

    def brokers_beside(self, link: int) -> int:
        """The number of brokers on this side of a link, as far as neighbours have told."""
        # Each within reason: a count may be wrong, as any other state, and a neighbour refuses what cannot be.
        behind = (count for other, count in self._sides.items() if other != link and other in self._links)
        return 1 + sum(min(max(1, count), _MAX_BROKERS) for count in behind)

    def _known_links(self) -> list[int]:
        """The links in use, and those that are down and whose filters are kept."""
        return [*self._links, *(link for link in self.outages.links if link not in self._links)]

    def _set_timer(self) -> None:
        # Spread at random, so that brokers which started together do not work together.
        seconds = self._chosen.round_period * (0.75 + self._random() / 4)
        self._effects.append(SetTimer(STABILISATION_TIMER, seconds, upkeep=True))

    # Observation

    def _observe(self, link: int) -> None:
        seed = (int(self._random() * _SEEDS) ^ self.rounds * _ROUND_SEED) % _SEEDS
        for table in _TABLES:
            self._listed.pop((link, table), None)
        sketches = tuple(self._sketch(link, table, seed) for table in _TABLES)
        self._effects.append(Send((link,), Observe(self.rounds, seed, self.brokers_beside(link), sketches)))

    def _sketch(self, link: int, table: int, seed: int) -> TableSketch:
        told = self._told(link, table)
        home_of = self._tables.home_of_told if table == _SUBSCRIPTIONS else _no_home
        return sketch_of(joined_entries(told, home_of), SketchShape.of(self._chosen, len(told)), seed)

    def on_observe(self, link: int, message: Observe) -> None:
        """Compare what a neighbour says that it has sent with what there is, and list the latter where they differ."""
        if len(message.sketches) != len(_TABLES):
            self._effects.append(Drop("sketches of other tables than there are here", message))
            return
        self._sides[link] = message.brokers
        for table, sketch in enumerate(message.sketches):
            home_of = self._tables.home_of_received if table == _SUBSCRIPTIONS else _no_home
            entries = joined_entries(self._received(link, table), home_of)
            if not is_equal(entries, sketch, message.seed):
                self._list(link, message.round, table, entries)

    def _list(self, link: int, round: int, table: int, entries: bytes) -> None:
        self.listings += 1
        step = _PAGE_ENTRIES * ENTRY_BYTES
        for start in range(0, max(1, len(entries)), step):
            page = entries[start : start + step]
            self._effects.append(Send((link,), Listing(round, table, page, start + step >= len(entries))))

    # Correction

    def on_listing(self, link: int, message: Listing) -> None:
        """Correct what a neighbour has."""
        if message.round != self.rounds or message.table not in _TABLES or len(message.entries) % ENTRY_BYTES:
            self._effects.append(Drop("listing of another round", message))
            return
        told = self._told(link, message.table)
        home_of = self._tables.home_of_told if message.table == _SUBSCRIPTIONS else _no_home
        right = self._listed.setdefault((link, message.table), set())
        wrong: list[Key] = []
        for start in range(0, len(message.entries), ENTRY_BYTES):
            key = message.entries[start : start + KEY_BYTES]
            wanted = told.get(key)
            digest = message.entries[start + KEY_BYTES : start + ENTRY_BYTES]
            if wanted is not None and entry_digest(wanted, home_of(key)) == digest:
                right.add(key)
            else:
                wrong.append(key)
        self._withdraw(link, message.table, wrong)
        if message.is_last:
            del self._listed[link, message.table]
            self._send(link, message.table, {key: wanted for key, wanted in told.items() if key not in right})

    def _withdraw(self, link: int, table: int, keys: list[Key]) -> None:
        self.corrections += len(keys)
        kind = Unsubscribe if table == _SUBSCRIPTIONS else Unadvertise
        self._effects += [Send((link,), kind(key)) for key in keys]

    def _send(self, link: int, table: int, missing: Mapping[Key, Filter]) -> None:
        self.corrections += len(missing)
        for key, wanted in missing.items():
            message = (
                Advertise(key, wanted) if table == _ADVERTISEMENTS else self._tables.subscribe_message(key, wanted)
            )
            self._effects.append(Send((link,), message))

    def _told(self, link: int, table: int) -> Mapping[Key, Filter]:
        tables = self._tables
        return tables.told_subscriptions(link) if table == _SUBSCRIPTIONS else tables.told_advertisements(link)

    def _received(self, link: int, table: int) -> Mapping[Key, Filter]:
        tables = self._tables
        by_link = tables.remote_subscriptions if table == _SUBSCRIPTIONS else tables.remote_advertisements
        return by_link.get(link, {})


def _no_home(key: Key) -> int | None:
    """The home broker of an advertisement, which has none."""
    return None

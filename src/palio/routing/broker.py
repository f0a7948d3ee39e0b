"""Broker: a deterministic state machine without I/O. Inputs of a batch go in with the time, effects come out in order.

The broker dispatches each input to the collaborator it is for. All of them append to one list of effects, so that the
order of effects is the order of calls; a crash may come between any two. Tables are brought up to date before the
events of a batch are routed, and all events of a batch are routed together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from palio.errors import InvalidArgument, PalioError
from palio.routing import messages
from palio.routing.announcements import OPTIMISER_TIMER, ROUTING_TREES_TOPIC, Announcements
from palio.routing.client_messages import PublishClient, SubscribeClient
from palio.routing.client_requests import ClientRequests, RequestQueue
from palio.routing.codec import Arrival
from palio.routing.combinations import Combination
from palio.routing.completeness import COMPLETENESS_TIMER, Completeness, no_clock
from palio.routing.counted_tables import CountedTables
from palio.routing.delivery.blocked_interests import BLOCKED_TOPIC
from palio.routing.delivery.durable_delivery import RETRY_TIMER, DurableDelivery
from palio.routing.delivery.durable_queues import DurableQueues
from palio.routing.delivery.standby import STANDBY_TIMER, Standbys
from palio.routing.delivery.standing_advertisements import StandingAdvertisements
from palio.routing.durable_claims import DurableClaims
from palio.routing.echo import Settlement
from palio.routing.effects import (
    UNREADABLE,
    ClientGone,
    Credit,
    DefaultOverflow,
    Drop,
    Effect,
    Fetched,
    Input,
    LinkDown,
    LinkUp,
    NotPersisted,
    Persisted,
    QueueFree,
    QueueFull,
    ReadDone,
    Received,
    Remembered,
    Requested,
    TimerFired,
    Work,
    WorkDone,
)
from palio.routing.election import Election, candidate_of
from palio.routing.event_batches import BatchArrival
from palio.routing.event_router import EventRouter
from palio.routing.forwarding.content import FloodForwarding, HierarchicalForwarding
from palio.routing.forwarding.multicast import MulticastForwarding, TreeFlooding
from palio.routing.forwarding.precomputed_headers import SnapshotSource, TableSnapshot
from palio.routing.forwarding.strategy import Forwarding, ForwardingConfig, InterestListener, make_forwarding
from palio.routing.home_tables import HomeBrokers, HomeRoutingTables
from palio.routing.link_credit import LinkCredit, QueueBounds
from palio.routing.link_states import LinkStates
from palio.routing.log_replay import LogReplay
from palio.routing.measures import HasMeasures, Measures
from palio.routing.messages import Offer, Publish, PublishColumns, Request, Settle, Watermark
from palio.routing.routing_tables import RoutingTables
from palio.routing.sealing import Keyring
from palio.routing.spanning_tree import ActiveLinks, SpanningTree, fixed_random
from palio.routing.strategies import Failover, Leases, Prefix, Stabilising
from palio.routing.upkeep.failover import FailoverTree
from palio.routing.upkeep.leases import LEASE_TIMER, LeaseUpkeep
from palio.routing.upkeep.recovery import SESSION_TIMER, TableSessions
from palio.routing.upkeep.recovery_database import NoDatabase, RecoveryDatabase
from palio.routing.upkeep.redundant import RedundantForwarding
from palio.routing.upkeep.resumable_links import ResumableLinks
from palio.routing.upkeep.stabilising import STABILISATION_TIMER, Stabiliser
from palio.routing.upkeep.table_rebuild import GuardedHomeTables, GuardedTables, RebuiltInterest, TableRebuild
from palio.routing.upkeep.table_session import TableSession

if TYPE_CHECKING:
    from palio.routing.forwarding.prefix.optimiser_role import OptimiserRole

_EMPTY_DISK: Final = Remembered()
_MAX_TABLE_VERSION: Final = 2**62  # a version has 64 bits in a header

_NO_MEASURES: Final = Measures()


class Broker:
    """One broker. `remembered` is what its last life persisted; `random` is its only source of randomness."""

    __slots__ = (
        "_announcements",
        "_clients",
        "_completeness",
        "_credit",
        "_effects",
        "_forwarding",
        "_hierarchy",
        "_jobs",
        "_links",
        "_now",
        "_optimiser",
        "_past_measures",
        "_postponed",
        "_replay",
        "_requests",
        "_router",
        "_sessions",
        "_settlement",
        "_standing_advertisements",
        "_states",
        "claims",
        "combination",
        "delivery",
        "incarnation",
        "keys",
        "leases",
        "link_filters",
        "node",
        "stabiliser",
        "standbys",
        "tables",
    )

    def __init__(
        self,
        node: int,
        incarnation: int,
        combination: Combination,
        remembered: Remembered = _EMPTY_DISK,
        random: Callable[[], float] = fixed_random,
        watermark_clock: Callable[[], float] = no_clock,
        keys: Keyring | None = None,
    ) -> None:
        """`keys` are those of an edge broker in a network with sealed events."""
        if keys is not None and not combination.is_sealed:
            raise InvalidArgument("keys of sealed events need the option `sealed`, at all brokers of the network")
        self.keys = Keyring() if keys is None and combination.is_sealed else keys
        requests = (each.request for each in remembered.records)
        if combination.durable_refusal and any(type(each) is SubscribeClient and each.durable for each in requests):
            raise InvalidArgument(f"this broker has durable subscriptions: {combination.durable_refusal}")
        self.node = node
        self.incarnation = incarnation
        self.combination = combination
        self._effects: list[Effect] = []
        effects = self._effects
        tokens = count(1)
        tree = _spanning_tree(node, incarnation, combination, random, effects)
        self._sessions = _table_sessions(incarnation, combination, tokens, effects)
        self._links = (
            ActiveLinks(tree, self._open_link, self._close_link, self._restart_link, effects)
            if self._sessions is None
            else ResumableLinks(tree, self._open_collaborators, self._close_collaborators, self._sessions, effects)
        )
        in_use = self._links.in_use
        self._states = LinkStates(node, incarnation, effects) if combination.has_publisher_trees else None
        homes = HomeBrokers() if combination.has_homes else None
        self._now = 0.0
        self._past_measures = _NO_MEASURES  # of forwardings that were replaced
        self._forwarding = self._make_forwarding(homes, 0)
        self._credit = LinkCredit(QueueBounds(combination.broker.queue, combination.broker.queue_bytes), effects)
        self.delivery = DurableDelivery(node, incarnation, combination, remembered, tokens, effects)
        self._router = EventRouter(
            self._over_links(self._forwarding, homes),
            self._credit,
            self.delivery,
            combination.has_circles,
            effects,
            combination.forward.matcher,
            self.keys,
            () if self._sessions is None else self._sessions.suspended,
            not combination.has_publisher_trees,
        )
        self.link_filters = self._router.link_filters
        self._announcements = Announcements(self._forwarding, effects)
        listener: InterestListener = self._router
        self._optimiser: OptimiserRole | None = None
        if combination.has_optimiser and isinstance(combination.forward, Prefix):
            # Imported here: it brings kernels along, as prefix forwarding does.
            from palio.routing.forwarding.prefix.optimiser_role import OptimiserRole

            self._optimiser = OptimiserRole(
                node, incarnation, combination.forward, self._router, self._announcements, in_use, effects
            )
            listener = self._optimiser.reports
        updates = effects if self._sessions is None else self._sessions.outbox
        self.tables = self._make_tables(listener, homes, updates)
        if self._sessions is not None:
            self._sessions.serve(self.tables, remembered.links)
        self.leases: LeaseUpkeep | None = None
        if isinstance(combination.table_upkeep, Leases):
            has_mergers, has_homes = combination.propagation == "merging", homes is not None
            self.leases = LeaseUpkeep(
                combination.table_upkeep, self.tables, has_mergers, has_homes, random, watermark_clock, effects
            )
        self._hierarchy: Election | None = None
        if combination.is_hierarchical:
            own = candidate_of(node, incarnation, combination.broker.root)
            self._hierarchy = Election(own, self._on_root_elected, effects, self.delivery.on_candidate_sent)
        self.stabiliser: Stabiliser | None = None
        if isinstance(combination.table_upkeep, Stabilising):
            self.stabiliser = Stabiliser(
                combination.table_upkeep,
                self.tables,
                in_use,
                self._begin_rebuild,
                self._adopt,
                random,
                effects,
            )
            self._router.on_damage = self.stabiliser.end_round
            self._router.outages = self.stabiliser.outages
        # The tables report to the router, and the router looks up recipients in them: one must be made first.
        self._router.serve(self.tables.subscriptions)
        self._settlement = Settlement(node, incarnation, in_use, effects)
        self._replay = LogReplay(node, incarnation, tokens, self.link_filters, in_use, effects, self.keys)
        self.claims = DurableClaims(node, incarnation, self.delivery, in_use, effects)
        self.standbys = Standbys(node, self.delivery, self.claims, self.tables, in_use, tokens, effects)
        self._standing_advertisements = StandingAdvertisements(self.tables, self.delivery)
        self._clients = ClientRequests(
            node,
            incarnation,
            combination.advertisements,
            self.tables,
            self._router,
            self.delivery,
            self._links,
            self._settlement,
            self._announcements,
            self._replay,
            self.claims,
            self.standbys,
            self._standing_advertisements,
            effects,
        )
        self._completeness: Completeness | None = None
        if combination.broker.completeness is not None:
            self._completeness = self._clients.completeness = Completeness(
                node,
                incarnation,
                combination.broker.completeness,
                combination.broker.heartbeat or 0.0,
                combination.advertisements and combination.propagation != "flooding",
                watermark_clock,
                self._wants_events,
                in_use,
                self._router,
                self._credit,
                self.delivery,
                effects,
                self.keys,
            )
        self._requests = RequestQueue(
            self._clients.carry_out,
            self._clients.withdrawals,
            self.delivery.queues.settings,
            tokens,
            effects,
            self.keys,
            combination.durable_refusal,
        )
        self._postponed: list[tuple[int, Settle]] = []  # queries that wait until home brokers are on disk
        self._jobs = 0
        # Past the request queue: these records are on disk already.
        for client, request in remembered.records:
            self._clients.carry_out(client, request)
        if self._completeness is not None:
            self._completeness.end_batch()
        # There are no neighbours yet, and clients were answered in the last life.
        effects.clear()
        self.standbys.resume()
        if self._sessions is not None:
            self._sessions.start_timers()

    def index_filters(self) -> None:
        """Index the filters that were remembered, which the first event would wait for otherwise."""
        self._forwarding.route(())

    def handle_batch(self, inputs: Sequence[Input], now: float) -> list[Effect]:
        """Handle everything that happened to this broker at a time."""
        self._now = now
        if self.leases is not None:
            self.leases.begin_batch(now)
        has_control = False  # an input beside events, after which requests may wait to be written
        for each in inputs:
            # Events first, and past the table of handlers: a batch is mostly events.
            if type(each) is Received and type(each.message) is Publish:
                self._router.take(Arrival(each.link, each.message, keys=self.keys))
            elif type(each) is Requested and type(each.request) is PublishClient:
                self._requests.take(each.client, each.request)
            else:
                has_control = True
                _HANDLERS[type(each)](self, each)
        if self.stabiliser is not None:
            self._repair_tables(self.stabiliser)
        if has_control:
            self._send_control()
        jobs = self._router.jobs()  # asked before events are routed, as `HasBackgroundWork` promises
        if self._optimiser is not None and (job := self._optimiser.work()) is not None:
            jobs.append(job)
        if self.delivery.is_dirty:
            self._send_reach_and_attempts()
        self._router.route()
        if self.stabiliser is not None and self.stabiliser.outages.links:
            self.stabiliser.withdraw_overdue()
            if self.tables.is_dirty:
                self.tables.send_updates()
        # Asked again: routing a durable event makes delivery dirty.
        if self.delivery.is_dirty:
            self.delivery.finish_batch()
        for job in jobs:
            self._jobs += 1
            self._effects.append(Work(job, self._jobs))
        if self._completeness is not None:
            self._completeness.end_batch()
        if self.leases is not None:
            self.leases.end_batch()
        # Collaborators hold this very list, so that it is copied rather than replaced.
        effects = self._effects.copy()
        self._effects.clear()
        return effects if self._sessions is None else self._sessions.finish_batch(effects)

    def _send_control(self) -> None:
        """Send what the inputs of a batch have changed. Effects are in order: neighbours get filters before events."""
        if self._standing_advertisements.held:
            self._standing_advertisements.review()
        if self.tables.is_dirty:
            self.tables.send_updates()
        if self._completeness is not None:
            self._completeness.note_inclusions()
        if self._optimiser is not None:
            self._optimiser.send_report()
        if self.stabiliser is not None:
            self.stabiliser.observe_opened()
        self._requests.write()

    def _send_reach_and_attempts(self) -> None:
        """Send neighbours the home brokers behind this one, after their subscriptions; then route due attempts."""
        if self.delivery.interests.has_announcements:
            self._clients.announce_interests()
        if self.delivery.blocked.has_announcement:
            self._clients.announce_blocked(self._now)
        self.delivery.reachable.send_additions()
        if self.claims.held and self.claims.reach_version != self.delivery.reachable.version:
            self.claims.inform_new_homes()
        if self.delivery.epochs and self.standbys.version != self.delivery.reachable.version:
            self.standbys.inform()
        self._clients.resume_settlement()
        version = self.delivery.start_echo()
        if version is not None:
            self._settlement.start(partial(self.delivery.on_echo, version))
        for arrival in self.delivery.next_attempts():
            self._router.take(arrival)
            if self._completeness is not None:
                self._completeness.expect_watermark()

    # What can be asked of a broker

    @property
    def durable_queues(self) -> DurableQueues:
        """The durable subscriptions of this broker's clients."""
        return self.delivery.queues

    @property
    def links(self) -> list[int]:
        """The links in use."""
        return sorted(self._links.in_use)

    def has_neighbour_tables(self, at_least_one: bool) -> bool:
        """Whether all neighbours in use have begun to send their tables; also whether there is one, where asked."""
        return self._links.have_begun and (bool(self._links.in_use) or not at_least_one)

    @property
    def is_dirty(self) -> bool:
        """Whether an empty batch has effects: unfinished events of an earlier life, or timers."""
        return self.delivery.is_dirty or bool(self._effects)

    @property
    def sessions(self) -> list[TableSession]:
        """The table sessions with neighbours, where there are any."""
        return [] if self._sessions is None else self._sessions.sessions

    def entry_table(self) -> TableSnapshot | None:
        """The tables for a job that writes headers in this broker's stead; None where the forwarding has no headers."""
        return self._forwarding.entry_table() if isinstance(self._forwarding, SnapshotSource) else None

    @property
    def optimiser(self) -> int | None:
        """The number of the broker that makes the routing trees; None where none does."""
        return None if self._optimiser is None else self._optimiser.elected

    @property
    def has_completeness(self) -> bool:
        """Whether clients can be told of complete stretches."""
        return self._completeness is not None

    @property
    def content_reads(self) -> int:
        """The number of events whose content this broker has examined."""
        return self._router.content_reads

    @property
    def measures(self) -> Measures:
        """The counts of this broker since it started; false positives are counted by the links that carry them."""
        own = Measures(content_reads=self._router.content_reads, header_bytes=self._router.header_bytes)
        return own + self._past_measures + _measures_of(self._forwarding)

    # Links

    def _on_received(self, received: Received) -> None:
        link, message = received.link, received.message
        if self._completeness is not None:
            self._completeness.count_received(link, message)
        if type(message) is messages.Acknowledge:
            # It answers an attempt, whatever has become of the link since.
            self.delivery.on_acknowledge(link, message)
        elif type(message) is Offer or type(message) is Request:
            self._links.on_tree_message(link, message)
        elif type(message) is Watermark and self._completeness is not None:
            self._completeness.receive(link, message)
        elif type(message) is PublishColumns:
            self._take_batch(link, message)
        elif self._links.counts(link, message) and type(message) in _CONTROL_HANDLERS:
            _CONTROL_HANDLERS[type(message)](self, link, message)
        else:
            # Sent before the neighbour knew that this link was given up, or taken into use again.
            self._effects.append(Drop("link not in use", message))

    def _take_batch(self, link: int, message: PublishColumns) -> None:
        try:
            arrival = BatchArrival(link, message)
        except PalioError as error:
            self._effects.append(Drop(f"{UNREADABLE}: {error}", message, link))
        else:
            self._router.take_batch(arrival)

    def _on_link_up(self, up: LinkUp) -> None:
        self._credit.open_link(up.link, up.credit, up.columns)
        if self._completeness is not None:
            self._completeness.on_link_up(up.link)
        self._links.on_link_up(up.link, up.neighbour)
        if self._states is not None:
            self._states.on_link_up(up.link, up.neighbour, self._links.in_use)

    def _on_link_down(self, down: LinkDown) -> None:
        self._credit.close_link(down.link)
        # Before the link is closed: answers to a neighbour that is gone are dropped, not sent as failed attempts.
        self.delivery.on_link_down(down.link)
        if self.stabiliser is not None and self._keeps_filters:
            self.stabiliser.hold_link(down.link)
        self._links.on_link_down(down.link)
        if self._states is not None:
            self._states.on_link_down(down.link, self._links.in_use)

    def _on_timer(self, fired: TimerFired) -> None:
        if fired.name == RETRY_TIMER:
            self.delivery.on_timer()
        elif fired.name.startswith(BLOCKED_TOPIC):
            self.delivery.on_blocked_timer(fired.name)
        elif fired.name == STANDBY_TIMER:
            self.standbys.on_timer()
        elif self.leases is not None and fired.name == LEASE_TIMER:
            self.leases.on_timer()
        elif self._completeness is not None and fired.name == COMPLETENESS_TIMER:
            self._completeness.on_timer()
        elif self._optimiser is not None and fired.name == OPTIMISER_TIMER:
            self._optimiser.on_timer()
        elif self.stabiliser is not None and fired.name == STABILISATION_TIMER:
            self.stabiliser.on_timer()
        elif self._sessions is not None and fired.name.startswith(SESSION_TIMER):
            self._sessions.on_timer(fired.name)
        else:
            self._links.on_timer(fired.name)

    def _open_link(self, link: int) -> None:
        """Take a link into use; the tables follow with the updates at the end of the batch."""
        if self.stabiliser is not None:
            self.stabiliser.open_link(link)
        else:
            self.tables.open_link(link)
        self._open_collaborators(link)

    def _open_collaborators(self, link: int) -> None:
        """Take a link into use for all but the tables."""
        self.delivery.open_link(link)
        if self._completeness is not None:
            self._completeness.open_link(link)
        # Before what was announced: a broker that loses the election resigns before it sees the winner's tree.
        for election in self._elections:
            election.open_link(link)
        self._announcements.open_link(link)
        if self._states is not None:
            self._states.open_link(link)

    def _close_link(self, link: int) -> None:
        """Give a link up: all that came by it is withdrawn."""
        if self.stabiliser is not None:
            self.stabiliser.close_link(link)
        else:
            self.tables.close_link(link)
        self._close_collaborators(link)

    def _close_collaborators(self, link: int) -> None:
        """Give a link up for all but the tables."""
        self.delivery.close_link(link)
        if self._completeness is not None:
            self._completeness.close_link(link)
        for election in self._elections:
            election.close_link(link)
        for collaborator in (self._replay, self._settlement, self.claims):
            collaborator.echo.close_link(link)

    def _restart_link(self, link: int) -> None:
        self.tables.forget(link)
        self.delivery.restart_link(link)
        if self._completeness is not None:
            self._completeness.restart_link(link)
        for election in self._elections:
            election.restart_link(link)

    def _wants_events(self, link: int) -> bool:
        """Whether any event may go to a neighbour."""
        return self.combination.propagation == "flooding" or bool(self.tables.remote_subscriptions.get(link))

    def _on_announce(self, link: int, message: messages.Announce) -> None:
        is_new = self._clients.on_announce(link, message)
        if is_new and self._optimiser is not None and message.topic == ROUTING_TREES_TOPIC:
            self._optimiser.on_announcement(message)

    @property
    def _elections(self) -> list[Election | OptimiserRole]:
        """The election of the optimiser, or of the root of a hierarchy: no network has both."""
        return [each for each in (self._optimiser, self._hierarchy) if each is not None]

    def _on_register(self, link: int, message: messages.Register) -> None:
        if isinstance(self.tables, CountedTables):
            self.tables.on_register(link, message)
        else:
            self._effects.append(Drop("no counters here", message))

    def _on_renewal(self, link: int, message: messages.Renewal) -> None:
        if self.leases is None:
            self._effects.append(Drop("no leases here", message))
        else:
            self.leases.receive(link, message)

    def _on_candidate(self, link: int, message: messages.Candidate) -> None:
        for election in self._elections:
            election.on_candidate(link, message)
        if self._hierarchy is not None:
            self.delivery.on_candidate(link)

    def _on_report(self, link: int, message: messages.Report) -> None:
        if self._optimiser is None:
            self._effects.append(Drop("no optimiser here", message))
        else:
            self._optimiser.on_report(link, message)

    def _on_link_state(self, link: int, message: messages.LinkState) -> None:
        if self._states is None:
            self._effects.append(Drop("no trees of publishers here", message))
        else:
            self._states.receive(message, self._links.others(link))

    def _on_observe(self, link: int, message: messages.Observe) -> None:
        if self.stabiliser is None:
            self._effects.append(Drop("tables are not compared here", message))
        else:
            self.stabiliser.on_observe(link, message)

    def _on_listing(self, link: int, message: messages.Listing) -> None:
        if self.stabiliser is None:
            self._effects.append(Drop("tables are not compared here", message))
        else:
            self.stabiliser.on_listing(link, message)

    def _on_root_elected(self, root: messages.Candidate, parent: int) -> None:
        self.tables.direct(parent)
        if isinstance(self._forwarding, HierarchicalForwarding):
            self._forwarding.parent = parent

    def _on_settle(self, link: int, query: Settle) -> None:
        # Updates are sent at the end of a batch otherwise, and the query must not overtake them.
        self._clients.announce_interests()
        self.tables.send_updates()
        self.delivery.reachable.send_additions()
        self._postponed.append((link, query))
        self._forward_postponed()

    def _forward_postponed(self) -> None:
        """Forward queries, unless a crash of this broker would forget home brokers that it heard of before them."""
        if self._postponed and not self.delivery.is_learning:
            queries, self._postponed = self._postponed, []
            for link, query in queries:
                if link in self._links.in_use:
                    self._settlement.forward(link, query)

    # Tables

    def _make_forwarding(self, homes: HomeBrokers | None, first_version: int) -> Forwarding:
        combination = self.combination
        if combination.propagation == "flooding":
            return FloodForwarding() if self._states is None else TreeFlooding(self._states)
        setting = ForwardingConfig(
            self.node,
            self.incarnation,
            combination.propagation,
            combination.advertisements,
            combination.forward,
            homes,
            self._states,
            first_version,
        )
        if combination.is_hierarchical:
            return HierarchicalForwarding(setting)
        return make_forwarding(combination.forwarding, setting)

    def _over_links(self, forwarding: Forwarding, homes: HomeBrokers | None) -> Forwarding:
        """A forwarding over links, where it knows home brokers."""
        if homes is None:
            return forwarding
        if self.combination.paths == "redundant" and self._states is not None:
            return RedundantForwarding(self.node, forwarding, homes, self._states)
        return MulticastForwarding(forwarding, homes, self._states)

    def _make_tables(
        self, listener: InterestListener, homes: HomeBrokers | None, updates: list[Effect]
    ) -> RoutingTables:
        if self.combination.tables == "stabilising":
            if homes is None:
                return GuardedTables(self.node, self.combination, listener, updates)
            return GuardedHomeTables(self.node, self.combination, listener, updates, homes)
        if self.combination.has_counters:
            return CountedTables(self.node, self.combination, listener, updates)
        if homes is None:
            return RoutingTables(self.node, self.combination, listener, updates)
        return HomeRoutingTables(self.node, self.combination, listener, updates, homes)

    def _begin_rebuild(self) -> TableRebuild:
        """Empty tables, to be filled from those in use."""
        homes = HomeBrokers() if self.combination.has_homes else None
        version = self._forwarding.table_version if isinstance(self._forwarding, SnapshotSource) else 0
        # Above all versions that there were: by the clock, too, in case the last one is wrong.
        forwarding = self._make_forwarding(homes, max(version % _MAX_TABLE_VERSION, int(self._now * 1e6)) + 1)
        matcher = self.combination.forward.matcher if self._router.has_index else None
        interest = RebuiltInterest(self._over_links(forwarding, homes), matcher)
        return TableRebuild(self.tables, self._make_tables(interest, homes, self._effects), interest, forwarding)

    def _adopt(self, rebuild: TableRebuild) -> None:
        """Take rebuilt tables into use."""
        interest = rebuild.interest
        self._past_measures += _measures_of(self._forwarding)
        self._forwarding = rebuild.forwarding
        self._announcements.use(rebuild.forwarding)
        self.tables.adopt(rebuild.tables)
        self._router.adopt(interest.forwarding, interest.filter_counts, interest.index, self.tables.subscriptions)
        if self._hierarchy is not None:
            self._on_root_elected(self._hierarchy.winner, self._hierarchy.way)
            self.tables.discard_updates()
        if self._optimiser is not None:
            self._optimiser.restore_reports(self.tables.subscriptions.keys())

    @property
    def _keeps_filters(self) -> bool:
        """Whether filters are kept when a link breaks: not where brokers then use other links, or need no filters."""
        choices = self.combination
        return not (choices.has_circles or choices.is_hierarchical or choices.propagation == "flooding")

    def _repair_tables(self, stabiliser: Stabiliser) -> None:
        stabiliser.start()
        if self.tables.is_damaged:
            stabiliser.end_round()

    # Disk and work

    def _on_persisted(self, persisted: Persisted) -> None:
        # All draw tokens from one counter, and each ignores those of the others.
        self._requests.on_persisted(persisted.token)
        self.delivery.on_persisted(persisted.token)
        if persisted.token in self.standbys.writing:
            self.standbys.on_persisted(persisted.token)
        if self._sessions is not None:
            self._sessions.on_persisted(persisted.token)
        self._forward_postponed()

    def _on_not_persisted(self, failure: NotPersisted) -> None:
        self._requests.on_not_persisted(failure)
        self.delivery.on_not_persisted(failure)
        if failure.token in self.standbys.writing:
            self.standbys.on_not_persisted(failure.token, failure.reason)
        if self._sessions is not None:
            self._sessions.on_not_persisted(failure)

    # Table sessions

    def _on_resume(self, link: int, message: messages.Resume) -> None:
        if isinstance(self._links, ResumableLinks):
            self._links.on_resume(link, message)

    def _on_update(self, link: int, message: messages.Update) -> None:
        if self._sessions is not None:
            self._sessions.on_update(link, message)

    def _on_stored(self, link: int, message: messages.Stored) -> None:
        if self._sessions is not None:
            self._sessions.on_stored(link, message)

    def _on_queue_full(self, queue: QueueFull) -> None:
        if self.delivery.queues.is_durable(queue.client, queue.name):
            self.delivery.set_queue_full(queue.client, queue.name)
        elif (owned := self.tables.subscriptions.get(queue.client, queue.name)) is not None:
            self.delivery.hold_back(queue.client, queue.name, owned.filter, self._now + queue.seconds)

    def _on_work_done(self, done: WorkDone) -> None:
        """Take over the result of a job, which changes how fast matches are found, never which."""
        if done.result is not None:
            done.result()


def _measures_of(forwarding: Forwarding) -> Measures:
    return forwarding.measures() if isinstance(forwarding, HasMeasures) else Measures()


def _spanning_tree(
    node: int, incarnation: int, combination: Combination, random: Callable[[], float], effects: list[Effect]
) -> SpanningTree | None:
    if not combination.has_circles:
        return None
    if isinstance(combination.path_upkeep, Failover):
        return FailoverTree(node, incarnation, random, effects, combination.path_upkeep.grace)
    return SpanningTree(node, incarnation, random, effects)


def _table_sessions(
    incarnation: int, combination: Combination, tokens: Iterator[int], effects: list[Effect]
) -> TableSessions | None:
    seconds = combination.kept_seconds
    if seconds is None:
        return None
    database = RecoveryDatabase(tokens) if combination.crash_log == "recover" else NoDatabase(tokens)
    # Without circles there is no other way, and nothing changes for anybody when a session ends.
    return TableSessions(incarnation, database, seconds, not combination.has_circles, effects)


_HANDLERS: Final[dict[type[Input], Callable[[Broker, Any], None]]] = {
    Received: Broker._on_received,
    Requested: lambda broker, asked: broker._requests.take(asked.client, asked.request),
    LinkUp: Broker._on_link_up,
    LinkDown: Broker._on_link_down,
    ClientGone: lambda broker, gone: broker._requests.leave(gone.client),
    Persisted: Broker._on_persisted,
    NotPersisted: Broker._on_not_persisted,
    QueueFull: Broker._on_queue_full,
    QueueFree: lambda broker, queue: broker.delivery.set_queue_free(queue.client, queue.name),
    DefaultOverflow: lambda broker, given: broker.delivery.set_default_overflow(given.on_full),
    Credit: lambda broker, credit: broker._credit.grant(credit.link, credit.events),
    TimerFired: Broker._on_timer,
    WorkDone: Broker._on_work_done,
    ReadDone: lambda broker, done: broker._replay.on_read_done(done),
    Fetched: lambda broker, fetched: broker.delivery.on_fetched(fetched),
}
_CONTROL_HANDLERS: Final[dict[type[messages.Message], Callable[[Broker, int, Any], None]]] = {
    messages.Begin: lambda broker, link, message: broker._links.on_begin(link, message),
    messages.Subscribe: lambda broker, link, message: broker.tables.on_subscribe(link, message),
    messages.Unsubscribe: lambda broker, link, message: broker.tables.on_unsubscribe(link, message.key),
    messages.Advertise: lambda broker, link, message: broker.tables.on_advertise(link, message),
    messages.Unadvertise: lambda broker, link, message: broker.tables.on_unadvertise(link, message.key),
    messages.Register: Broker._on_register,
    messages.Renewal: Broker._on_renewal,
    messages.Resume: Broker._on_resume,
    messages.Update: Broker._on_update,
    messages.Stored: Broker._on_stored,
    messages.Settle: Broker._on_settle,
    messages.Settled: lambda broker, link, message: broker._settlement.receive(link, message),
    messages.Announce: Broker._on_announce,
    messages.Report: Broker._on_report,
    messages.Candidate: Broker._on_candidate,
    messages.LinkState: Broker._on_link_state,
    messages.Observe: Broker._on_observe,
    messages.Listing: Broker._on_listing,
    messages.Reach: lambda broker, link, message: broker.delivery.on_reach(link, message),
    messages.Replay: lambda broker, link, message: broker._replay.on_replay(link, message),
    messages.Replayed: lambda broker, link, message: broker._replay.on_replayed(link, message),
    messages.Seek: lambda broker, link, message: broker.claims.on_seek(link, message),
    messages.Holds: lambda broker, link, message: broker.claims.on_holds(link, message),
    messages.StandbyNotice: lambda broker, link, message: broker.standbys.on_notice(link, message),
    messages.Found: lambda broker, link, message: broker.claims.on_found(link, message),
}

"""Combinations of propagation, forwarding and options: which are legal, and the reason for each refusal.

| propagation | content | reuse always | reuse partial | prefix, optimiser's | prefix, local | Bloom | group |
|---|---|---|---|---|---|---|---|
| flooding | yes | | | | | | |
| simple, identity | yes | yes | yes | yes | yes | yes | yes |
| covering, merging, XRoute | yes | | yes | yes | | | yes |
| with advertisements | yes | as its row | as its row | yes | | as its row | yes |
| with trees of publishers | yes | as its row | as its row | yes | as its row | as its row | yes |
| with both | flooding | | | | | | yes |

Reuse `never` is content forwarding under another name, and goes wherever that goes (Shen §3.3).

The crash log `recover` goes with every row but flooding, and not with a hierarchy or with completeness; its tables are
hard. Failover goes with the same, and needs circles; redundant paths also need group forwarding along trees of
publishers.

XRoute by counters goes with tables that are hard, and not with trees of publishers, group forwarding or a hierarchy,
nor with tables that are kept for a neighbour that is away.

An option of unknown name is refused, and so is one that none of the chosen strategies has (`strategies`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final

from palio.errors import IllegalCombination, InvalidArgument
from palio.routing.strategies import (
    CRASH_LOG_TYPES,
    FORWARDING_TYPES,
    PATH_UPKEEP_TYPES,
    PROPAGATION_TYPES,
    TABLE_UPKEEP_TYPES,
    BrokerOptions,
    Covering,
    CrashLog,
    Failover,
    ForwardingChoice,
    Leases,
    Options,
    PathUpkeep,
    Prefix,
    Propagation,
    Recover,
    Reuse,
    SimulationOptions,
    TableUpkeep,
    XRoute,
    check_options,
    owners_of,
    taken,
)

PROPAGATIONS: Final = tuple(PROPAGATION_TYPES)
FORWARDINGS: Final = tuple(FORWARDING_TYPES)
TABLES: Final = tuple(TABLE_UPKEEP_TYPES)
CRASH_LOGS: Final = tuple(CRASH_LOG_TYPES)
PATHS: Final = tuple(PATH_UPKEEP_TYPES)
REUSE_MODES: Final = ("never", "always", "partial")
PREFIX_TREES: Final = ("local", "optimiser")

_AXES: Final[tuple[Mapping[str, type[Options]], ...]] = (
    PROPAGATION_TYPES,
    FORWARDING_TYPES,
    TABLE_UPKEEP_TYPES,
    CRASH_LOG_TYPES,
    PATH_UPKEEP_TYPES,
)
SUPPRESSING: Final = ("covering", "merging", "xroute")  # not every filter reaches every broker


@dataclass(frozen=True, slots=True)
class Combination:
    """One choice for each axis, and the options by name. The constructor refuses illegal ones.

    `spread`, `forward`, `table_upkeep`, `recovery`, `path_upkeep`, `broker` and `simulation` are the same options by
    strategy, with their defaults.
    """

    propagation: str = "simple"
    forwarding: str = "content"
    advertisements: bool = False
    tables: str = "hard"
    crash_log: str = "none"
    paths: str = "tree"
    options: Mapping[str, Any] = field(default_factory=dict)
    spread: Propagation = field(init=False, repr=False, compare=False)
    forward: ForwardingChoice = field(init=False, repr=False, compare=False)
    table_upkeep: TableUpkeep = field(init=False, repr=False, compare=False)
    recovery: CrashLog = field(init=False, repr=False, compare=False)
    path_upkeep: PathUpkeep = field(init=False, repr=False, compare=False)
    broker: BrokerOptions = field(init=False, repr=False, compare=False)
    simulation: SimulationOptions = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_options(self.options)
        _one_of("propagation", self.propagation, PROPAGATIONS)
        _one_of("forwarding", self.forwarding, FORWARDINGS)
        _one_of("tables", self.tables, TABLES)
        _one_of("crash log", self.crash_log, CRASH_LOGS)
        _one_of("paths", self.paths, PATHS)
        # The dataclass is frozen, and these are what it means.
        object.__setattr__(self, "spread", taken(PROPAGATION_TYPES[self.propagation], self.options))
        object.__setattr__(self, "forward", taken(FORWARDING_TYPES[self.forwarding], self.options))
        object.__setattr__(self, "table_upkeep", taken(TABLE_UPKEEP_TYPES[self.tables], self.options))
        object.__setattr__(self, "recovery", taken(CRASH_LOG_TYPES[self.crash_log], self.options))
        object.__setattr__(self, "path_upkeep", taken(PATH_UPKEEP_TYPES[self.paths], self.options))
        object.__setattr__(self, "broker", taken(BrokerOptions, self.options))
        object.__setattr__(self, "simulation", taken(SimulationOptions, self.options))
        own = own_options((self.propagation, self.forwarding, self.tables, self.crash_log, self.paths), self.options)
        for name in (each for each in self.options if each not in own):
            raise IllegalCombination(f"{self} with {name}", f"{name} is an option of {owners_of(name)}")
        reason = self._refusal()
        if reason is not None:
            raise IllegalCombination(str(self), reason)

    @property
    def mode(self) -> str:
        return self.forward.mode if isinstance(self.forward, Reuse) else "partial"

    @property
    def tree(self) -> str:
        """The origin of the routing tree of prefix forwarding; local by default, where that is legal."""
        if isinstance(self.forward, Prefix) and self.forward.tree is not None:
            return self.forward.tree
        local = self.propagation not in SUPPRESSING and not self.advertisements
        return "local" if local else "optimiser"

    @property
    def has_optimiser(self) -> bool:
        """Whether an optimiser makes the routing tree for all brokers."""
        return self.forwarding == "prefix" and self.tree == "optimiser"

    @property
    def has_counters(self) -> bool:
        """Whether neighbours are sent counts of registrations, instead of filters."""
        return isinstance(self.spread, XRoute) and self.spread.router == "counters"

    @property
    def is_hierarchical(self) -> bool:
        """Whether filters go only towards the root of a hierarchy, and every event goes there."""
        return bool(self.broker.hierarchy)

    @property
    def has_publisher_trees(self) -> bool:
        """Whether an event goes along a tree of the broker that accepted it, instead of one tree for all."""
        return self.broker.trees == "publisher"

    @property
    def has_homes(self) -> bool:
        """Whether brokers know the home broker of each filter, not only the link by which it came."""
        return self.propagation != "flooding" and (self.has_publisher_trees or self.forwarding == "group")

    @property
    def is_sealed(self) -> bool:
        """Whether only edge brokers can read events."""
        return bool(self.broker.sealed)

    @property
    def is_complete(self) -> bool:
        """Whether subscribers are told which stretches of events they have whole."""
        return self.broker.completeness is not None

    @property
    def is_faulty(self) -> bool:
        """Whether links lose, duplicate or reorder frames."""
        return any((self.simulation.loss, self.simulation.duplication, self.simulation.reordering))

    @property
    def has_session(self) -> bool:
        """Whether link sessions retransmit: where links are faulty, or the option says so."""
        return self.is_faulty if self.simulation.session is None else bool(self.simulation.session)

    @property
    def loses_messages(self) -> bool:
        """Whether links lose messages for good: they are faulty, and no session retransmits."""
        return self.is_faulty and not self.has_session

    @property
    def durable_refusal(self) -> str:
        """The reason why no subscription can be durable; empty where there is none."""
        if not isinstance(self.table_upkeep, Leases):
            return ""
        return (
            "with leases a broker may forget a subscription until its next renewal, so that a confirmed event could "
            "miss a durable queue; take other tables than leases"
        )

    @property
    def has_timeliness(self) -> bool:
        """Whether brokers bound the delays of messages: the option says so, or leases need it."""
        return bool(self.broker.timeliness) or isinstance(self.table_upkeep, Leases)

    @property
    def has_circles(self) -> bool:
        """Whether there may be more than one way between brokers, so that they must agree on a spanning tree."""
        return bool(self.broker.circles)

    @property
    def kept_seconds(self) -> float | None:
        """How long the tables of a neighbour that is away are kept; None where its link takes them along."""
        if self.tables != "hard":
            return None  # their own upkeep brings them back, so that there is nothing to keep
        kept = (
            self.recovery.outage if isinstance(self.recovery, Recover) else None,
            self.path_upkeep.grace + self.path_upkeep.handover if isinstance(self.path_upkeep, Failover) else None,
        )
        return max((each for each in kept if each is not None), default=None)

    def _refusal(self) -> str | None:
        if self.loses_messages and not isinstance(self.table_upkeep, Leases):
            return (
                "a change is announced only once, and a faulty link may lose it for ever; it needs the session, or "
                "tables under lease"
            )
        if self.has_timeliness and self.simulation.drift > self.broker.max_drift:
            return "clocks drift more than max_drift, so that bounds on delays would be wrong"
        return (
            self._refusal_by_counters()
            or self._refusal_by_leases()
            or self._refusal_by_paths()
            or self._refusal_by_completeness()
            or self._refusal_by_sealing()
            or self._refusal_by_headers()
            or self._refusal_by_stabilisation()
            or self._refusal_by_sessions()
        )

    def _refusal_by_counters(self) -> str | None:
        if not self.has_counters:
            return None
        other = "; take the router difference"
        if self.has_homes:
            return "counters are of the registrations behind a link, and home brokers may be reached by several" + other
        if self.is_hierarchical:
            return "counters go to all neighbours, and in a hierarchy filters go to the parent alone" + other
        if self.tables == "leases":
            return "a lease ends without a word to neighbours, and counters must be told of every end" + other
        if self.tables == "stabilising":
            return "counters depend on the order in which filters came, so that they cannot be compared" + other
        if self.kept_seconds is not None:
            return "what a neighbour lacks after an outage is a difference of filters, and counters have none" + other
        return None

    def _refusal_by_leases(self) -> str | None:
        chosen = self.table_upkeep
        if not isinstance(chosen, Leases):
            return None
        if self.propagation == "flooding":
            return "with flooding no filter travels, so that there is nothing to lease"
        if self.options.get("timeliness") is False:
            return "leases are extended by the bounds on delays, so that they need timeliness"
        if chosen.refresh >= chosen.validity:
            return f"a lease of {chosen.validity:g} s ends before its renewal comes after {chosen.refresh:g} s"
        if chosen.max_validity < chosen.validity:
            return f"a validity of {chosen.validity:g} s is above max_validity, {chosen.max_validity:g} s"
        if self.is_complete:
            return (
                "a lease ends without a word to neighbours, so that their watermarks would vouch for events that they "
                "no longer send"
            )
        if self.loses_messages and (self.has_circles or self.has_publisher_trees or self.is_hierarchical):
            return "brokers agree on a tree by messages that are sent once, and a faulty link may lose them for ever"
        if self.loses_messages and self.has_optimiser:
            return "the optimiser's tree is sent once, and a faulty link may lose it for ever"
        return None

    def _refusal_by_sessions(self) -> str | None:
        if isinstance(self.path_upkeep, Failover) and not self.has_circles:
            return "without circles there is one way between two brokers, and no backup; set circles"
        if self.paths == "redundant" and not (self.forwarding == "group" and self.has_publisher_trees):
            return (
                "the broker that accepts an event writes both ways to all brokers that want it, which needs group "
                "forwarding with trees of publishers; take forwarding=group, and set trees=publisher"
            )
        if self.kept_seconds is None:
            return None
        if self.propagation == "flooding":
            return "with flooding no filter travels, so that there are no tables to keep"
        if self.is_hierarchical:
            return "filters of a hierarchy go towards a root that is elected anew, so that tables cannot be kept"
        if self.is_complete:
            return "watermarks count the updates of one connection, and tables that are kept outlive it"
        return None

    def _refusal_by_paths(self) -> str | None:
        if self.is_hierarchical:
            if self.propagation == "flooding":
                return "with flooding no filter travels, so that a hierarchy changes nothing"
            if self.advertisements:
                return "with advertisements filters go towards publishers, in a hierarchy towards the root"
            if self.has_publisher_trees:
                return "in a hierarchy every event goes through the root, so that publishers have no trees of their own"
            if self.forwarding != "content":
                return "in a hierarchy a broker knows only the filters below it, so that it cannot write a header"
        if self.has_publisher_trees and self.advertisements and self.has_homes and self.forwarding != "group":
            return (
                "with advertisements a filter is known only on the shared tree between its subscriber and publishers, "
                "and a publisher's tree goes other ways; take group forwarding, whose header names the brokers"
            )
        return None

    def _refusal_by_completeness(self) -> str | None:
        if not self.is_complete:
            return (
                None if self.broker.heartbeat is None else "heartbeats are watermarks of completeness, which is not on"
            )
        if self.is_hierarchical:
            return "while brokers elect a root, none knows whether a neighbour sends it all events"
        if self.has_publisher_trees:
            return (
                "watermarks go by the links of the shared tree, behind the events that take them; those of trees of "
                "publishers take others"
            )
        return None

    def _refusal_by_stabilisation(self) -> str | None:
        if self.tables != "stabilising":
            return None
        if isinstance(self.spread, Covering) and (
            self.spread.graph == "lazy" or self.spread.epsilon or self.spread.budget is not None
        ):
            return (
                "what a neighbour should know must be a function of the tables alone to be compared with what it "
                "knows; a lazy graph, an epsilon or a budget makes it depend on the order in which filters came"
            )
        if self.has_publisher_trees:
            return (
                "a link state is sent only when it changes, so that trees of publishers would keep a wrong one; take "
                "one tree for all"
            )
        if self.is_complete:
            return "a watermark vouches for the tables of all brokers on the way, which may be wrong until a round ends"
        return None

    def _refusal_by_sealing(self) -> str | None:
        if not self.is_sealed:
            return None
        if self.propagation == "flooding" or self.forwarding == "group":
            return None
        if self.has_publisher_trees:
            return (
                "while trees of publishers change, brokers on the way match content again, and inner ones cannot read "
                "it; take group forwarding, whose header names the brokers, or one tree for all"
            )
        reads = "inner brokers would have to match content, and cannot read it"
        if self.forwarding == "reuse" and self.mode == "partial":
            return f"a partial list of keys leaves links without one, for which {reads}; take always reuse"
        if self.forwarding == "content" or (self.forwarding == "reuse" and self.mode == "never"):
            return f"without headers {reads}; take prefix, bloom, group, or always reuse forwarding"
        return None

    def _refusal_by_headers(self) -> str | None:
        if self.forwarding == "content" or (self.forwarding == "reuse" and self.mode == "never"):
            return None
        if self.propagation == "flooding":
            return "with flooding no broker knows the interest of the others, so that it cannot write a header"
        if self.propagation in SUPPRESSING:
            return self._refusal_by_suppression()
        if self.advertisements and self.forwarding == "prefix" and self.tree == "local":
            return (
                "with advertisements brokers know different filters, so that trees that each builds from its own "
                "differ; take the optimiser's tree"
            )
        return None

    def _refusal_by_suppression(self) -> str | None:
        spread = f"with {self.propagation} not every filter reaches every broker"
        match self.forwarding:
            case "reuse" if self.mode == "always":
                return f"{spread}, so the list of the first broker cannot name all that match; take partial reuse"
            case "prefix" if self.tree == "local":
                return f"{spread}, so that trees that each builds from its own differ; take the optimiser's tree"
            case "bloom":
                return f"{spread}, so the digest of the first broker lacks bits of filters that it does not know"
        return None

    def __str__(self) -> str:
        forwarding = self.forwarding
        if forwarding == "reuse":
            forwarding = f"{self.mode} reuse"
        elif forwarding == "prefix":
            forwarding = "prefix with a local tree" if self.tree == "local" else "prefix with the optimiser's tree"
        advertised = ", with advertisements" if self.advertisements else ""
        directed = ", in a hierarchy" if self.is_hierarchical else ""
        trees = ", along trees of publishers" if self.has_publisher_trees else ""
        sealed = ", with sealed events" if self.is_sealed else ""
        leased = ", with leases" if isinstance(self.table_upkeep, Leases) else ""
        counted = " by counters" if self.has_counters else ""
        return (
            f"{self.propagation} propagation{counted} and {forwarding} forwarding"
            f"{advertised}{directed}{trees}{sealed}{leased}"
        )


def own_options(names: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some options that the strategies of these names, one for each axis, every broker and the simulation
    have."""
    kinds = *(types[name] for types, name in zip(_AXES, names, strict=True)), BrokerOptions, SimulationOptions
    known = {name for kind in kinds for name in kind.__dataclass_fields__}  # type: ignore[attr-defined]
    return {name: value for name, value in options.items() if name in known}


def legal_combinations() -> Iterator[Combination]:
    """Every legal combination, in the order of the table; of XRoute those by counters, at the end, since by differences
    it sends what covering does."""
    spreads = [each for each in PROPAGATIONS if each != "xroute"]
    for trees, propagation, advertisements in product(({}, {"trees": "publisher"}), spreads, (False, True)):
        for forwarding, options in _FORWARDING_OPTIONS:
            try:
                yield Combination(propagation, forwarding, advertisements, options={**options, **trees})
            except IllegalCombination:
                continue
    for propagation in spreads[1:]:
        yield Combination(propagation, options={"hierarchy": True})
    for advertisements, (forwarding, options) in product((False, True), _FORWARDING_OPTIONS):
        try:
            yield Combination("xroute", forwarding, advertisements, options={**options, "router": "counters"})
        except IllegalCombination:
            continue


def upkeep_variants(combination: Combination) -> list[Combination]:
    """A combination with every upkeep of tables, crashes and paths that it may have."""
    variants = []
    for tables, crash_log, paths in product(TABLES, CRASH_LOGS, PATHS):
        try:
            variants.append(replace(combination, tables=tables, crash_log=crash_log, paths=paths))
        except IllegalCombination:
            continue
    return variants


_FORWARDING_OPTIONS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("content", {}),
    *(("reuse", {"mode": mode}) for mode in REUSE_MODES),
    *(("prefix", {"tree": tree}) for tree in PREFIX_TREES),
    ("bloom", {}),
    ("group", {}),
)


def _one_of(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise InvalidArgument(f"there is no {what} {given!r}; known are {', '.join(known)}")

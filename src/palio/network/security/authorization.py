"""Authorization: principals, their grants, and what each may publish, receive and claim as source.

A grant is a filter. For a client, grants bound its subscriptions and publications; for a neighbouring broker, what may
leave over its link and what may come in. A subscriber gets the conjunction of its subscription and its grant, so that
no subscription can draw more than was granted. Brokers route by the conjunction; the grant alone is checked again when
an event is delivered, replayed or taken from a queue, because it may have shrunk since the event was put there.

Every element of an array must match a grant, where a subscription asks for some element: otherwise a publisher whose
grant is `account = 'eve'` could write to the account `bob` by naming both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from palio.errors import InvalidArgument, NotPermitted
from palio.events import Event
from palio.filters.filter import Filter
from palio.network.security.quotas import BrokerLimits, restrict_filter

Role: TypeAlias = Literal["client", "broker", "admin"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
ANY_SOURCE: Final = "*"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated identity with its role and grants.

    >>> desk = Principal("desk", may_subscribe=Filter.parse("symbol = 'ACME'"))
    >>> desk.may_publish == Filter.nothing, desk.claims("desk/7"), desk.claims("bank")
    (True, True, False)
    """

    name: str
    role: Role = "client"
    may_subscribe: Filter = field(default=Filter.nothing)
    may_publish: Filter = field(default=Filter.nothing)
    may_annotate: bool = False
    """Whether its events may bring their own forwarding header instead of one computed by the broker."""
    may_see_status: bool = False
    """Whether it may read status, metrics, dead letters and what others subscribe to."""
    sources: tuple[str, ...] = ()
    """Sources that its events may name beside its own name, each with everything below it; `*` is any."""
    may_block: bool = False
    """Whether its subscriptions may have the overflow policy `block`, which holds publishers back."""

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.role not in ROLES:
            raise InvalidArgument(f"a role is {', '.join(ROLES)}, not {self.role!r}")
        for each in (self.may_subscribe, self.may_publish):
            if not isinstance(each, Filter):
                raise InvalidArgument(f"a grant is a filter, not {type(each).__name__}")

    def claims(self, source: str) -> bool:
        """Whether events of this principal may name a source."""
        return any(
            owned == ANY_SOURCE or source == owned or _is_below(source, owned) for owned in (self.name, *self.sources)
        )


def check_name(name: str) -> str:
    """Check that a name can stand in a log, a file and a source; InvalidArgument otherwise."""
    if not _NAME.fullmatch(name):
        raise InvalidArgument(f"a name is up to 64 letters, digits and any of . _ @ -, not {name!r:.80}")
    return name


def _is_below(source: str, owned: str) -> bool:
    # A slash ends an owned prefix: `bank` includes neither `banknotes` nor `bank/../mint`.
    below = source.removeprefix(owned.removesuffix("/") + "/")
    return below != source and ".." not in below.split("/")


def unrestricted(name: str) -> Principal:
    """A principal with all rights."""
    return Principal(
        name,
        "admin",
        Filter.everything,
        Filter.everything,
        may_annotate=True,
        may_block=True,
        may_see_status=True,
        sources=(ANY_SOURCE,),
    )


ANYONE: Final = unrestricted("anyone")
"""Principal of every connection to a broker without tokens, which only its own machine can reach."""

_SOURCE = "source"


def effective_filter(wanted: Filter, principal: Principal, limits: BrokerLimits | None = None) -> Filter:
    """The part of a subscription that the grant admits.

    NotPermitted where nothing is left of it, LimitReached where the conjunction exceeds the limits.
    """
    grant = principal.may_subscribe
    granted = wanted & grant if limits is None else restrict_filter(wanted, grant, limits)
    # A subscription that asks for nothing is not refused: its grant takes nothing away from it.
    if granted == Filter.nothing and wanted != Filter.nothing:
        raise NotPermitted(principal.name, "subscribe to that", "nothing that the grant admits can match")
    return granted


def may_receive(principal: Principal, event: Event) -> bool:
    """Whether the grant of a principal admits an event now."""
    return principal.may_subscribe.matches_every_element(event.attributes)


def published_by(principal: Principal, event: Event) -> Event:
    """The event with the source of its publisher; NotPermitted where the principal may not publish it.

    An event that names no source gets its publisher's name. One that does must name a source of its publisher's, both
    as the source of the event and as an attribute `source`, which is what subscribers' conditions see. Events of a
    publisher that may name any source stay as they are.
    """
    if not principal.may_publish.matches_every_element(event.attributes):
        raise NotPermitted(principal.name, "publish that event", "its grant does not match the event")
    if ANY_SOURCE in principal.sources:
        return event
    for source in _sources(event):
        check_source(principal, source)
    return event if event.source is not None else event.said_by(principal.name)


def check_source(principal: Principal, source: object) -> None:
    """NotPermitted where events of a principal may not name a source."""
    if not _claims(principal, source):
        owned = ", ".join((principal.name, *principal.sources))
        reason = f"its sources are {owned} and what is below"
        raise NotPermitted(principal.name, f"publish as {source!r:.80}", reason)


def _sources(event: Event) -> list[Any]:
    """The sources that an event names, also by its attribute `source`."""
    claimed = event.attributes.get(_SOURCE)
    named = (event.source, *(claimed if isinstance(claimed, tuple) else (claimed,)))
    return [each for each in named if each is not None]


def _claims(principal: Principal, source: object) -> bool:
    return isinstance(source, str) and principal.claims(source)


def check_status(principal: Principal) -> None:
    """NotPermitted unless the principal may see the status of the broker."""
    if not principal.may_see_status:
        raise NotPermitted(principal.name, "see status, metrics or dead letters", "it needs `--may-see-status`")


def check_operator(principal: Principal, what: str = "give up brokers") -> None:
    """NotPermitted unless the principal is an operator of this network."""
    if principal.role != "admin":
        raise NotPermitted(principal.name, what, "it needs the role admin")


def check_annotation(principal: Principal, header: bytes) -> None:
    """NotPermitted where an event brings a forwarding header and its publisher may not annotate."""
    if header and not principal.may_annotate:
        raise NotPermitted(principal.name, "send events with a header", "it needs `--may-annotate`")


@dataclass(frozen=True, slots=True)
class LinkFilters:
    """Link filters: conditions of this end's owner for events that pass a link to another broker."""

    imports: Filter
    exports: Filter
    of_sources: Principal | None = None
    """Principal whose sources incoming events must name; None accepts all sources."""

    @classmethod
    def of(cls, neighbour: Principal) -> LinkFilters:
        """The link filters that follow from a neighbour's grants.

        A neighbour with sources brings events of these alone; one without is trusted to check its own publishers.
        """
        is_bound = bool(neighbour.sources) and ANY_SOURCE not in neighbour.sources
        return cls(neighbour.may_publish, neighbour.may_subscribe, neighbour if is_bound else None)

    @property
    def are_open(self) -> bool:
        """Whether everything passes, so that no event needs to be decoded."""
        return self.imports == self.exports == Filter.everything and self.of_sources is None

    def admits(self, event: Event) -> bool:
        """Whether an event may come in."""
        if not self.imports.matches_every_element(event.attributes):
            return False
        return self.of_sources is None or all(_claims(self.of_sources, each) for each in _sources(event))

    def releases(self, event: Event) -> bool:
        """Whether an event may go out."""
        return self.exports.matches_every_element(event.attributes)


OPEN_LINK = LinkFilters(Filter.everything, Filter.everything)


@dataclass(frozen=True, slots=True)
class GrantRevision:
    """Consequences of a changed grant for a connected principal.

    `replace` has new effective filters by subscription; `remove` has the subscriptions of which nothing is left. Queued
    events stay where `keeps` holds. Without a principal its connections end.
    """

    principal: Principal | None
    replace: Mapping[str, Filter]
    remove: frozenset[str]

    def keeps(self, event: Event) -> bool:
        """Whether a queued event may still be delivered."""
        return self.principal is not None and may_receive(self.principal, event)


def revise_grants(before: Principal, after: Principal | None, wanted: Mapping[str, Filter]) -> GrantRevision:
    """The consequences of a grant change, or of removal; `wanted` has the requested filters by subscription.

    Costs one conjunction for each subscription.
    """
    # A role decides whether a connection is a client's or a link, which cannot change while it is open.
    if after is None or after.role != before.role:
        return GrantRevision(None, {}, frozenset(wanted))
    replace: dict[str, Filter] = {}
    remove: set[str] = set()
    for name, requested in wanted.items():
        granted = requested & after.may_subscribe
        if granted == Filter.nothing:
            remove.add(name)
        # Only what changed is sent again: a grant may have a million subscriptions under it.
        elif granted != requested & before.may_subscribe:
            replace[name] = granted
    return GrantRevision(after, replace, frozenset(remove))

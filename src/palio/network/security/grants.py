"""What may this one hear, say, and go on hearing?

What a subscriber gets is always its subscription AND its grant, so that a subscription can never draw more than was
granted, whatever it asks for. The conjunction is what brokers route by; the grant alone is asked once more when an
event is handed over, replayed or taken from a queue, because a grant may have shrunk since the event was put there.

A grant asks of arrays what every condition asks: that some element fits. `NOT (tags = 'secret')` therefore holds for
an event that has both `secret` and `public`; a grant should name what may be heard, not what may not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from palio.errors import NotPermitted
from palio.events import Event
from palio.filters.filter import Filter
from palio.network.security.limits import Limits, joined
from palio.network.security.principals import ANY_SOURCE, Principal

_SOURCE = "source"


def effective(wanted: Filter, principal: Principal, limits: Limits | None = None) -> Filter:
    """The subscription that is made for a principal which wants this; NotPermitted where nothing is left of it, and
    LimitReached where it grew beyond limits."""
    grant = principal.may_subscribe
    granted = wanted & grant if limits is None else joined(wanted, grant, limits)
    if granted == Filter.nothing and wanted != Filter.nothing:
        raise NotPermitted(principal.name, "subscribe to that", "nothing that may be heard can match")
    return granted


def may_hear(principal: Principal, event: Event) -> bool:
    """Whether an event may be handed to a principal now."""
    return principal.may_subscribe.matches_attributes(event.attributes)


def published_by(principal: Principal, event: Event) -> Event:
    """The event as this principal may publish it, with its source; NotPermitted where it may not.

    An event that names no source gets its publisher's name. One that does must name a source of its publisher's, both
    as the source of the event and as an attribute `source`, which is what subscribers' conditions see. Events of a
    publisher that may name any source stay as they are.
    """
    if not principal.may_publish.matches_attributes(event.attributes):
        raise NotPermitted(principal.name, "publish that event", "its grant does not match the event")
    if ANY_SOURCE in principal.sources:
        return event
    for source in _sources(event):
        if not _claims(principal, source):
            own = ", ".join((principal.name, *principal.sources))
            raise NotPermitted(principal.name, f"publish as {source!r:.80}", f"its sources are {own} and what is below")
    return event if event.source is not None else event.said_by(principal.name)


def _sources(event: Event) -> list[Any]:
    """All that an event names as its source, also by an attribute."""
    claimed = event.attributes.get(_SOURCE)
    named = (event.source, *(claimed if isinstance(claimed, tuple) else (claimed,)))
    return [each for each in named if each is not None]


def _claims(principal: Principal, source: object) -> bool:
    return isinstance(source, str) and principal.claims(source)


def check_status(principal: Principal) -> None:
    """NotPermitted unless the principal may see how the broker is, and what others want."""
    if not principal.may_see_status:
        raise NotPermitted(principal.name, "see status, metrics or dead letters", "it needs `--may-see-status`")


def check_operator(principal: Principal, what: str = "give up brokers") -> None:
    """NotPermitted unless the principal runs this network."""
    if principal.role != "admin":
        raise NotPermitted(principal.name, what, "it needs the role admin")


def check_annotation(principal: Principal, header: bytes) -> None:
    """NotPermitted where an event brings its own forwarding header and its publisher may not annotate."""
    if header and not principal.may_annotate:
        raise NotPermitted(principal.name, "send events with a header", "it needs `--may-annotate`")


@dataclass(frozen=True, slots=True)
class LinkFilters:
    """What passes a link to another broker, beside what was subscribed to: conditions of this end's owner."""

    imports: Filter
    exports: Filter
    of_sources: Principal | None = None
    """Whose sources events that come in must have, where they have any."""

    @classmethod
    def of(cls, neighbour: Principal) -> LinkFilters:
        """Those of a broker that connected: it may publish what is imported, and hear what is exported. One with
        sources of its own brings events of these alone; one without is trusted to have looked at its publishers."""
        is_bound = bool(neighbour.sources) and ANY_SOURCE not in neighbour.sources
        return cls(neighbour.may_publish, neighbour.may_subscribe, neighbour if is_bound else None)

    @property
    def are_open(self) -> bool:
        """Whether everything passes, so that no event has to be looked at."""
        return self.imports == self.exports == Filter.everything and self.of_sources is None

    def admits(self, event: Event) -> bool:
        """Whether an event may come in."""
        if not self.imports.matches_attributes(event.attributes):
            return False
        return self.of_sources is None or all(_claims(self.of_sources, each) for each in _sources(event))

    def releases(self, event: Event) -> bool:
        """Whether an event may go out."""
        return self.exports.matches_attributes(event.attributes)


OPEN = LinkFilters(Filter.everything, Filter.everything)


@dataclass(frozen=True, slots=True)
class Revision:
    """What a changed grant changes for a principal that is connected or has queues.

    `replace` are its subscriptions that are to be made anew, with their new effective filters; `remove` are those of
    which nothing is left. Events that wait, in memory or on disk, and those of a replay are kept where `keeps` says so.
    `leave`: it is not known any more, and its connections end.
    """

    principal: Principal | None
    replace: Mapping[str, Filter]
    remove: frozenset[str]

    @property
    def leave(self) -> bool:
        return self.principal is None

    def keeps(self, event: Event) -> bool:
        """Whether an event that waits for the principal may still be handed over."""
        return self.principal is not None and may_hear(self.principal, event)

    def kept(self, events: Iterable[Event]) -> list[Event]:
        """Those of several events that may still be handed over."""
        return [each for each in events if self.keeps(each)]


def revised(before: Principal, after: Principal | None, wanted: Mapping[str, Filter]) -> Revision:
    """What to change for a principal whose grant changed, or that is gone; `wanted` is what it asked for, by name.

    Costs one conjunction for each of its subscriptions.
    """
    if after is None or after.role != before.role:
        return Revision(None, {}, frozenset(wanted))
    replace: dict[str, Filter] = {}
    remove: set[str] = set()
    for name, asked in wanted.items():
        now = asked & after.may_subscribe
        if now == Filter.nothing:
            remove.add(name)
        elif now != asked & before.may_subscribe:
            replace[name] = now
    return Revision(after, replace, frozenset(remove))

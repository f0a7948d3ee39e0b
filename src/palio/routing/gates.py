"""What passes a link, beside what was subscribed to? A gate is a condition that the owner of this broker put there.

An event that may not come in is taken for one that nobody here wants; one that may not go out, for one that nobody
there wants. Either way it is dealt with, and whoever waits to hear so does. Events of the past pass links as those do
that are on their way: a replay tells nothing that a subscription would not have told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from palio.errors import PalioError
from palio.events import Event
from palio.routing import codec
from palio.routing.forwarding.protocol import Arrival, Route
from palio.routing.messages import LogPage


class Gate(Protocol):
    """What may pass one link."""

    def admits(self, event: Event) -> bool:
        """Whether an event may come in."""

    def releases(self, event: Event) -> bool:
        """Whether an event may go out."""


def shut_out(arrival: Arrival, gates: Mapping[int, Gate]) -> bool:
    """Whether an event came by a link that it may not come by; what cannot be read is for others to refuse."""
    gate = gates.get(arrival.interface)
    if gate is None:
        return False
    try:
        return not gate.admits(arrival.event)
    except PalioError:
        return False


def let_out(arrival: Arrival, route: Route, gates: Mapping[int, Gate]) -> Route:
    """A route without the links by which an event may not leave."""
    shut = {
        link for _, links in route.sends for link in links if link in gates and not gates[link].releases(arrival.event)
    }
    if not shut:
        return route
    open = [(header, tuple(link for link in links if link not in shut)) for header, links in route.sends]
    return Route(tuple((header, links) for header, links in open if links), route.local)


def pages_in(link: int, pages: Sequence[LogPage], gates: Mapping[int, Gate]) -> Sequence[LogPage]:
    """Pages that came by a link, without the events that may not."""
    gate = gates.get(link)
    return pages if gate is None else _passing(pages, gate.admits)


def pages_out(link: int, pages: Sequence[LogPage], gates: Mapping[int, Gate]) -> Sequence[LogPage]:
    """Pages that are to leave by a link, without the events that may not."""
    gate = gates.get(link)
    return pages if gate is None else _passing(pages, gate.releases)


def _passing(pages: Iterable[LogPage], may_pass: Callable[[Event], bool]) -> list[LogPage]:
    return [
        replace(page, events=tuple(event for event in page.events if _passes(event.body, may_pass))) for page in pages
    ]


def _passes(body: bytes, may_pass: Callable[[Event], bool]) -> bool:
    """Whether an event passes; one that cannot be read does not."""
    try:
        return may_pass(codec.decode_event(body))
    except PalioError:
        return False

"""Echo: a query to every broker of the tree and the convergecast of the answers.

The initiator sends a query over all its links in use. Each broker passes it on over its other links, and answers the
link it came by, its parent, once all those have answered; leaves answer at once. When the initiator is complete, every
broker has seen the query. A link keeps order, so that each has by then also handled whatever was sent before it.

A link that closes counts as answered, and the result is no longer whole: the brokers behind it were not heard. Each
user of the echo decides what that means. `Settlement` and `durable_claims` ask again, `log_replay` names what is
missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

from palio.routing.effects import Effect, Send
from palio.routing.messages import LOCAL, EventId, Message, Settle, Settled

_State = TypeVar("_State")


@dataclass(slots=True)
class Query(Generic[_State]):
    """One query at one broker, until it is answered."""

    id: EventId
    parent: int  # the link that it came by; LOCAL at its initiator
    state: _State  # of the user: the answers merged so far, and at the initiator what to do with them
    awaited: set[int]  # interfaces that have not answered
    is_whole: bool = True  # no link closed before it had answered


class Echo(Generic[_State]):
    """The queries of one kind under way at one broker. `complete` is called with each that all have answered.

    `links` are those in use: a live view, which has lost a link before `close_link` is called with it.
    """

    __slots__ = ("_complete", "_effects", "_incarnation", "_links", "_node", "_queries", "_sequence")

    def __init__(
        self,
        node: int,
        incarnation: int,
        links: Collection[int],
        effects: list[Effect],
        complete: Callable[[Query[_State]], None],
    ) -> None:
        self._node = node
        self._incarnation = incarnation
        self._links = links
        self._effects = effects
        self._complete = complete
        self._sequence = 0
        self._queries: dict[EventId, Query[_State]] = {}

    def next_id(self) -> EventId:
        """The id of a query that this broker initiates."""
        self._sequence += 1
        return EventId(self._node, self._incarnation, self._sequence)

    def send(self, id: EventId, parent: int, state: _State, message: Message, awaits_local: bool = False) -> None:
        """Send a query on over all links but its parent's; with `awaits_local` this broker answers LOCAL later."""
        children = sorted(link for link in self._links if link != parent)
        query = self._queries[id] = Query(id, parent, state, {*children, LOCAL} if awaits_local else set(children))
        if children:
            self._effects.append(Send(tuple(children), message))
        self._complete_if_answered(query)

    def receive(
        self,
        interface: int,
        id: EventId,
        is_whole: bool = True,
        merge: Callable[[_State], None] | None = None,
    ) -> None:
        """Count an answer, whose content `merge` adds to the state; one that is not awaited is ignored."""
        query = self._queries.get(id)
        if query is None or interface not in query.awaited:
            return
        query.awaited.remove(interface)
        query.is_whole = query.is_whole and is_whole
        if merge is not None:
            merge(query.state)
        self._complete_if_answered(query)

    def close_link(self, link: int) -> None:
        """Drop the queries of a neighbour that is gone, and stop waiting for its answers."""
        for query in list(self._queries.values()):
            if query.parent == link:
                del self._queries[query.id]
            elif link in query.awaited:
                query.awaited.remove(link)
                query.is_whole = False
                self._complete_if_answered(query)

    def _complete_if_answered(self, query: Query[_State]) -> None:
        if not query.awaited:
            del self._queries[query.id]
            self._complete(query)


class Settlement:
    """Echo without content: complete when every broker has handled what was sent before it."""

    __slots__ = ("_effects", "echo")

    def __init__(self, node: int, incarnation: int, links: Collection[int], effects: list[Effect]) -> None:
        self._effects = effects
        self.echo = Echo[Callable[[], None] | None](node, incarnation, links, effects, self._complete)

    def start(self, on_settled: Callable[[], None]) -> None:
        """Call `on_settled` when all brokers have answered; at once where there are no neighbours."""
        id = self.echo.next_id()
        self.echo.send(id, LOCAL, on_settled, Settle(id))

    def forward(self, link: int, query: Settle) -> None:
        self.echo.send(query.query_id, link, None, query)

    def receive(self, link: int, answer: Settled) -> None:
        self.echo.receive(link, answer.query_id, answer.whole)

    def _complete(self, query: Query[Callable[[], None] | None]) -> None:
        if query.state is None:
            self._effects.append(Send((query.parent,), Settled(query.id, query.is_whole)))
        elif query.is_whole:
            query.state()
        else:
            # The tree has changed meanwhile: ask those that are its neighbours now, under a new id.
            self.start(query.state)

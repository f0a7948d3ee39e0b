"""Echo: a query to all brokers of a tree, and their answers combined on the way back."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any, NamedTuple

import pytest

from palio.routing.client_messages import Confirmed, SubscribeClient
from palio.routing.echo import Echo, Query
from palio.routing.effects import Effect, LinkDown, Reply, Send
from palio.routing.messages import LOCAL, EventId, Settle, Settled
from tests.routing.lone_broker import Alone, sends, subscription, wanted


class Ask(NamedTuple):
    id: EventId


class Answer(NamedTuple):
    """The brokers that a neighbour answers for."""

    id: EventId
    is_whole: bool
    brokers: tuple[int, ...]


class Marker(NamedTuple):
    """Something that an initiator sent to all before its query."""

    id: EventId


class Host:
    """A broker that answers a query with its number; its links have the numbers of its neighbours, from 1."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.links: set[int] = set()
        self.effects: list[Effect] = []
        self.echo = Echo[list[int]](number, 1, self.links, self.effects, self._complete)
        self.markers: set[EventId] = set()
        self.asked: set[EventId] = set()
        self.completed: list[Query[list[int]]] = []

    def initiate(self) -> EventId:
        id = self.echo.next_id()
        self.receive(LOCAL, Marker(id))
        self.receive(LOCAL, Ask(id))
        return id

    def receive(self, link: int, message: Any) -> None:
        match message:
            case Marker(id):
                self.markers.add(id)
                self.effects.append(Send(tuple(sorted(self.links - {link})), message))
            case Ask(id):
                self.asked.add(id)
                self.echo.send(id, link, [self.number], message)  # type: ignore[arg-type]
            case Answer(id, is_whole, brokers):
                self.echo.receive(link, id, is_whole, lambda state: state.extend(brokers))

    def _complete(self, query: Query[list[int]]) -> None:
        if query.parent == LOCAL:
            self.completed.append(query)
        else:
            answer: Any = Answer(query.id, query.is_whole, tuple(query.state))
            self.effects.append(Send((query.parent,), answer))


class Tree:
    """Brokers of a random tree; links keep order, and a random one of those with something under way is served."""

    def __init__(self, size: int, random: Random) -> None:
        self.random = random
        self.hosts = {number: Host(number) for number in range(1, size + 1)}
        self.edges = [(random.randrange(1, number), number) for number in range(2, size + 1)]
        for one, other in self.edges:
            self.hosts[one].links.add(other)
            self.hosts[other].links.add(one)
        self.under_way: dict[tuple[int, int], deque[Any]] = {}

    def step(self) -> bool:
        """Let one message arrive; whether there was one."""
        for host in self.hosts.values():
            for effect in host.effects:
                assert isinstance(effect, Send)
                for link in effect.links:
                    self.under_way.setdefault((host.number, link), deque()).append(effect.message)
            host.effects.clear()
        waiting = [way for way, messages in self.under_way.items() if messages]
        if not waiting:
            return False
        source, target = self.random.choice(waiting)
        self.hosts[target].receive(source, self.under_way[source, target].popleft())
        return True

    def cut(self, one: int, other: int) -> None:
        for here, there in ((one, other), (other, one)):
            self.under_way.pop((here, there), None)
            self.hosts[here].links.discard(there)
        for here, there in ((one, other), (other, one)):
            self.hosts[here].echo.close_link(there)
            self.hosts[here].effects[:] = [
                Send(tuple(link for link in each.links if link != there), each.message)
                for each in self.hosts[here].effects
                if isinstance(each, Send)
            ]

    def reachable(self, start: int) -> set[int]:
        found, new = {start}, [start]
        while new:
            new = [link for each in new for link in self.hosts[each].links if link not in found]
            found.update(new)
        return found


@pytest.mark.parametrize("seed", range(30))
def test_every_broker_answers_once_and_has_by_then_handled_what_was_sent_before(seed: int) -> None:
    random = Random(seed)
    tree = Tree(random.randrange(1, 12), random)
    initiators = [random.choice(list(tree.hosts.values())) for _ in range(4)]
    known = {id(host): 0 for host in initiators}
    for host in initiators:
        host.initiate()
        for _ in range(random.randrange(5)):
            tree.step()
    is_running = True
    while is_running:
        for host in initiators:
            for query in host.completed[known[id(host)] :]:  # seen in the very step that completed it
                assert all(query.id in each.markers for each in tree.hosts.values())
            known[id(host)] = len(host.completed)
        is_running = tree.step()
    completed = [query for host in {id(each): each for each in initiators}.values() for query in host.completed]
    assert len(completed) == 4
    for query in completed:
        assert query.is_whole
        assert sorted(query.state) == sorted(tree.hosts)


@pytest.mark.parametrize("seed", range(30))
def test_where_a_link_breaks_before_its_answer_the_rest_is_heard_and_the_result_is_not_whole(seed: int) -> None:
    random = Random(seed)
    tree = Tree(random.randrange(2, 12), random)
    initiator = random.choice(list(tree.hosts.values()))
    id = initiator.initiate()
    for _ in range(random.randrange(3 * len(tree.hosts))):
        tree.step()
    ends = random.choice(tree.edges)
    tree.cut(*ends)
    heard = tree.reachable(initiator.number)
    [near_end] = heard.intersection(ends)
    # A link that was gone before the query came to it belongs to no tree that the query knew.
    expected = set(tree.hosts) if id in tree.hosts[near_end].asked else heard
    while tree.step():
        pass
    [query] = initiator.completed
    assert len(query.state) == len(set(query.state))
    assert heard <= set(query.state)
    assert query.is_whole == (set(query.state) == expected)


def test_an_answer_that_is_not_awaited_is_ignored() -> None:
    host = Host(1)
    host.links.update((2, 3))
    id = host.initiate()
    for link, answered in ((2, id), (2, id), (7, id), (3, EventId(1, 1, 99))):
        host.receive(link, Answer(answered, True, (link,)))
    assert host.completed == []
    host.receive(3, Answer(id, True, (3,)))
    assert [query.state for query in host.completed] == [[1, 2, 3]]


def test_a_broker_may_answer_itself_later() -> None:
    host = Host(1)
    id = host.echo.next_id()
    host.echo.send(id, LOCAL, [], Settle(id), awaits_local=True)
    assert host.completed == []
    host.echo.receive(LOCAL, id, merge=lambda state: state.append(1))
    assert [query.state for query in host.completed] == [[1]]


def test_a_query_is_passed_on_behind_what_was_sent_before_it() -> None:
    broker = Alone(links=3)
    query_id = EventId(1, 1, 1)
    effects = sends(broker.says(1, subscription("x > 1"), Settle(query_id)))
    assert effects == [((2, 3), subscription("x > 1")), ((2, 3), Settle(query_id))]
    assert sends(broker.says(2, Settled(query_id))) == []
    assert sends(broker.says(3, Settled(query_id))) == [((1,), Settled(query_id))]


def test_a_settlement_asks_again_where_a_link_broke() -> None:
    broker = Alone(links=2)
    broker.asks(SubscribeClient("a", wanted("x > 1"), "network"))
    broker(LinkDown(2))
    assert sends(broker.says(1, Settled(EventId(7, 1, 1)))) == [((1,), Settle(EventId(7, 1, 2)))]
    assert broker.says(1, Settled(EventId(7, 1, 2))) == [Reply("desk", Confirmed("a"))]

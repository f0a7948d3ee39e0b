"""Election along the links of a tree, in networks whose links come and go and keep order."""

from __future__ import annotations

from collections import deque
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from palio.routing.effects import Effect, Send
from palio.routing.election import Election
from palio.routing.messages import LOCAL, Candidate


class _Brokers:
    """Elections joined by links that deliver in order, one message at a time."""

    def __init__(self, ranks: list[int]) -> None:
        self.candidates = [Candidate(rank, node, 1) for node, rank in enumerate(ranks)]
        self.effects: list[list[Effect]] = [[] for _ in ranks]
        self.ways = [LOCAL] * len(ranks)
        self.elections = [
            Election(each, lambda _, way, node=node: self.ways.__setitem__(node, way), self.effects[node])
            for node, each in enumerate(self.candidates)
        ]
        self.queues: dict[tuple[int, int], deque[Candidate]] = {}  # by sender and receiver
        self.sent = 0

    def join(self, a: int, b: int) -> None:
        for one, other in ((a, b), (b, a)):
            self.queues[one, other] = deque()
            self.elections[one].open_link(other + 1)
        self.collect()

    def part(self, a: int, b: int) -> None:
        for one, other in ((a, b), (b, a)):
            del self.queues[one, other]
            self.elections[one].close_link(other + 1)
        self.collect()

    def collect(self) -> None:
        for node, effects in enumerate(self.effects):
            for each in effects:
                assert isinstance(each, Send)
                assert isinstance(each.message, Candidate)
                for link in each.links:
                    self.sent += 1
                    if (node, link - 1) in self.queues:
                        self.queues[node, link - 1].append(each.message)
            effects.clear()

    def step(self, random: Random) -> bool:
        ready = [pair for pair, queue in self.queues.items() if queue]
        if not ready:
            return False
        sender, receiver = random.choice(ready)
        self.elections[receiver].on_candidate(sender + 1, self.queues[sender, receiver].popleft())
        self.collect()
        return True


@given(st.integers(0, 2**32))
def test_every_part_elects_its_best_and_knows_the_way_to_it(seed: int) -> None:
    random = Random(seed)
    count = random.randrange(2, 9)
    brokers = _Brokers([random.choice([0, 1, 1, 1, 2]) for _ in range(count)])
    links = [(random.randrange(node), node) for node in range(1, count)]
    up: set[tuple[int, int]] = set()
    for _ in range(40):
        if random.random() < 0.3:
            link = random.choice(links)
            (brokers.part if link in up else brokers.join)(*link)
            up ^= {link}
        else:
            brokers.step(random)
    while brokers.step(random):
        pass
    for node in range(count):
        part = _part(node, up)
        winner = min(brokers.candidates[each] for each in part)
        assert brokers.elections[node].winner == winner
        way = brokers.ways[node]
        assert (way == LOCAL) is (winner.node == node)
        if way != LOCAL:
            assert winner.node in _part(way - 1, up - {(min(node, way - 1), max(node, way - 1))})


def test_nothing_is_sent_where_nothing_changes() -> None:
    brokers = _Brokers([1, 1, 1])
    brokers.join(0, 1)
    brokers.join(1, 2)
    while brokers.step(Random(0)):
        pass
    before = brokers.sent
    brokers.elections[1].on_candidate(1, brokers.candidates[0])
    brokers.collect()
    assert brokers.sent == before


def _part(node: int, links: set[tuple[int, int]]) -> set[int]:
    found, waiting = {node}, [node]
    while waiting:
        here = waiting.pop()
        for a, b in links:
            for one, other in ((a, b), (b, a)):
                if one == here and other not in found:
                    found.add(other)
                    waiting.append(other)
    return found

"""Rounds of one broker: what it observes, lists and corrects."""

from __future__ import annotations

from typing import Any

import pytest

from palio import InvalidArgument
from palio.routing.client_messages import SubscribeClient, UnsubscribeClient
from palio.routing.effects import Drop, Effect, LinkDown, SetTimer, TimerFired
from palio.routing.messages import Listing, Observe, Subscribe, Unsubscribe
from palio.routing.upkeep import stabilising
from palio.routing.upkeep.sketches import SketchShape, sketch_of
from palio.routing.upkeep.stabilising import STABILISATION_TIMER
from tests.routing.lone_broker import Alone, sends, subscription, wanted

ROUND = TimerFired(STABILISATION_TIMER)
NO_ENTRIES = sketch_of(b"", SketchShape(8, 1), 3)


def stabilised(links: int = 1, **options: Any) -> Alone:
    return Alone(links=links, tables="stabilising", options=options)


def entries(*texts: str) -> bytes:
    return b"".join(2 * wanted(text).digest for text in texts)


def corrections(effects: list[Effect]) -> tuple[set[str], set[str]]:
    """The filters that are sent and those that are withdrawn."""
    sent = [message for _, message in sends(effects)]
    names = {wanted(text).digest: text for text in ("x = 1", "x = 2", "x = 3", "x = 4")}
    return (
        {names[each.key] for each in sent if isinstance(each, Subscribe)},
        {names[each.key] for each in sent if isinstance(each, Unsubscribe)},
    )


def observations(effects: list[Effect]) -> list[Observe]:
    return [message for _, message in sends(effects) if isinstance(message, Observe)]


def test_a_round_observes_every_link_and_sets_the_next_timer() -> None:
    alone = stabilised(links=2, round_period=8.0)
    effects = alone(ROUND)
    assert len(observations(effects)) == 2
    [timer] = [each for each in effects if isinstance(each, SetTimer)]
    assert 6.0 <= timer.after <= 8.0
    assert timer.upkeep


def test_a_neighbour_with_the_same_entries_says_nothing() -> None:
    alone, other = stabilised(), stabilised()
    alone.asks(SubscribeClient("a", wanted("x = 1")))
    other.says(1, subscription("x = 1"))
    [observed] = observations(alone(ROUND))
    assert sends(other.says(1, observed)) == []


def test_a_neighbour_with_other_entries_lists_them() -> None:
    alone, other = stabilised(), stabilised()
    alone.asks(SubscribeClient("a", wanted("x = 1")))
    other.says(1, subscription("x = 2"))
    [observed] = observations(alone(ROUND))
    assert sends(other.says(1, observed)) == [((1,), Listing(1, 0, entries("x = 2")))]


def test_what_is_missing_is_sent_and_what_is_wrong_withdrawn() -> None:
    alone = stabilised()
    alone.asks(SubscribeClient("a", wanted("x = 1")), SubscribeClient("b", wanted("x = 2")))
    alone(ROUND)
    assert corrections(alone.says(1, Listing(1, 0, entries("x = 2", "x = 3")))) == ({"x = 1"}, {"x = 3"})


def test_an_entry_with_another_filter_is_replaced() -> None:
    alone = stabilised()
    alone.asks(SubscribeClient("a", wanted("x = 1")))
    alone(ROUND)
    wrong = wanted("x = 1").digest + wanted("x = 2").digest
    sent = [message for _, message in sends(alone.says(1, Listing(1, 0, wrong)))]
    assert sent == [Unsubscribe(wanted("x = 1").digest), subscription("x = 1")]


def test_a_correction_does_not_undo_what_changed_since_the_round_began() -> None:
    """The race in which the printed protocol ends with {1, 2}, and the tables should have {2, 3}."""
    alone = stabilised()
    alone.asks(SubscribeClient("a", wanted("x = 1")), SubscribeClient("b", wanted("x = 2")))
    alone(ROUND)
    alone.asks(UnsubscribeClient("a"), SubscribeClient("c", wanted("x = 3")))
    assert corrections(alone.says(1, Listing(1, 0, entries("x = 2", "x = 3")))) == (set(), set())


def test_a_listing_of_another_round_is_dropped() -> None:
    alone = stabilised()
    alone.asks(SubscribeClient("a", wanted("x = 1")))
    alone(ROUND)
    for listing in (Listing(7, 0, b""), Listing(1, 0, b"odd")):
        effects = alone.says(1, listing)
        assert sends(effects) == []
        assert [each.reason for each in effects if isinstance(each, Drop)] == ["listing of another round"]


def test_sketches_of_other_tables_are_dropped() -> None:
    effects = stabilised().says(1, Observe(1, 3, 1, (NO_ENTRIES,)))
    assert [each.reason for each in effects if isinstance(each, Drop)]


class SlowChain:
    """Shen's chain of four brokers, in rounds that all of them make at once: what a correction makes its receiver tell
    others is lost, as in the worked example without propagation within a round."""

    def __init__(self) -> None:
        self.brokers = [stabilised(links=2) for _ in range(4)]  # link 1 leads down, link 2 leads up
        for at, unused in ((0, 1), (3, 2)):
            self.brokers[at](LinkDown(unused))
        self.corrections = 0

    def other_end(self, at: int, link: int) -> tuple[int, int]:
        return (at - 1, 2) if link == 1 else (at + 1, 1)

    def deliver(self, at: int, effects: list[Effect]) -> list[tuple[int, list[Effect]]]:
        """What the neighbours answer."""
        answers = []
        for links, message in sends(effects):
            for link in links:
                other, back = self.other_end(at, link)
                answers.append((other, self.brokers[other].says(back, message)))
        return answers

    def round(self) -> None:
        observed = [(at, each(ROUND)) for at, each in enumerate(self.brokers)]
        listed = [answer for at, effects in observed for answer in self.deliver(at, effects)]
        corrected = [answer for at, effects in listed for answer in self.deliver(at, effects)]
        for at, effects in corrected:
            self.corrections += bool(sends(effects))
            self.deliver(at, effects)

    def columns(self) -> list[set[bytes]]:
        """The entries that each broker but the first has from the one below."""
        return [set(each.broker.tables.remote_subscriptions.get(1, {})) for each in self.brokers[1:]]


def test_without_propagation_a_missing_entry_is_right_after_as_many_rounds_as_the_tree_is_wide() -> None:
    """Vector TV-S1: three rounds, three corrections, and the fourth round corrects nothing."""
    chain = SlowChain()
    chain.brokers[0].asks(SubscribeClient("a", wanted("x = 7")))
    for rounds in range(4):
        assert chain.columns() == [{wanted("x = 7").digest}] * rounds + [set()] * (3 - rounds)
        chain.round()
    assert chain.corrections == 3


def test_without_propagation_a_ghost_is_gone_after_as_many_rounds_as_the_tree_is_wide() -> None:
    """Vector TV-S2: nobody has the subscription that all tables know."""
    chain = SlowChain()
    for each in chain.brokers[1:]:
        each.says(1, subscription("x = 9"))
    for rounds in range(4):
        assert chain.columns() == [set()] * rounds + [{wanted("x = 9").digest}] * (3 - rounds)
        chain.round()
    assert chain.corrections == 3


def test_hard_tables_are_not_compared() -> None:
    effects = Alone(links=1).says(1, Observe(1, 3, 1, (NO_ENTRIES, NO_ENTRIES)), Listing(1, 0, b""))
    assert sum(isinstance(each, Drop) for each in effects) == 2


def test_a_long_listing_comes_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stabilising, "_PAGE_ENTRIES", 2)
    alone, other = stabilised(), stabilised()
    texts = [f"x = {number}" for number in range(1, 6)]
    other.says(1, *map(subscription, texts))
    alone.asks(SubscribeClient("a", wanted("x = 4")))
    [observed] = observations(alone(ROUND))
    pages = [message for _, message in sends(other.says(1, observed))]
    assert [(len(each.entries) // 32, each.is_last) for each in pages] == [(2, False), (2, False), (1, True)]
    sent = [message for _, message in sends(alone.says(1, *pages))]
    assert {each.key for each in sent if isinstance(each, Unsubscribe)} == {
        wanted(text).digest for text in texts if text != "x = 4"
    }
    assert not any(isinstance(each, Subscribe) for each in sent)


def test_a_rebuild_takes_its_entries_in_slices() -> None:
    alone = stabilised(rebuild_slice=3)
    alone.says(1, *(subscription(f"x = {number}") for number in range(10)))
    batches = 1
    while not observations(alone(ROUND)):
        batches += 1
    assert batches == 4
    assert len(alone.broker.tables.remote_subscriptions[1]) == 10


def test_what_comes_during_a_rebuild_is_in_the_tables_after_it() -> None:
    alone = stabilised(links=2, rebuild_slice=1)
    alone.says(1, *(subscription(f"x = {number}") for number in range(1, 4)))
    alone(ROUND)
    alone.says(1, Unsubscribe(wanted("x = 1").digest), subscription("x = 4"))
    alone.asks(SubscribeClient("a", wanted("x = 2")))
    while not observations(alone(ROUND)):
        pass
    tables = alone.broker.tables
    assert {str(each) for each in tables.remote_subscriptions[1].values()} == {"x = 2", "x = 3", "x = 4"}
    assert {str(each) for each in tables.told_subscriptions(2).values()} == {"x = 2", "x = 3", "x = 4"}
    assert {str(each) for each in tables.told_subscriptions(1).values()} == {"x = 2"}


def test_tables_that_contradict_each_other_are_rebuilt_at_once() -> None:
    alone = stabilised(links=2)
    alone.says(1, subscription("x = 1"))
    alone.broker.tables.subscription_updates._sources.clear()
    effects = alone.says(1, Unsubscribe(wanted("x = 1").digest))
    assert len(observations(effects)) == 2
    assert alone.broker.tables.told_subscriptions(2) == {}


def test_observations_count_the_brokers_behind_each_link() -> None:
    alone = stabilised(links=3)
    for link, brokers in ((1, 4), (2, 5), (3, 1)):
        alone.says(link, Observe(1, 3, brokers, (NO_ENTRIES, NO_ENTRIES)))
    assert [each.brokers for each in observations(alone(ROUND))] == [7, 6, 10]


def test_a_wrong_count_of_brokers_is_never_sent() -> None:
    alone = stabilised(links=2)
    alone.broker.stabiliser._sides.update({1: -7, 2: 2**80})  # type: ignore[union-attr]
    assert [each.brokers for each in observations(alone(ROUND))] == [1 + 2**32, 2]


def test_hashes_without_bits_are_refused_before_the_broker_starts() -> None:
    with pytest.raises(InvalidArgument, match="sketch_hashes goes with sketch_bits"):
        stabilised(sketch_hashes=2)

"""Events that wait at owners: bounded, in order, moved with their keys; and checks of what other peers send."""

from __future__ import annotations

import pytest

from palio.errors import WireError
from palio.events import Event
from palio.filters.filter import Filter
from palio.peers.kept_events import KeptEvents
from palio.peers.key_space import KeySpace
from palio.peers.message_checks import check_message
from palio.peers.messages import (
    Cast,
    Copies,
    Digest,
    Interest,
    Kept,
    Lookup,
    Message,
    Neighbours,
    Occurrence,
    Replicate,
    Taken,
    Transfer,
    identity,
)
from palio.peers.rendezvous_mappings import Arc, Key, mapping_of
from palio.peers.ring import Ring
from palio.peers.ring_description import RingDescription, decode_description, plan_ring
from palio.routing import codec

PRICES = [Event({"price": price}) for price in range(64)]
KEYS = KeySpace(Ring(16), mapping_of("selective-attribute", (), PRICES, 16))


def kept(number: int, id: str = "desk", cell: int = 0) -> Kept:
    return Kept(id, Event({"n": number}, id=str(number)), Key(0, cell))


def test_the_oldest_go_first_where_there_is_no_room() -> None:
    store = KeptEvents(KEYS, max_events=3)
    store.add(kept(number) for number in range(5))
    assert [each.event["n"] for each in store.of("desk")] == [2, 3, 4]
    assert store.dropped == 2
    small = KeptEvents(KEYS, max_bytes=2 * len(codec.encode_event(kept(1).event)))
    small.add(kept(number) for number in range(5))
    assert [each.event["n"] for each in small.of("desk")] == [3, 4]


def test_what_a_subscriber_has_is_not_brought_back_by_an_old_copy() -> None:
    store, pair = KeptEvents(KEYS), ("desk", identity(kept(1).event))
    store.add((kept(1), kept(1, "other")))
    store.release((pair,))
    store.add((kept(1), kept(1, "other")))
    assert not store.has("desk")
    assert store.has("other")
    store.release(("desk", str(number)) for number in range(20_000))
    assert len(store._released) < 20_000


def test_events_are_kept_once_and_apart_by_subscription_and_source() -> None:
    store = KeptEvents(KEYS)
    store.add((kept(1), kept(1), kept(1, "other"), Kept("desk", Event({"n": 1}, id="1", source="s"), Key(0, 0))))
    assert len(store) == 3
    store.remove((("desk", identity(kept(1).event)), ("desk", "unknown")))
    assert [each.event.source for each in store.of("desk")] == ["s"]
    store.forget("desk")
    assert not store.has("desk")
    assert store.has("other")


def test_a_copy_of_an_arc_is_taken_over_as_a_whole() -> None:
    store = KeptEvents(KEYS)
    first, last = kept(1, cell=0), kept(2, cell=KEYS.axis_size(0) - 1)
    store.add((first, last))
    low = KEYS.position_of(first.key)
    assert store.within(((low, low),)) == (first,)
    store.replace(((low, low),), (kept(3, cell=0),))
    assert [each.event["n"] for each in store.of("desk")] == [2, 3]
    store.retain(((low, low),))
    assert [each.event["n"] for each in store.of("desk")] == [3]


INTEREST = Interest("a", 1, 5, Filter.parse("price > 3"), (Arc(0, 1, 2),), 60.0)


@pytest.mark.parametrize(
    "message",
    [
        Cast(((5, 3),), Lookup(), 1, 1, 1, False, 0),
        Cast(((1, 3), (2, 5)), Lookup(), 1, 1, 1, False, 0),
        Cast(((0, 1 << 16),), Lookup(), 1, 1, 1, False, 0),
        Cast(((0, 1),), Lookup(), 1 << 16, 1, 1, False, 0),
        Cast(((0, 1),), Occurrence(PRICES[0], (Key(0, 10_000),)), 1, 1, 1, False, 0),
        Cast(((0, 1),), Occurrence(PRICES[0], (Key(9, 0),)), 1, 1, 1, False, 0),
        Cast(((0, 1),), Interest("a", 1, -5, INTEREST.wanted, (), 60.0), 1, 1, 1, False, 0),
        Taken(1, ((-1, 3),), None, (), 0),
        Neighbours(1 << 20, ()),
        Neighbours(None, (1 << 20,)),
        Digest(-1, b""),
        Copies(1 << 16, ()),
        Transfer(None, (Interest("a", 1, 5, INTEREST.wanted, (Arc(0, 3, 2),), 60.0),)),
        Transfer(None, (Interest("a", 1, 5, INTEREST.wanted, (), 0.0),)),
        Replicate(1, (), (kept(1, cell=10_000),)),
    ],
)
def test_what_no_ring_has_is_refused(message: Message) -> None:
    with pytest.raises(WireError):
        check_message(KEYS, message)


def test_what_peers_send_passes() -> None:
    for message in (
        Cast(((0, 3), (7, 9)), INTEREST, 1, 1, 1, False, 0),
        Cast(((0, 3),), Occurrence(PRICES[3], KEYS.keys_of(PRICES[3])), 1, 1, 1, False, 0),
        Transfer(3, (INTEREST,), (kept(1),)),
        Copies(3, (INTEREST,)),
    ):
        check_message(KEYS, message)


def test_a_description_makes_the_same_keys_at_every_peer() -> None:
    conditions = [Filter.parse(f"price = {price}") for price in range(40)]
    for mapping in (None, "attribute-split", "key-space-split", "selective-attribute", "any-attribute"):
        made = plan_ring(conditions, PRICES, 50, mapping=mapping)
        got = decode_description(made.encode())
        assert got.digest == made.digest
        for event in PRICES[:8]:
            assert got.key_space().keys_of(event) == made.key_space().keys_of(event)
        assert got.key_space().arcs_of(conditions[3]) == made.key_space().arcs_of(conditions[3])
    assert plan_ring(conditions, PRICES, 50).mapping != "any-attribute", "there is something to choose by"
    assert plan_ring((), PRICES, 50).mapping == "any-attribute"


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xc1", RingDescription().encode()[:-1]])
def test_a_description_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_description(data)

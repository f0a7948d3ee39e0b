"""Nodes: a broker with its link sessions."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from palio import Event, Filter
from palio.routing import codec
from palio.routing.client_messages import PublishClient, SubscribeClient
from palio.routing.codec import encode_event
from palio.routing.combinations import Combination
from palio.routing.effects import (
    Close,
    Deliver,
    Drop,
    Persisted,
    Recipient,
    Requested,
    TimerFired,
)
from palio.routing.link_sessions import (
    NetworkConstants,
    Transmit,
)
from palio.routing.messages import (
    Advertise,
    Announce,
    Begin,
    EventId,
    Grant,
    Hello,
    Offer,
    Packet,
    Publish,
    Request,
    Settle,
    Settled,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from palio.routing.node import Arrived, Connected, Node

CONSTANTS = NetworkConstants.of(Combination())


FRAMES: list[Any] = [
    Hello(2, 1, CONSTANTS.values, 10, 1, (1 << 32) + 1),
    Hello(2, 1, {}, -5),
    Grant(-3),
    Grant(2**62),
    Packet((1 << 32) + 1, 1, 5, 5, 5, 0, 1, codec.encode(Begin())),
    Packet((1 << 32) + 1, 1, 0, 0, 0, 1, 1, codec.encode(Grant(1))),
    Packet((1 << 32) + 1, 1, 0, 0, 0, 7, 2, b"nothing"),
    Begin(),
    Subscribe(b"0" * 16, Filter.parse("x > 1")),
    Subscribe(b"0" * 16, Filter.parse("y > 1")),
    Unsubscribe(b"0" * 16),
    Advertise(b"1" * 16, Filter.parse("x > 1")),
    Unadvertise(b"1" * 16),
    Settle(EventId(3, 3, 3)),
    Settled(EventId(1, 1, 1)),
    Announce("trees", 7, b"no tree"),
    Offer(-1, 2**62, 3, 4),
    Request(1, 2**62),
    Publish(EventId(2, 1, 1), b"no body"),
    Publish(EventId(2, 1, 2), encode_event(Event.from_dict({"x": 2}, id="a")), b"\x03no header"),
]


@pytest.mark.parametrize("options", [{}, {"session": True}, {"circles": True}])
@pytest.mark.parametrize("forwarding", ["content", "reuse", "bloom", "prefix"])
def test_whatever_a_neighbour_says_no_node_falls_over(forwarding: str, options: dict[str, Any]) -> None:
    for seed in range(20):
        random = Random(seed)
        combination = Combination("identity", forwarding, options=options)
        node = Node(1, 1, combination, CONSTANTS)
        node.handle_batch([Connected(1), Connected(2)], 0.0)
        node.handle_batch([Requested("desk", SubscribeClient("a", Filter.parse("x > 1")), 0.0)], 0.0)
        node.handle_batch([Persisted(1)], 0.0)
        for time in range(60):
            data = bytearray(codec.encode(random.choice(FRAMES)))
            if random.random() < 0.3:
                data[random.randrange(len(data))] = random.randrange(256)
            fired = [TimerFired("link 1")] if random.random() < 0.1 else []
            node.handle_batch([Arrived(random.choice([1, 1, 2, 3]), bytes(data), time), *fired], float(time))
        published = PublishClient(encode_event(Event.from_dict({"x": 2}, id="b")))
        effects = node.handle_batch([Requested("feed", published, 60.0)], 60.0)
        assert [each.clients for each in effects if isinstance(each, Deliver)] == [(Recipient("desk", ("a",)),)]


def linked(*links: int) -> Node:
    """A node whose neighbours have greeted, over streams."""
    node = Node(1, 1, Combination(), CONSTANTS)
    node.handle_batch([Connected(link) for link in links], 0.0)
    for link in links:
        hello = codec.encode(Hello(10 + link, 1, CONSTANTS.values, 100))
        node.handle_batch([Arrived(link, hello, 0.0), Arrived(link, codec.encode(Begin()), 0.0)], 0.0)
    return node


def test_a_message_to_several_streams_is_encoded_once_and_transmitted_by_one_effect() -> None:
    node = linked(1, 2, 3)
    wanted = Filter.parse("x > 1")
    effects = node.handle_batch([Arrived(1, codec.encode(Subscribe(wanted.digest, wanted)), 1.0)], 1.0)
    sent = [each for each in effects if isinstance(each, Transmit)]
    assert [(each.links, codec.decode(each.data)) for each in sent] == [((2, 3), Subscribe(wanted.digest, wanted))]


def test_bytes_that_are_no_frame_close_their_link_and_no_other() -> None:
    node = linked(1, 2)
    wanted = Filter.parse("x > 1")
    good = codec.encode(Subscribe(wanted.digest, wanted))
    effects = node.handle_batch([Arrived(1, b"\xc1", 1.0), Arrived(2, good, 1.0)], 1.0)
    assert [each.link for each in effects if isinstance(each, Close)] == [1]
    assert [each.links for each in effects if isinstance(each, Transmit)] == [(1,)]  # passed on all the same


def test_bytes_of_a_link_that_was_never_connected_are_dropped() -> None:
    effects = linked(1).handle_batch([Arrived(9, codec.encode(Begin()), 1.0)], 1.0)
    assert effects == [Drop("link not connected")]

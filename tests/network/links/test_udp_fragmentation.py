"""Fragmentation: long messages arrive whole over a lossy datagram link, or not at all."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import WireError
from palio.network.links.udp import Reassembler, fragments


@given(
    messages=st.lists(st.binary(min_size=1, max_size=400), min_size=1, max_size=6),
    largest=st.integers(33, 120),
    seed=st.integers(0, 2**32),
)
def test_what_comes_is_what_was_sent(messages: list[bytes], largest: int, seed: int) -> None:
    random = Random(seed)
    sent = [(number, piece) for number, message in enumerate(messages) for piece in fragments(message, number, largest)]
    assert all(len(piece) <= largest for _, piece in sent)
    came = [each for each in sent for _ in range(random.choice((0, 1, 1, 1, 2)))]
    random.shuffle(came)
    pieces = Reassembler()
    whole = {number: message for number, piece in came if (message := pieces.put(piece)) is not None}
    for number, message in enumerate(messages):
        if {piece for of, piece in came if of == number} == {piece for of, piece in sent if of == number}:
            assert whole[number] == message
        else:
            assert number not in whole


def test_what_waits_is_bounded_and_the_oldest_goes_first() -> None:
    pieces = Reassembler(max_bytes=1_000)
    first, last = fragments(b"a" * 150, 0, 132)
    assert pieces.put(first) is None
    for number in range(1, 500):
        assert pieces.put(next(fragments(bytes(150), number, 132))) is None
        # The bounds on memory have no public figure.
        assert pieces._bytes <= 1_000
    assert pieces.put(last) is None  # the first piece of it is not there any more
    for number in range(1_000, 2_000):
        assert pieces.put(next(fragments(bytes(2), number, 33))) is None
    # As above: a bound on memory.
    assert len(pieces._unfinished) <= 64


def test_what_is_no_piece_is_told() -> None:
    with pytest.raises(WireError):
        Reassembler().put(b"\x95\x70nothing")

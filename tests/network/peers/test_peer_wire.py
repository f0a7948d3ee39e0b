"""Frames between peers: what is too long for one frame comes in fragments, bounded and whole."""

from __future__ import annotations

import pytest

from palio import Event, WireError
from palio.network import protocol
from palio.network.peers.wire import MessageReader, PeerFragment, PeerMessage, frames_of
from palio.peers.messages import Copies, Kept, Notified
from palio.peers.rendezvous_mappings import Key
from palio.routing.codec import MAX_FRAME_BYTES


def long_message(count: int) -> PeerMessage:
    body = "x" * 900_000
    kept = tuple(Kept("desk", Event({"body": body}, id=str(number)), Key(0, 1)) for number in range(count))
    return PeerMessage(1, 2, Copies(5, (), kept))


def test_a_message_longer_than_a_frame_arrives_whole() -> None:
    sent = long_message(40)
    frames = list(frames_of(sent))
    assert sum(map(len, frames)) > MAX_FRAME_BYTES
    assert all(len(each) < MAX_FRAME_BYTES for each in frames)
    reader = MessageReader()
    arrived = [reader.read(each) for each in [*frames, *frames_of(PeerMessage(1, 2, Notified((7,))))]]
    assert [each for each in arrived if each is not None] == [sent, PeerMessage(1, 2, Notified((7,)))]


def test_fragments_are_bounded_and_do_not_mix_with_messages() -> None:
    frames = list(frames_of(long_message(6)))
    short = MessageReader(max_bytes=2_000_000)
    with pytest.raises(WireError, match="more than one message between peers may have"):
        assert not any(map(short.read, frames))
    mixed = MessageReader()
    mixed.read(frames[0])
    with pytest.raises(WireError, match="within another"):
        mixed.read(protocol.encode(PeerMessage(1, 2, Notified((7,)))))
    with pytest.raises(WireError):
        MessageReader().read(protocol.encode(PeerFragment(b"\xc1", True)))
    with pytest.raises(WireError, match="empty"):
        MessageReader().read(protocol.encode(PeerFragment(b"", False)))

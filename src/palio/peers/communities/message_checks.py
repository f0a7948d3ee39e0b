"""Checks of messages from other peers: what decodes may still name peers, members or ways that cannot be."""

from __future__ import annotations

from typing import Final

from palio.errors import WireError
from palio.peers.communities.messages import ANY_MEMBER, Enter, Forward, Message, Returned, mentioned

_MAX_POSITION: Final = (1 << 64) - 1


def check_message(sender: int, message: Message) -> None:
    """`WireError` for a message that its sender cannot have sent, or that names what cannot be."""
    if message.sender[0] != sender:
        raise WireError("a message in the name of another peer")
    if not all(0 <= each <= _MAX_POSITION for each in mentioned(message)):
        raise WireError("a position that no peer has")
    if message.to < ANY_MEMBER:
        raise WireError(f"a member {message.to} that no peer has")
    if isinstance(message, Enter | Forward) and message.hops < 0:
        raise WireError(f"a way of {message.hops} steps")
    if isinstance(message, Returned):
        check_message(message.message.sender[0], message.message)

"""Wire protocol between peers: greeting, answer and the frame of a message, over the connections of brokers.

`PeerHello` is the first frame of a connection, where a client's is `ClientHello`. The peer that dialled sends, the
other one only receives: what goes to a peer goes over a connection to the address that its position is the hash of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, TypeAlias, get_args

from msgspec import Meta, Struct

from palio.errors import InvalidArgument, WireError
from palio.network import protocol
from palio.network.addresses import Address
from palio.network.protocol import MAX_TOKEN_LENGTH, PEER_HELLO, VERSION, Goodbye, Ping
from palio.network.security.tls import is_loopback
from palio.peers import messages as ring_messages
from palio.peers.communities import messages as community_messages
from palio.peers.ring import Ring
from palio.peers.ring_description import RING_BITS
from palio.routing import codec

MAX_ADDRESS_LENGTH: Final = 300
MAX_VIRTUAL_NODES: Final = 256  # of one peer
MAX_REFERENCES: Final = 1_024  # of peers, in one message
MAX_MESSAGE_BYTES: Final = 512 * 1024 * 1024  # of a whole arc, subscriptions and kept events
_FRAGMENT_BYTES: Final = 4 * 1024 * 1024

AnyMessage: TypeAlias = ring_messages.Message | community_messages.Message

_RING: Final = Ring(RING_BITS)
_RING_MESSAGES: Final = frozenset(get_args(ring_messages.Message))


class PeerReference(Struct, frozen=True, array_like=True):
    """A node of a peer in one of its lives: where it listens, its number and its incarnation, and which of its virtual
    nodes it is. Its position is a hash of all that.

    So a reference that came from anybody is either that of the position or is not: none can be replaced by a forged
    one. A peer that restarts is a new node on the ring.
    """

    address: Annotated[str, Meta(max_length=MAX_ADDRESS_LENGTH)]
    number: Annotated[int, Meta(ge=0)]
    incarnation: Annotated[int, Meta(ge=0)]
    place: Annotated[int, Meta(ge=0, lt=MAX_VIRTUAL_NODES)] = 0

    @property
    def position(self) -> int:
        return _RING.position_of(f"{self.address} {self.number} {self.incarnation} {self.place}")


class PeerHello(Struct, frozen=True, array_like=True, tag=PEER_HELLO):
    """Greeting of a peer to the node at a position; `ring` is the digest of its ring, empty where it is to
    learn that."""

    version: int
    reference: PeerReference
    token: Annotated[str, Meta(max_length=MAX_TOKEN_LENGTH)] = ""
    ring: Annotated[bytes, Meta(max_length=64)] = b""
    to: Annotated[int, Meta(ge=0)] = 0


class PeerWelcome(Struct, frozen=True, array_like=True, tag=71):
    """Answer to a greeting: the peer that listens here, and the description of its ring where that was asked for."""

    version: int
    reference: PeerReference
    description: bytes = b""


class PeerMessage(Struct, frozen=True, array_like=True, tag=72):
    """A message of one peer to another, with references of peers that it names."""

    to: int
    sender: int
    message: AnyMessage
    references: Annotated[tuple[PeerReference, ...], Meta(max_length=MAX_REFERENCES)] = ()


class PeerFragment(Struct, frozen=True, array_like=True, tag=73):
    """A part of a message that is too long for one frame: an arc with very many subscriptions or kept events."""

    data: bytes
    is_last: bool


decode_hello = codec.reader(PeerHello)
decode_answer = codec.reader(PeerWelcome | Ping | Goodbye)
_decode_frame = codec.reader(PeerMessage | PeerFragment)
_decode_whole = codec.reader(PeerMessage, MAX_MESSAGE_BYTES)


def frames_of(message: PeerMessage) -> Iterator[bytes]:
    """The frames of a message, in the order in which they are sent."""
    data = protocol.encode(message)
    if len(data) <= _FRAGMENT_BYTES:
        yield data
        return
    for start in range(0, len(data), _FRAGMENT_BYTES):
        end = start + _FRAGMENT_BYTES
        yield protocol.encode(PeerFragment(data[start:end], end >= len(data)))


class MessageReader:
    """Reader of the messages of one connection, which puts fragments together."""

    def __init__(self, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._bytes = 0

    def read(self, frame: bytes) -> PeerMessage | None:
        """The message that a frame completes."""
        found = _decode_frame(frame)
        if isinstance(found, PeerMessage):
            if self._parts:
                raise WireError("a message within another one")
            return found
        if not found.data:
            raise WireError("an empty fragment")
        self._parts.append(found.data)
        self._bytes += len(found.data)
        if self._bytes > self._max_bytes:
            raise WireError(f"{self._bytes:,} bytes are more than one message between peers may have")
        if not found.is_last:
            return None
        whole, self._parts, self._bytes = b"".join(self._parts), [], 0
        message: PeerMessage = _decode_whole(whole)
        return message


def mentioned(message: AnyMessage) -> set[int]:
    """The peers that a message names: whoever gets it may want to send to them."""
    of_ring = type(message) in _RING_MESSAGES
    return ring_messages.mentioned(message) if of_ring else community_messages.mentioned(message)  # type: ignore[arg-type]


def check_version(version: int) -> None:
    if version != VERSION:
        raise WireError(f"version {version} is spoken there and {VERSION} here")


def dialled_address(reference: PeerReference, own: Address) -> Address:
    """Where a peer listens, if this one may connect there; `WireError` otherwise.

    Addresses come from other peers. One that named any place could make this peer connect to services that only it can
    reach: so none without TLS where this one has it, and none on this machine unless this one's own address is.
    """
    try:
        address = Address.parse(reference.address)
    except InvalidArgument as error:
        raise WireError(f"the address of a peer: {error}") from None
    if address.scheme != own.scheme:
        raise WireError(f"a peer at {address}, where this ring speaks {own.scheme}")
    if address.is_anywhere or address.port == 0:
        raise WireError(f"a peer at {address}, where nobody can connect to")
    if is_loopback(address.host) != is_loopback(own.host):
        raise WireError(f"a peer at {address}, while this one is at {own}: they cannot reach each other")
    return address

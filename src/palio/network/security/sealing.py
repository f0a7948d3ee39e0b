"""How does a datagram prove who sent it? By a key that both ends agreed on over TLS, and a number that is used once.

A sealed datagram is a byte that begins no frame, the key's id, the datagram's number, and its content under
ChaCha20-Poly1305 (RFC 8439 §2.8), which proves what stands before the content as well. Each direction has a key of its
own, so that a number is a nonce. What was seen before is told by a window that slides, as in RFC 4303 §3.4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from struct import Struct
from typing import Final

from palio.errors import InvalidArgument, MissingExtra, WireError
from palio.network.addresses import Address
from palio.network.choices import check_lowest, check_positive

ID_BYTES: Final = 8
SECRET_BYTES: Final = 32
_HEAD: Final = Struct(">B8sQ")
_SEALED: Final = 0xC1  # MessagePack never uses it
_WINDOW: Final = 1_024  # datagrams that may overtake one another
OVERHEAD: Final = _HEAD.size + 16
NOT_SEALED: Final = "datagram not sealed"
FORGED: Final = "datagram forged"
REPLAYED: Final = "datagram replayed"


@dataclass(frozen=True, slots=True)
class KeySettings:
    """How long keys for datagrams are good, and where they are agreed on."""

    seconds: float = 3_600.0
    """After half of this a new key is agreed on."""
    datagrams: int = 2**32
    """That either end sends with one key; after half of them a new one is agreed on."""
    at: Mapping[str, Address] = field(default_factory=dict)
    """Where a broker that is dialled by datagrams listens with TLS; at the same host and port where it is not said."""

    def __post_init__(self) -> None:
        check_positive(self, "seconds")
        check_lowest(self, datagrams=2)
        for address, at in self.at.items():
            if Address.parse(address).scheme != "palio+udp" or not at.is_secure:
                raise InvalidArgument(f"keys for a palio+udp:// address come from a palio+tls:// one, not {at}")

    def place_of(self, address: Address) -> Address:
        """Where the key for an address is agreed on."""
        return self.at.get(str(address)) or Address(address.host, address.port, "palio+tls")


@dataclass(frozen=True, slots=True, repr=False)
class Key:
    """What both ends know, once they have agreed; each brought a half of it."""

    id: bytes
    given: bytes
    asked: bytes
    seconds: float
    datagrams: int

    def of_direction(self, name: bytes) -> bytes:
        """The key for what one end sends."""
        return blake2b(self.asked, digest_size=SECRET_BYTES, key=self.given, person=name).digest()


class Seal:
    """One end of a key: seals what this end sends, opens what the other one sent, once."""

    __slots__ = ("_ends", "_half", "_in", "_last", "_most", "_out", "_seen", "_sent", "id")

    def __init__(self, key: Key, *, dials: bool, now: float) -> None:
        """`dials` is which of the two ends this is; `now` is of a clock that never jumps."""
        try:
            from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
        except ImportError:
            raise MissingExtra("datagrams that leave this machine", "udp") from None
        out, into = (b"dials", b"listens") if dials else (b"listens", b"dials")
        self.id = key.id
        self._out = ChaCha20Poly1305(key.of_direction(out))
        self._in = ChaCha20Poly1305(key.of_direction(into))
        self._half = now + key.seconds / 2
        self._ends = now + key.seconds
        self._most = key.datagrams
        self._sent = 0
        self._last = 0  # the highest number that was opened
        self._seen = 0  # of those up to it, bit by bit

    def is_over(self, now: float) -> bool:
        """Whether nothing may be sealed or opened any more."""
        return now >= self._ends or self._sent >= self._most

    def is_half_over(self, now: float) -> bool:
        """Whether it is time for another key."""
        return now >= self._half or 2 * max(self._sent, self._last) >= self._most

    def end_by(self, time: float) -> None:
        """Be over then, if not before."""
        self._ends = min(self._ends, time)

    def seal(self, content: bytes) -> bytes:
        """A datagram with this content; the seal is not over."""
        self._sent += 1
        head = _HEAD.pack(_SEALED, self.id, self._sent)
        return head + self._out.encrypt(_nonce(self._sent), content, head)

    def open(self, datagram: bytes) -> bytes:
        """The content of a datagram that has this key's id; `WireError` for one that the other end did not send now."""
        from cryptography.exceptions import InvalidTag

        _, _, number = _HEAD.unpack_from(datagram)
        if not 0 < number <= self._most or self._was_seen(number):
            raise WireError(REPLAYED)
        try:
            content = self._in.decrypt(_nonce(number), datagram[_HEAD.size :], datagram[: _HEAD.size])
        except InvalidTag:
            raise WireError(FORGED) from None
        self._note(number)
        return content

    def _was_seen(self, number: int) -> bool:
        """Whether a datagram came before, or is too old for that to be known."""
        behind = self._last - number
        return behind >= 0 and (behind >= _WINDOW or bool(self._seen >> behind & 1))

    def _note(self, number: int) -> None:
        ahead = number - self._last
        if ahead > 0:
            self._seen = (self._seen << min(ahead, _WINDOW) | 1) & (1 << _WINDOW) - 1
            self._last = number
        else:
            self._seen |= 1 << -ahead


def id_of(datagram: bytes) -> bytes:
    """The id of the key that a datagram says it is sealed with; `WireError` where it is not sealed at all."""
    if len(datagram) < OVERHEAD or datagram[0] != _SEALED:
        raise WireError(NOT_SEALED)
    return datagram[1 : 1 + ID_BYTES]


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")

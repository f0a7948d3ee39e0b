"""Keys of sealed datagrams: the seal of one key, the registry of issued keys, and their exchange over TLS.

A sealed datagram is a byte that begins no frame, the id of the key, the number of the datagram, and its content under
ChaCha20-Poly1305 (RFC 8439 §2.8), which authenticates what stands before the content too. Each direction has a key of
its own, so that a number serves as nonce. Replays are recognised by a sliding window, as in RFC 4303 §3.4.3. The
dialling end requests a key over TLS, where both ends authenticate themselves.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, Final

from palio.errors import InvalidArgument, MissingExtra, Refused, WireError
from palio.network import protocol
from palio.network.addresses import Address
from palio.network.channel import CONNECT_TIMEOUT_SECONDS, FrameReader, frame_header
from palio.network.protocol import KEY_ID_BYTES, KEY_SECRET_BYTES, AskKey, BrokerHello, Goodbye, KeyGiven
from palio.network.security.authorization import Principal
from palio.network.settings_validation import check_minimum, check_positive

if TYPE_CHECKING:
    from palio.network.links.sealed_transport import SealedTransport

_HEADER: Final = Struct(">B8sQ")
_SEALED_MARK: Final = 0xC1  # the one byte that MessagePack never uses
_REPLAY_WINDOW: Final = 1_024  # datagrams by which one may be late
SEAL_OVERHEAD_BYTES: Final = _HEADER.size + 16
_MAX_ANSWER_BYTES: Final = 64 * 1024
KEY_OVERLAP_SECONDS: Final = 10.0  # in which datagrams under the previous key may still arrive
_MAX_KEYS_PER_PRINCIPAL: Final = 64  # the oldest are forgotten
UNKNOWN_KEY: Final = "datagram of an unknown key"
NOT_SEALED: Final = "datagram not sealed"
FORGED: Final = "datagram forged"
REPLAYED: Final = "datagram replayed"


@dataclass(frozen=True, slots=True)
class KeySettings:
    """Lifetime of datagram keys, and where they are exchanged."""

    seconds: float = 3_600.0
    """Lifetime of a key; it is replaced after half of it."""
    datagrams: int = 2**32
    """Datagrams that one end may send with one key; it is replaced after half of them."""
    at: Mapping[str, Address] = field(default_factory=dict)
    """TLS address of each broker dialled over datagrams; by default it has the same host and port."""

    def __post_init__(self) -> None:
        check_positive(self, "seconds")
        check_minimum(self, datagrams=2)
        for address, at in self.at.items():
            if Address.parse(address).scheme != "palio+udp" or not at.is_secure:
                raise InvalidArgument(f"keys for a palio+udp:// address come from a palio+tls:// one, not {at}")

    def exchange_address(self, address: Address) -> Address:
        """The TLS address at which the key for a datagram address is exchanged."""
        return self.at.get(str(address)) or Address(address.host, address.port, "palio+tls")


@dataclass(frozen=True, slots=True, repr=False)
class SharedKey:
    """A shared secret, of which each end contributed a half."""

    id: bytes
    issued: bytes
    asked: bytes
    seconds: float
    datagrams: int

    def of_direction(self, name: bytes) -> bytes:
        """The derived key of one direction."""
        return blake2b(self.asked, digest_size=KEY_SECRET_BYTES, key=self.issued, person=name).digest()


class Seal:
    """One end of a key: seals outgoing datagrams, opens incoming ones, each once."""

    __slots__ = (
        "_expiry_time",
        "_highest",
        "_in",
        "_max_datagrams",
        "_out",
        "_renewal_time",
        "_seen",
        "_sent_count",
        "id",
    )

    def __init__(self, key: SharedKey, *, dials: bool, now: float) -> None:
        """`dials` tells the two ends apart; `now` is of a monotonic clock."""
        try:
            from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
        except ImportError:
            raise MissingExtra("datagrams that leave this machine", "udp") from None
        out, into = (b"dials", b"listens") if dials else (b"listens", b"dials")
        self.id = key.id
        self._out = ChaCha20Poly1305(key.of_direction(out))
        self._in = ChaCha20Poly1305(key.of_direction(into))
        self._renewal_time = now + key.seconds / 2
        self._expiry_time = now + key.seconds
        self._max_datagrams = key.datagrams
        self._sent_count = 0
        self._highest = 0  # highest number that was opened
        self._seen = 0  # bitmap of the numbers opened, counted down from the highest

    def has_expired(self, now: float) -> bool:
        """Whether nothing may be sealed or opened with it any more."""
        return now >= self._expiry_time or self._sent_count >= self._max_datagrams

    def is_renewal_due(self, now: float) -> bool:
        """Whether half of its lifetime is over, in time or in the datagrams of either direction."""
        return now >= self._renewal_time or 2 * max(self._sent_count, self._highest) >= self._max_datagrams

    def expire_by(self, time: float) -> None:
        """Expire at that time, if not before."""
        self._expiry_time = min(self._expiry_time, time)

    def seal(self, content: bytes) -> bytes:
        """A datagram with this content; the key must not have expired."""
        self._sent_count += 1
        head = _HEADER.pack(_SEALED_MARK, self.id, self._sent_count)
        return head + self._out.encrypt(_nonce(self._sent_count), content, head)

    def open(self, datagram: bytes) -> bytes:
        """The content of a datagram of this key; `WireError` where it is forged or replayed."""
        from cryptography.exceptions import InvalidTag

        _, _, number = _HEADER.unpack_from(datagram)
        if not 0 < number <= self._max_datagrams or self._is_replay(number):
            raise WireError(REPLAYED)
        try:
            content = self._in.decrypt(_nonce(number), datagram[_HEADER.size :], datagram[: _HEADER.size])
        except InvalidTag:
            raise WireError(FORGED) from None
        # Only now: the number of a forged datagram must not move the window.
        self._mark_seen(number)
        return content

    def _is_replay(self, number: int) -> bool:
        """Whether a number was opened before, or is too old for the window to tell."""
        behind = self._highest - number
        return behind >= 0 and (behind >= _REPLAY_WINDOW or bool(self._seen >> behind & 1))

    def _mark_seen(self, number: int) -> None:
        ahead = number - self._highest
        if ahead > 0:
            # Bit 0 is the highest number, so that the bitmap moves up as the window slides.
            self._seen = (self._seen << min(ahead, _REPLAY_WINDOW) | 1) & (1 << _REPLAY_WINDOW) - 1
            self._highest = number
        else:
            self._seen |= 1 << -ahead


def key_id_of(datagram: bytes) -> bytes:
    """The key id in the header of a datagram; `WireError` where it is not sealed at all."""
    if len(datagram) < SEAL_OVERHEAD_BYTES or datagram[0] != _SEALED_MARK:
        raise WireError(NOT_SEALED)
    return datagram[1 : 1 + KEY_ID_BYTES]


def _nonce(number: int) -> bytes:
    # Unique as ChaCha20-Poly1305 demands: a number is used once, and each direction has a key of its own.
    return number.to_bytes(12, "big")


class IssuedKey:
    """A key issued to a broker, and the link that uses it."""

    def __init__(self, principal: Principal, seal: Seal, before: IssuedKey | None) -> None:
        self.principal = principal
        self.seal = seal
        self.transport: SealedTransport | None = None  # of the link, once the holder has greeted
        self._before = before

    def on_used(self, now: float) -> None:
        """Switch the link to this key: its first datagram proves that the other end has it."""
        before, self._before = self._before, None
        if before is None:
            return
        before.seal.expire_by(now + KEY_OVERLAP_SECONDS)
        self.transport = before.transport
        if self.transport is not None:
            self.transport.seal = self.seal


class KeyRegistry:
    """Keys that this broker issued. `now` is a monotonic clock."""

    def __init__(self, settings: KeySettings, now: Callable[[], float]) -> None:
        self._settings = settings
        self._now = now
        self._issued: dict[bytes, IssuedKey] = {}

    def __len__(self) -> int:
        return len(self._issued)

    def issue(self, principal: Principal, request: AskKey) -> KeyGiven:
        """Issue a key to a broker; it replaces the one that the request names, if that is its own."""
        id, secret = secrets.token_bytes(KEY_ID_BYTES), secrets.token_bytes(KEY_SECRET_BYTES)
        settings = self._settings
        key = SharedKey(id, secret, request.secret, settings.seconds, settings.datagrams)
        before = self._issued.get(request.replaces)
        # The id of a key is no secret: naming it must not be enough to take over the link of another principal.
        if before is not None and before.principal.name != principal.name:
            before = None
        self._evict(principal.name)
        self._issued[id] = IssuedKey(principal, Seal(key, dials=False, now=self._now()), before)
        return KeyGiven(id, secret, settings.seconds, settings.datagrams)

    def open(self, datagram: bytes) -> tuple[IssuedKey, bytes]:
        """The key and the content of a datagram; `WireError` where no known broker sealed it."""
        issued = self._issued.get(key_id_of(datagram))
        now = self._now()
        if issued is None or issued.seal.has_expired(now):
            raise WireError(UNKNOWN_KEY)
        content = issued.seal.open(datagram)
        issued.on_used(now)
        return issued, content

    def forget(self, name: str) -> None:
        """Revoke all keys of a principal."""
        self._issued = {id: issued for id, issued in self._issued.items() if issued.principal.name != name}

    def _evict(self, name: str) -> None:
        now = self._now()
        self._issued = {id: issued for id, issued in self._issued.items() if not issued.seal.has_expired(now)}
        ids = [id for id, issued in self._issued.items() if issued.principal.name == name]  # the oldest first
        for id in ids[: max(0, len(ids) + 1 - _MAX_KEYS_PER_PRINCIPAL)]:
            del self._issued[id]


async def exchange_key(at: Address, token: str, tls: Callable[[], ssl.SSLContext], replaces: bytes) -> SharedKey:
    """Request a key from the broker at a TLS address; `replaces` is the id of its predecessor, or empty.

    Raises `OSError`, `TimeoutError` or `PalioError`.
    """
    request = AskKey(secrets.token_bytes(KEY_SECRET_BYTES), replaces)
    async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
        reader, writer = await asyncio.open_connection(at.host, at.port, ssl=tls())
        try:
            for message in (BrokerHello(protocol.VERSION, token), request):
                frame = protocol.encode(message)
                writer.write(frame_header(len(frame)) + frame)
            issued = await _read_key(reader)
        finally:
            writer.close()
    return SharedKey(issued.id, issued.secret, request.secret, issued.seconds, issued.datagrams)


async def _read_key(reader: asyncio.StreamReader) -> KeyGiven:
    frames = FrameReader(_MAX_ANSWER_BYTES)
    while data := await reader.read(_MAX_ANSWER_BYTES):
        for frame in frames.feed(data):
            message = protocol.decode_key_answer(frame)
            if type(message) is KeyGiven:
                return message
            if type(message) is Goodbye:
                raise Refused(f"{message.reason} (said by the other end)")
    raise Refused("the other end gave no key for datagrams")

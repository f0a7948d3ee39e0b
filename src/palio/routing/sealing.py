"""Sealed events: content that only edge brokers can read, while inner brokers forward by the header alone.

Content is examined once, at the broker that accepts an event (Jerzak §4, §5), which writes a header that abstracts from
it. So the brokers in between need no content, and need not be trusted with it; privacy by such headers is named as
future work by Jerzak. With the option `sealed` the body of an event is encrypted before it leaves the accepting
broker. Edge brokers have the keys: they open what their own clients may want, match it, and deliver it. Inner brokers
have none; an event whose header they cannot use goes to all neighbours that have filters, which is always right.

The cipher is AES-SIV (RFC 5297): deterministic, and safe without a nonce. A broker has no randomness of its own, and
one that starts again with an old state would repeat the nonces of other ciphers. Equal bodies look different all the
same, because the identity of the event is authenticated with each; so no broker can put the body of one event into
another.

A key is named by its fingerprint. The first key of a ring seals, and all of them open: a new key is first added at the
end of every ring, then moved to the front of each, and the old one removed when no event under it is under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct
from typing import Any, Final

from palio.errors import InvalidArgument, MissingExtra, SealError
from palio.routing.messages import EventId

KEY_BYTES: Final = 64  # two keys of AES-256, as AES-SIV takes them
_MARK: Final = b"\xc1"  # with which no MessagePack begins
_FINGERPRINT_BYTES: Final = 8
_PREFIX_BYTES: Final = len(_MARK) + _FINGERPRINT_BYTES
_CONTEXT: Final = Struct("<cqqq")


def event_context(id: EventId) -> bytes:
    """What the body of an event is bound to."""
    return _CONTEXT.pack(b"e", id.node, id.incarnation, id.sequence)


def log_context(broker: int, offset: int) -> bytes:
    """What an event of a log is bound to, when it is replayed."""
    return _CONTEXT.pack(b"l", broker, offset, 0)


def watermark_context(node: int, incarnation: int, serial: int) -> bytes:
    """What the sources of a watermark are bound to."""
    return _CONTEXT.pack(b"w", node, incarnation, serial)


class Keyring:
    """The keys of one broker of a network with sealed events; an inner broker has none.

    >>> keys, others = Keyring([bytes(64)]), Keyring([bytes(range(64))])
    >>> sealed = keys.seal(b"content", b"context")
    >>> keys.open(sealed, b"context")
    b'content'
    >>> others.open(sealed, b"context")
    Traceback (most recent call last):
    palio.errors.SealError: sealed with a key that this broker does not have: e98f43e6c9eef9d3
    """

    __slots__ = ("_ciphers", "_first")

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._ciphers: dict[bytes, Any] = {}
        self._first = b""
        if keys:
            self.replace(keys)

    def replace(self, keys: Sequence[bytes]) -> None:
        """Take other keys; the first one seals from now on."""
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESSIV
        except ImportError:
            raise MissingExtra("sealed events", "sealing") from None
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise InvalidArgument(f"a ring has at least one key, and each has {KEY_BYTES} bytes")
        # The old keys are replaced at once: a batch of events never sees half of a ring.
        self._ciphers = {fingerprint(key): AESSIV(key) for key in keys}
        self._first = fingerprint(keys[0])

    @property
    def is_empty(self) -> bool:
        """Whether this is an inner broker, which can neither seal nor open."""
        return not self._ciphers

    def seal(self, content: bytes, context: bytes) -> bytes:
        prefix = _MARK + self._first
        sealed: bytes = self._ciphers[self._first].encrypt(content, [prefix, context])
        return prefix + sealed

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """The content; `SealError` where it is not sealed, or not with a key of this ring, or was altered."""
        prefix, named = sealed[:_PREFIX_BYTES], sealed[len(_MARK) : _PREFIX_BYTES]
        if sealed[: len(_MARK)] != _MARK or len(named) < _FINGERPRINT_BYTES:
            raise SealError("not sealed, in a network in which events are")
        cipher = self._ciphers.get(named)
        if cipher is None:
            raise SealError("sealed with a key that this broker does not have", named.hex())
        from cryptography.exceptions import InvalidTag

        try:
            content: bytes = cipher.decrypt(sealed[_PREFIX_BYTES:], [prefix, context])
        except (InvalidTag, ValueError):  # the latter where it is too short
            raise SealError("forged or altered after it was sealed", named.hex()) from None
        return content


def fingerprint(key: bytes) -> bytes:
    """The name of a key on the wire; it tells nothing else about the key."""
    return blake2b(key, digest_size=_FINGERPRINT_BYTES, person=b"palio-sealing").digest()

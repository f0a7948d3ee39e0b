"""Whose datagrams does this broker take? Of those who asked for a key over TLS, and were known there."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from palio.errors import WireError
from palio.network.links.sealing import Sealing
from palio.network.protocol import AskKey, KeyGiven
from palio.network.security.principals import Principal
from palio.network.security.sealing import ID_BYTES, SECRET_BYTES, Key, KeySettings, Seal, id_of

UNKNOWN_KEY: Final = "datagram of an unknown key"
_MOST: Final = 64  # keys of one principal; the oldest go
OVERLAP: Final = 10.0  # seconds in which what was sealed with the key before may still arrive


class Given:
    """A key that somebody has."""

    def __init__(self, principal: Principal, seal: Seal, before: Given | None) -> None:
        self.principal = principal
        self.seal = seal
        self.sealing: Sealing | None = None  # of the link, once whoever has the key has greeted
        self._before = before

    def used(self, now: float) -> None:
        """The other end has it for sure: from now on this end uses it too, and soon the one before no more."""
        before, self._before = self._before, None
        if before is None:
            return
        before.seal.end_by(now + OVERLAP)
        self.sealing = before.sealing
        if self.sealing is not None:
            self.sealing.seal = self.seal


class Keys:
    """The keys that were given. `now` is a clock that never jumps."""

    def __init__(self, settings: KeySettings, now: Callable[[], float]) -> None:
        self._settings = settings
        self._now = now
        self._given: dict[bytes, Given] = {}

    def __len__(self) -> int:
        return len(self._given)

    def give(self, principal: Principal, asked: AskKey) -> KeyGiven:
        """A key for a broker, in the place of one of its own where it names that."""
        id, secret = secrets.token_bytes(ID_BYTES), secrets.token_bytes(SECRET_BYTES)
        settings = self._settings
        key = Key(id, secret, asked.secret, settings.seconds, settings.datagrams)
        before = self._given.get(asked.replaces)
        if before is not None and before.principal.name != principal.name:
            before = None
        self._make_room(principal.name)
        self._given[id] = Given(principal, Seal(key, dials=False, now=self._now()), before)
        return KeyGiven(id, secret, settings.seconds, settings.datagrams)

    def open(self, datagram: bytes) -> tuple[Given, bytes]:
        """Who sent a datagram, and what; `WireError` for all that no known broker sent just now."""
        given = self._given.get(id_of(datagram))
        now = self._now()
        if given is None or given.seal.is_over(now):
            raise WireError(UNKNOWN_KEY)
        content = given.seal.open(datagram)
        given.used(now)
        return given, content

    def forget(self, name: str) -> None:
        """A principal is not let in any more, nor are its datagrams."""
        self._given = {id: given for id, given in self._given.items() if given.principal.name != name}

    def _make_room(self, name: str) -> None:
        now = self._now()
        self._given = {id: given for id, given in self._given.items() if not given.seal.is_over(now)}
        own = [id for id, given in self._given.items() if given.principal.name == name]
        for id in own[: max(0, len(own) + 1 - _MOST)]:
            del self._given[id]

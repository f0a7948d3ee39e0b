"""Who is let in? A broker without tokens lets everyone in, as everyone; with the first token it never does again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from palio.errors import AuthenticationFailed
from palio.network.security.principals import ANYONE, Principal
from palio.network.security.tokens import Tokens


class Door:
    """Knows who may come in, and notices when that changes."""

    def __init__(self, directory: Path | None) -> None:
        """By the principals in a data directory; without one everyone is let in."""
        self._tokens = None if directory is None else Tokens(directory)
        self._over: set[str] = set()
        self.is_open = self._tokens is None or len(self._tokens) == 0
        """Whether whoever comes may do everything."""

    def authenticate(self, token: str = "", certificate: tuple[str, ...] = ()) -> Principal:
        """Who has a token, or a certificate of these names; AuthenticationFailed for strangers."""
        if self._tokens is None or self.is_open:
            return ANYONE
        if token:
            return self._tokens.authenticate(token)
        if certificate:
            return self._tokens.authenticate_certificate(certificate)
        raise AuthenticationFailed("a token is needed; whoever runs this broker makes one by `palio token add`")

    def find(self, name: str) -> Principal:
        """Who has a name, for what was asked for in that name before; AuthenticationFailed where nobody has."""
        found = ANYONE if self.is_open else self._tokens.get(name) if self._tokens is not None else None
        if found is None or found.name != name:
            raise AuthenticationFailed(f"there is no principal {name!r} any more")
        return found

    def changes(self) -> Mapping[str, Principal | None]:
        """Those who are others now than when this was asked last, and None for those who are let in no more."""
        if self._tokens is None:
            return {}
        changed = dict(self._tokens.refresh())
        if self.is_open and len(self._tokens):
            self.is_open = False
            changed[ANYONE.name] = None
        over = set(self._tokens.expired(datetime.now(UTC)))
        changed.update(dict.fromkeys(over - self._over))
        self._over = over
        return changed

"""Whose token is this? A file of principals and the hashes of their tokens, in the broker's data directory.

A token is 32 random bytes, so that nobody guesses one and a slow hash would protect nothing: BLAKE2b with a key of the
file's own is enough, and costs two microseconds at a handshake. The first part of a token says which principal it is,
the second proves it and is compared in constant time. The file never holds a token; `palio token add` shows it once.

The file is replaced as a whole, so that a reader sees an old one or a new one. A server asks now and then whether it
changed, and re-checks those who are connected.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from typing import Final

import msgspec

from palio.errors import AuthenticationFailed, InputError, InvalidArgument, PalioError
from palio.filters.filter import Filter
from palio.network.addresses import TOKEN_PREFIX
from palio.network.security.directory import make_private
from palio.network.security.principals import Principal, Role

FILE: Final = "principals.json"
_SECRET_BYTES: Final = 32
_LONGEST_TOKEN: Final = 200


class _Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A principal as the file has it."""

    id: str
    digest: str
    name: str
    role: Role = "client"
    may_subscribe: tuple[str, str] | None = None
    """The condition and its time zone; nothing may be heard without."""
    may_publish: tuple[str, str] | None = None
    may_annotate: bool = False
    may_see_status: bool = False
    sources: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    expires: datetime | None = None


class _File(msgspec.Struct, frozen=True):
    version: int
    key: str
    entries: tuple[_Entry, ...]


@dataclass(frozen=True, slots=True)
class Registered:
    """A principal in the file, with what proves that somebody is it."""

    principal: Principal
    certificates: tuple[str, ...] = ()
    """Names in certificates that stand for it."""
    expires: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        return self.expires is None or now < self.expires


class Tokens:
    """The principals a broker knows. Finding one costs two microseconds, however many there are."""

    def __init__(self, directory: Path) -> None:
        """Those in the file of a data directory, or nobody where it has none."""
        self._path = directory / FILE
        self._read = (0, 0, 0)
        self._key = b""
        self._entries: dict[str, _Entry] = {}
        self._known: dict[str, Registered] = {}
        self.refresh()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Registered]:
        return iter([self._known[entry.name] for entry in self._entries.values()])

    def get(self, name: str) -> Principal | None:
        """Who has a name, if anybody has and has not expired."""
        found = self._known.get(name)
        return found.principal if found is not None and found.is_valid(datetime.now(UTC)) else None

    def authenticate(self, token: str) -> Principal:
        """Whose token it is; AuthenticationFailed for one that is nobody's, or has expired."""
        id, _, secret = token.removeprefix(TOKEN_PREFIX).partition("_")
        entry = self._entries.get(id)
        # Without an entry something is compared all the same: an answer takes as long for ids that are not there.
        digest = entry.digest if entry is not None else "0" * 64
        is_right = len(token) <= _LONGEST_TOKEN and compare_digest(digest, _digest(secret, self._key))
        if entry is None or not is_right:
            raise AuthenticationFailed("no principal has this token")
        return self._valid(entry.name)

    def authenticate_certificate(self, names: tuple[str, ...]) -> Principal:
        """Who a certificate with these names stands for; AuthenticationFailed where that is nobody, or several."""
        found = {known.principal.name for known in self for name in names if name in known.certificates}
        if len(found) != 1:
            raise AuthenticationFailed("no principal, or more than one, has a certificate of these names")
        return self._valid(found.pop())

    def _valid(self, name: str) -> Principal:
        principal = self.get(name)
        if principal is None:
            raise AuthenticationFailed("the token has expired")
        return principal

    def add(self, principal: Principal, *, certificates: tuple[str, ...] = (), expires: datetime | None = None) -> str:
        """A new token for a new principal. It can be read here and nowhere else."""
        with self._changing() as entries:
            if principal.name in self._known:
                raise InvalidArgument(f"there is a principal {principal.name!r} already; remove it, or change it")
            id, secret = secrets.token_hex(4), secrets.token_urlsafe(_SECRET_BYTES)
            entries[id] = _entry(id, _digest(secret, self._key), Registered(principal, certificates, expires))
        return f"{TOKEN_PREFIX}{id}_{secret}"

    def change(self, principal: Principal) -> None:
        """Other grants for a principal, whose token stays what it is."""
        with self._changing() as entries:
            entry = self._entry_of(principal.name)
            known = self._known[principal.name]
            entries[entry.id] = _entry(entry.id, entry.digest, Registered(principal, known.certificates, known.expires))

    def remove(self, name: str) -> None:
        """Forget a principal and its token."""
        with self._changing() as entries:
            del entries[self._entry_of(name).id]

    def _entry_of(self, name: str) -> _Entry:
        for entry in self._entries.values():
            if entry.name == name:
                return entry
        raise InvalidArgument(f"there is no principal {name!r}")

    def refresh(self) -> Mapping[str, Principal | None]:
        """Read the file if it changed: those that are others now, by name, and None for those that are gone."""
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            found, signature = None, (0, 0, 0)
        else:
            signature = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if signature == self._read:
                return {}
            found = _load(self._path)
        before = {name: known.principal for name, known in self._known.items()}
        self._read = signature
        self._key = bytes.fromhex(found.key) if found else secrets.token_bytes(_SECRET_BYTES)
        self._entries = {entry.id: entry for entry in (found.entries if found else ())}
        self._known = {entry.name: _registered(entry) for entry in self._entries.values()}
        after = {name: known.principal for name, known in self._known.items()}
        return {name: after.get(name) for name, principal in before.items() if after.get(name) != principal}

    def expired(self, now: datetime) -> list[str]:
        """Those whose time is over, for a server to turn out."""
        return [known.principal.name for known in self._known.values() if not known.is_valid(now)]

    @contextmanager
    def _changing(self) -> Iterator[dict[str, _Entry]]:
        """The entries, to be changed; nobody else changes the file meanwhile."""
        make_private(self._path.parent)
        descriptor = os.open(self._path.parent / f"{FILE}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self.refresh()
            entries = dict(self._entries)
            yield entries
            _write(self._path, _File(1, self._key.hex(), tuple(entries.values())))
            self.refresh()
        finally:
            os.close(descriptor)


def _digest(secret: str, key: bytes) -> str:
    return blake2b(secret.encode("utf-8", "surrogatepass")[:_LONGEST_TOKEN], key=key, digest_size=32).hexdigest()


def _load(path: Path) -> _File:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_File)
        bytes.fromhex(found.key)
    except (msgspec.DecodeError, ValueError) as error:
        raise InputError(str(path), f"not a file of principals: {error}") from None
    if found.version != 1:
        raise InputError(str(path), f"a file of principals of version {found.version}; this Palio knows version 1")
    return found


def _write(path: Path, content: _File) -> None:
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(content)))
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def _entry(id: str, digest: str, known: Registered) -> _Entry:
    principal = known.principal
    return _Entry(
        id,
        digest,
        principal.name,
        principal.role,
        _written(principal.may_subscribe),
        _written(principal.may_publish),
        principal.may_annotate,
        principal.may_see_status,
        principal.sources,
        known.certificates,
        known.expires,
    )


def _registered(entry: _Entry) -> Registered:
    try:
        principal = Principal(
            entry.name,
            entry.role,
            _filter(entry.may_subscribe),
            _filter(entry.may_publish),
            entry.may_annotate,
            entry.may_see_status,
            entry.sources,
        )
    except PalioError as error:
        raise InputError(FILE, f"{entry.name}: {error}") from None
    return Registered(principal, entry.certificates, entry.expires)


def _written(grant: Filter) -> tuple[str, str] | None:
    return None if grant == Filter.nothing else (str(grant), grant.timezone)


def _filter(written: tuple[str, str] | None) -> Filter:
    return Filter.nothing if written is None else Filter.parse(written[0], timezone=written[1])

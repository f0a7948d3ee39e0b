"""Authentication by token or certificate, against the principals file in the data directory.

A broker that never had tokens admits everyone as `ANYONE`; from the first token on it never does again, not even when
all tokens are removed or the file is lost. Durable subscriptions of `ANYONE` stay: a principal of that name gets them.

One principal may be known to several brokers, by one token: its entry then has a key of its own, so that it is equal in
all their files (`add_to_several`).

A token is 32 random bytes: it cannot be guessed, so that a slow hash would protect nothing. BLAKE2b with a key of the
file's own is enough, and costs two microseconds at a handshake. The first part of a token names the principal, the
second proves it and is compared in constant time. The file never holds a token; `palio token add` shows it once.

The file is replaced as a whole, so that a reader sees the old one or the new one. A server checks now and then whether
it changed, and applies changed grants to connected clients.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from typing import Final

import msgspec

from palio.errors import AuthenticationFailed, InputError, InvalidArgument, PalioError
from palio.files.durable_write import replace_private_file
from palio.filters.filter import Filter
from palio.network.addresses import TOKEN_PREFIX
from palio.network.data_directory import make_private
from palio.network.security.authorization import ANYONE, Principal, Role

PRINCIPALS_FILE: Final = "principals.json"
_SECRET_BYTES: Final = 32
_LONGEST_TOKEN: Final = 200


class _Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A principal in the file."""

    id: str
    digest: str
    name: str
    role: Role = "client"
    may_subscribe: tuple[str, str] | None = None
    """The condition and its time zone; without one nothing may be received."""
    may_publish: tuple[str, str] | None = None
    may_annotate: bool = False
    may_see_status: bool = False
    sources: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    expires: datetime | None = None
    key: str = ""
    """Key of the digest, where it is not that of the file: an entry that several brokers have."""
    may_block: bool = False


class _File(msgspec.Struct, frozen=True):
    version: int
    key: str
    entries: tuple[_Entry, ...]


@dataclass(frozen=True, slots=True)
class RegisteredPrincipal:
    """A principal in the file, with its certificates and expiry."""

    principal: Principal
    certificates: tuple[str, ...] = ()
    """Certificate names that authenticate it."""
    expires: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        return self.expires is None or now < self.expires


class Tokens:
    """The principals file. A lookup costs two microseconds, however many principals there are."""

    def __init__(self, directory: Path) -> None:
        """Read the file of a data directory; a missing file is an empty one."""
        self._path = directory / PRINCIPALS_FILE
        self._lock_path = directory / f"{PRINCIPALS_FILE}.lock"
        self._read = (0, 0, 0)
        self._key = b""
        self._entries: dict[str, _Entry] = {}
        self._known: dict[str, RegisteredPrincipal] = {}
        self.refresh()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def were_ever_used(self) -> bool:
        """Whether there is, or was, a token: the lock is made with the first one, and stays."""
        return bool(self._entries) or self._path.exists() or self._lock_path.exists()

    def __iter__(self) -> Iterator[RegisteredPrincipal]:
        return iter([self._known[entry.name] for entry in self._entries.values()])

    def get(self, name: str) -> Principal | None:
        """The principal of a name, unless it is unknown or has expired."""
        known = self._known.get(name)
        return known.principal if known is not None and known.is_valid(datetime.now(UTC)) else None

    def authenticate(self, token: str) -> Principal:
        """The principal of a token; AuthenticationFailed where it is unknown or has expired."""
        id, _, secret = token.removeprefix(TOKEN_PREFIX).partition("_")
        entry = self._entries.get(id)
        # Compare even without an entry: the time must not tell which ids exist.
        digest = entry.digest if entry is not None else "0" * 64
        key = bytes.fromhex(entry.key) if entry is not None and entry.key else self._key
        is_right = len(token) <= _LONGEST_TOKEN and compare_digest(digest, _digest(secret, key))
        if entry is None or not is_right:
            raise AuthenticationFailed("no principal has this token")
        return self._valid(entry.name)

    def authenticate_certificate(self, names: tuple[str, ...]) -> Principal:
        """The principal of a certificate with these names; AuthenticationFailed unless it is exactly one."""
        principals = {known.principal.name for known in self for name in names if name in known.certificates}
        if len(principals) != 1:
            raise AuthenticationFailed("no principal, or more than one, has a certificate of these names")
        return self._valid(principals.pop())

    def _valid(self, name: str) -> Principal:
        principal = self.get(name)
        if principal is None:
            raise AuthenticationFailed("the token has expired")
        return principal

    def add(self, principal: Principal, *, certificates: tuple[str, ...] = (), expires: datetime | None = None) -> str:
        """Add a principal; returns its token, which is stored nowhere."""
        with self._changing() as entries:
            self.check_unknown(principal.name)
            id, secret = secrets.token_hex(4), secrets.token_urlsafe(_SECRET_BYTES)
            entries[id] = _encode_entry(
                id, _digest(secret, self._key), RegisteredPrincipal(principal, certificates, expires)
            )
        return f"{TOKEN_PREFIX}{id}_{secret}"

    def change(self, principal: Principal) -> None:
        """Replace the grants of a principal; its token stays."""
        with self._changing() as entries:
            entry = self._entry_of(principal.name)
            known = self._known[principal.name]
            changed = RegisteredPrincipal(principal, known.certificates, known.expires)
            entries[entry.id] = _encode_entry(entry.id, entry.digest, changed, entry.key)

    def remove(self, name: str) -> None:
        """Remove a principal and its token."""
        with self._changing() as entries:
            del entries[self._entry_of(name).id]

    def export_principal(self, name: str) -> bytes:
        """A principal as text for `import_principal`: what the file has of it, and the key of the digest."""
        entry = self._entry_of(name)
        shared = entry if entry.key else msgspec.structs.replace(entry, key=self._key.hex())
        return msgspec.json.encode(shared)

    def import_principal(self, text: bytes) -> None:
        """Add a principal that another broker exported; its token is valid here too."""
        try:
            entry = msgspec.json.decode(text, type=_Entry)
            bytes.fromhex(entry.key)
        except (msgspec.DecodeError, ValueError) as error:
            raise InvalidArgument(f"not a principal that `palio token export` printed: {error}") from None
        if not entry.key:
            raise InvalidArgument("not a principal that `palio token export` printed: it has no key")
        _decode_entry(entry)  # conditions that this Palio cannot read are refused now
        self._adopt(entry)

    def _adopt(self, entry: _Entry) -> None:
        """Add an entry that other files have too."""
        with self._changing() as entries:
            self.check_unknown(entry.name)
            entries[entry.id] = entry

    def check_unknown(self, name: str) -> None:
        """InvalidArgument where there is a principal of a name."""
        if name in self._known:
            where = self._path.parent
            raise InvalidArgument(f"there is a principal {name!r} in {where} already; remove it, or change it")

    def _entry_of(self, name: str) -> _Entry:
        for entry in self._entries.values():
            if entry.name == name:
                return entry
        raise InvalidArgument(f"there is no principal {name!r} in {self._path.parent}")

    def refresh(self) -> Mapping[str, Principal | None]:
        """Read the file if it changed: the changed principals by name, None for removed ones."""
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            file, signature = None, (0, 0, 0)
        else:
            # With the inode: the file is replaced, and two versions may have one size and one time.
            signature = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if signature == self._read:
                return {}
            file = _read_file(self._path)
        before = {name: known.principal for name, known in self._known.items()}
        self._read = signature
        self._key = bytes.fromhex(file.key) if file else secrets.token_bytes(_SECRET_BYTES)
        self._entries = {entry.id: entry for entry in (file.entries if file else ())}
        self._known = {entry.name: _decode_entry(entry) for entry in self._entries.values()}
        after = {name: known.principal for name, known in self._known.items()}
        return {name: after.get(name) for name, principal in before.items() if after.get(name) != principal}

    def expired(self, now: datetime) -> list[str]:
        """Names of the principals that have expired."""
        return [known.principal.name for known in self._known.values() if not known.is_valid(now)]

    @contextmanager
    def _changing(self) -> Iterator[dict[str, _Entry]]:
        """The entries to be changed, under a lock against other writers."""
        make_private(self._path.parent)
        # A file of its own: the principals file is replaced, and a lock would stay with the old one.
        descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self.refresh()
            entries = dict(self._entries)
            yield entries
            _write_file(self._path, _File(1, self._key.hex(), tuple(entries.values())))
            self.refresh()
        finally:
            os.close(descriptor)


def add_to_several(
    directories: Sequence[Path],
    principal: Principal,
    *,
    certificates: tuple[str, ...] = (),
    expires: datetime | None = None,
) -> str:
    """Add a principal to the brokers of several data directories, all or none; returns its one token."""
    files = [Tokens(directory) for directory in directories]
    for each in files:
        each.check_unknown(principal.name)
    id, secret = secrets.token_hex(4), secrets.token_urlsafe(_SECRET_BYTES)
    key = secrets.token_bytes(_SECRET_BYTES)
    entry = _encode_entry(id, _digest(secret, key), RegisteredPrincipal(principal, certificates, expires), key.hex())
    added: list[Tokens] = []
    try:
        for each in files:
            each._adopt(entry)
            added.append(each)
    except BaseException:
        for each in added:
            each.remove(principal.name)
        raise
    return f"{TOKEN_PREFIX}{id}_{secret}"


def _digest(secret: str, key: bytes) -> str:
    return blake2b(secret.encode("utf-8", "surrogatepass")[:_LONGEST_TOKEN], key=key, digest_size=32).hexdigest()


def _read_file(path: Path) -> _File:
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
        for key in (file.key, *(entry.key for entry in file.entries)):
            bytes.fromhex(key)
    except (msgspec.DecodeError, ValueError) as error:
        raise InputError(str(path), f"not a file of principals: {error}") from None
    if file.version != 1:
        raise InputError(str(path), f"a file of principals of version {file.version}; this Palio knows version 1")
    return file


def _write_file(path: Path, content: _File) -> None:
    replace_private_file(path, msgspec.json.format(msgspec.json.encode(content)))


def _encode_entry(id: str, digest: str, known: RegisteredPrincipal, key: str = "") -> _Entry:
    principal = known.principal
    return _Entry(
        id,
        digest,
        principal.name,
        principal.role,
        _encode_grant(principal.may_subscribe),
        _encode_grant(principal.may_publish),
        principal.may_annotate,
        principal.may_see_status,
        principal.sources,
        known.certificates,
        known.expires,
        key,
        principal.may_block,
    )


def _decode_entry(entry: _Entry) -> RegisteredPrincipal:
    try:
        principal = Principal(
            entry.name,
            entry.role,
            _decode_grant(entry.may_subscribe),
            _decode_grant(entry.may_publish),
            entry.may_annotate,
            entry.may_see_status,
            entry.sources,
            entry.may_block,
        )
    except PalioError as error:
        raise InputError(PRINCIPALS_FILE, f"{entry.name}: {error}") from None
    return RegisteredPrincipal(principal, entry.certificates, entry.expires)


def _encode_grant(grant: Filter) -> tuple[str, str] | None:
    return None if grant == Filter.nothing else (str(grant), grant.timezone)


def _decode_grant(written: tuple[str, str] | None) -> Filter:
    return Filter.nothing if written is None else Filter.parse(written[0], timezone=written[1])


class Authenticator:
    """Authenticates peers, and reports changed principals."""

    def __init__(self, directory: Path | None) -> None:
        """Without a data directory everyone is admitted."""
        self._tokens = None if directory is None else Tokens(directory)
        self._expired: set[str] = set()
        self.is_open = self._tokens is None or not self._tokens.were_ever_used
        """Whether everyone is admitted, with all rights."""

    def authenticate(self, token: str = "", certificate: tuple[str, ...] = ()) -> Principal:
        """The principal of a token, or of a certificate with these names; AuthenticationFailed without one."""
        if self._tokens is None or self.is_open:
            return ANYONE
        if token:
            return self._tokens.authenticate(token)
        if certificate:
            return self._tokens.authenticate_certificate(certificate)
        raise AuthenticationFailed("a token is needed; whoever runs this broker makes one by `palio token add`")

    def __contains__(self, name: object) -> bool:
        """Whether there is a principal of that name now."""
        return self._tokens is not None and isinstance(name, str) and self._tokens.get(name) is not None

    def find(self, name: str) -> Principal:
        """The principal of a name, for its stored subscriptions; AuthenticationFailed where it is gone."""
        principal = ANYONE if self.is_open else self._tokens.get(name) if self._tokens is not None else None
        if principal is None or principal.name != name:
            raise AuthenticationFailed(f"there is no principal {name!r} any more")
        return principal

    def changes(self) -> Mapping[str, Principal | None]:
        """The principals that changed since the last call, None for those that are not admitted any more."""
        if self._tokens is None:
            return {}
        changed = dict(self._tokens.refresh())
        if self.is_open and len(self._tokens):
            self.is_open = False
            changed[ANYONE.name] = self._tokens.get(ANYONE.name)
        # Expiry changes no file; each expired principal is reported once.
        expired = set(self._tokens.expired(datetime.now(UTC)))
        changed.update(dict.fromkeys(expired - self._expired))
        self._expired = expired
        return changed

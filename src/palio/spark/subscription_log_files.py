"""File format of the subscription log: versions and snapshots, with digests that detect damage.

Both are compressed lines of JSON: a heading, one line for each change or subscription, and the digest of all lines
before it. A version holds the digest of the version before it, a snapshot that of its own version, so that a file that
was cut, altered, exchanged or taken from another log does not fit and is refused by name.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa

from palio.errors import SubscriptionLogError
from palio.matching.subscription import Subscription

FORMAT: Final = 1
_RECENT_DIGESTS: Final = 1_000  # of versions before a snapshot, held by it
_CODEC: Final = "zstd"
ChangeKind = Literal["add", "change", "remove"]


@dataclass(frozen=True, slots=True)
class Change:
    """One subscription added, changed, or removed."""

    kind: ChangeKind
    id: str
    subscription: Subscription | None = None  # none where it is removed


@dataclass(frozen=True, slots=True)
class Version:
    """The changes of one commit."""

    number: int
    time: datetime
    changes: tuple[Change, ...]
    previous: str | None  # the digest of the version before
    digest: str


@dataclass(frozen=True, slots=True)
class Head:
    """Identity of a version: its number, time, and the digest that distinguishes it from other logs."""

    version: int
    time: datetime | None = None
    digest: str | None = None


class Snapshot:
    """The subscriptions at a version, in the order in which they were added."""

    def __init__(
        self, version: int, time: datetime | None, recent: Iterable[str], subscriptions: dict[str, Subscription]
    ) -> None:
        self.version = version
        self.time = time
        self.recent = deque(recent, _RECENT_DIGESTS)  # the digests of the versions up to this one
        self._subscriptions = subscriptions

    @classmethod
    def empty(cls) -> Snapshot:
        return cls(0, None, (), {})

    @property
    def digest(self) -> str | None:
        """The digest of its version."""
        return self.recent[-1] if self.recent else None

    def digest_of(self, version: int) -> str | None:
        """The digest of a version up to its own; None where that was long ago."""
        back = self.version - version
        return self.recent[-1 - back] if 0 <= back < len(self.recent) else None

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self._subscriptions.values())

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __contains__(self, id: object) -> bool:
        return id in self._subscriptions

    def __getitem__(self, id: str) -> Subscription:
        return self._subscriptions[id]

    def __repr__(self) -> str:
        return f"<{len(self):,} subscriptions at version {self.version:,}>"

    def apply(self, version: Version) -> None:
        """Advance to the next version."""
        for change in version.changes:
            if change.subscription is None:
                self._subscriptions.pop(change.id, None)
            else:
                self._subscriptions[change.id] = change.subscription
        self.version, self.time = version.number, version.time
        self.recent.append(version.digest)


def write_version(
    number: int, time: datetime, previous: str | None, changes: Iterable[Change]
) -> tuple[bytes, Version]:
    """The file of a version, and the version as it will be read."""
    given = tuple(changes)
    heading = {"palio": "changes", "format": FORMAT, "version": number, "time": _text(time), "previous": previous}
    lines = [{"change": each.kind, "id": each.id, **_members(each.subscription)} for each in given]
    data, digest = _pack(heading, lines)
    return data, Version(number, time, given, previous, digest)


def read_version(data: bytes, address: str, number: int) -> Version:
    heading, lines, digest = _open(data, address, "changes", number)
    try:
        changes = tuple(_change(msgspec.json.decode(line)) for line in lines)
        return Version(number, _time(heading["time"]), changes, heading["previous"], digest)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(address, repr(error)) from None


def read_head(data: bytes, address: str, number: int) -> Head:
    """The head of a version; its changes are checked by the digest, but not decoded."""
    heading, _, digest = _open(data, address, "changes", number)
    return Head(number, _time(heading["time"]), digest)


def write_snapshot(snapshot: Snapshot) -> bytes:
    assert snapshot.time is not None  # version 0 has no file
    heading = {
        "palio": "snapshot",
        "format": FORMAT,
        "version": snapshot.version,
        "time": _text(snapshot.time),
        "recent": list(snapshot.recent),
    }
    data, _ = _pack(heading, [{"id": each.id, **_members(each)} for each in snapshot])
    return data


def read_snapshot(data: bytes, address: str, number: int) -> Snapshot:
    heading, lines, _ = _open(data, address, "snapshot", number)
    try:
        found = [_subscription(msgspec.json.decode(line)) for line in lines]
        time = _time(heading["time"])
        recent = heading["recent"] if "recent" in heading else [heading["last"]]  # the form of the first logs
        return Snapshot(number, time, recent, {each.id: each for each in found})
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(address, repr(error)) from None


def is_json(value: Any) -> bool:
    """Whether a value survives a round trip through JSON."""
    try:
        return bool(msgspec.json.decode(msgspec.json.encode(value)) == value)
    except (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError):
        return False


def _members(subscription: Subscription | None) -> dict[str, Any]:
    if subscription is None:
        return {}
    members: dict[str, Any] = {"where": subscription.where}
    if subscription.language != "sql":
        members["language"] = subscription.language
    if subscription.subscriber is not None:
        members["subscriber"] = subscription.subscriber
    if subscription.metadata:
        members["metadata"] = dict(subscription.metadata)
    if subscription.timezone != "UTC":
        members["timezone"] = subscription.timezone
    return members


def _change(line: Mapping[str, Any]) -> Change:
    kind = line["change"]
    if kind not in ("add", "change", "remove"):
        raise ValueError(f"{kind!r} is no change")
    return Change(kind, line["id"], None if kind == "remove" else _subscription(line))


def _subscription(line: Mapping[str, Any]) -> Subscription:
    return Subscription(
        line["id"],
        line["where"],
        line.get("language", "sql"),
        line.get("subscriber"),
        line.get("metadata", {}),
        line.get("timezone", "UTC"),
    )


def _pack(heading: dict[str, Any], lines: Iterable[dict[str, Any]]) -> tuple[bytes, str]:
    encode = msgspec.json.encode
    # The digest covers the uncompressed lines, so that another compression level keeps it.
    body = b"".join([encode(line) + b"\n" for line in (heading, *lines)])
    digest = _digest(body)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, _CODEC) as stream:
        stream.write(body)
        stream.write(encode({"digest": digest}) + b"\n")
    return sink.getvalue().to_pybytes(), digest


def _open(data: bytes, address: str, kind: str, number: int) -> tuple[dict[str, Any], list[bytes], str]:
    """The heading, the lines and the digest of a file, after all checks."""
    try:
        with pa.CompressedInputStream(io.BytesIO(data), _CODEC) as stream:
            text = stream.read()
        # The last line is the digest of all lines before it, with their final newline.
        body, _, last = text.rstrip(b"\n").rpartition(b"\n")
        digest = msgspec.json.decode(last)["digest"]
        first, *lines = body.split(b"\n")
        heading = msgspec.json.decode(first)
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise _damaged(address, f"{error}" or type(error).__name__) from None
    if _digest(body + b"\n") != digest:
        raise _damaged(address, "its digest is wrong")
    if not isinstance(heading, dict) or heading.get("palio") != kind:
        raise SubscriptionLogError(address, "is no file of a subscription log")
    if heading.get("format") != FORMAT:
        raise SubscriptionLogError(
            address, f"has format {heading.get('format')}, and this Palio reads {FORMAT}; use the one that wrote it"
        )
    if heading.get("version") != number:
        raise _damaged(address, f"it is of version {heading.get('version')}")
    return heading, lines, digest


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def _damaged(address: str, reason: str) -> SubscriptionLogError:
    return SubscriptionLogError(address, f"is damaged ({reason}); bring it back from a copy")


def _text(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)

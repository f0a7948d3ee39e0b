"""Versioned log of subscriptions: additions, changes and removals, committed atomically.

    changes/00000000000000000007.jsonl.zst     what version 7 adds, changes and removes, and when
    snapshots/00000000000000000005.jsonl.zst   all subscriptions at version 5

A commit creates one file with `StorageFolder.create`. Of two writers one gets the next version; the other finds the
name taken, reads what is new and takes the version after. Readers need no lock: files never change, and compaction
removes only files that a snapshot replaces. A reader whose file is removed meanwhile starts again from that snapshot.

Version 0 is the empty log. Needs no Spark.
"""

from __future__ import annotations

import dataclasses
import logging
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypedDict, Unpack

from palio.errors import (
    DuplicateSubscription,
    InvalidArgument,
    InvalidSubscription,
    SubscriptionLogError,
    UnknownSubscription,
    VersionNotKept,
)
from palio.filters.filter import Filter
from palio.languages.sql.template_cache import BoundTemplate
from palio.matching.subscription import Subscription
from palio.spark.argument_checks import check_duration
from palio.spark.storage import StorageFolder
from palio.spark.subscription_log_files import (
    Change,
    Head,
    Snapshot,
    Version,
    is_json,
    read_head,
    read_snapshot,
    read_version,
    write_snapshot,
    write_version,
)
from palio.spark.subscriptions import Refused, Wants, collect_given

RETENTION: Final = timedelta(days=7)
_CHANGES: Final = "changes"
_SNAPSHOTS: Final = "snapshots"
_SUFFIX: Final = ".jsonl.zst"
_MAX_READ_ATTEMPTS: Final = 5  # a reader starts again when a compaction removes its file
_log = logging.getLogger("palio.spark")


class SubscriptionFields(TypedDict, total=False):
    """Optional fields of a subscription."""

    language: str
    subscriber: str | None
    metadata: Mapping[str, Any] | None
    timezone: str


class _StagedChange(NamedTuple):
    """A change before its commit, and the fields that it keeps from the subscription at that time."""

    change: Change
    kept: frozenset[str] = frozenset()


class SubscriptionLog:
    """A log of subscriptions in a folder, by its path or address (`s3://…`); made by the first commit.

    >>> log = SubscriptionLog("wants")
    >>> log.add("desk", "symbol = 'ACME' AND price > 100", subscriber="ops")
    >>> log.commit()
    1
    >>> log.replace("desk", "symbol = 'ACME' AND price > 120")
    >>> log.commit()
    2
    >>> log.at(1)["desk"].where
    "symbol = 'ACME' AND price > 100"

    `add`, `replace` and `remove` are gathered; `commit` makes them a version, all of them or none. An object is for one
    thread; several, in several processes, may write one log.
    """

    def __init__(self, path: str | Path) -> None:
        self._folder = StorageFolder(path)
        self._staged: list[_StagedChange] = []
        self._latest = 0
        self._head = Head(0)
        self._ids: tuple[int, set[str]] | None = None  # the ids at a version, for the checks of writers

    @property
    def path(self) -> str:
        return self._folder.address

    def exists(self) -> bool:
        return self.version > 0

    # Writing

    def add(self, id: str, where: Any, **fields: Unpack[SubscriptionFields]) -> None:
        """Stage an addition for the next commit. An unreadable condition is refused at once."""
        self._stage("add", id, where, fields)

    def replace(self, id: str, where: Any, **fields: Unpack[SubscriptionFields]) -> None:
        """Stage a change for the next commit.

        Subscriber and metadata are kept where they are not given; None removes them.
        """
        self._stage("change", id, where, fields)

    def _stage(self, kind: Literal["add", "change"], id: str, where: Any, fields: SubscriptionFields) -> None:
        language, timezone = fields.get("language", "sql"), fields.get("timezone", "UTC")
        metadata = fields.get("metadata") or {}
        made = _check_subscription(Subscription(id, where, language, fields.get("subscriber"), metadata, timezone))
        # Filled in at the commit, from the version that the change then applies to.
        kept = {"subscriber", "metadata"} - set(fields) if kind == "change" else set[str]()
        self._staged.append(_StagedChange(Change(kind, id, made), frozenset(kept)))

    def remove(self, id: str) -> None:
        """Stage a removal for the next commit."""
        if not isinstance(id, str):
            raise InvalidArgument(f"the id of a subscription is a text, not {id!r:.80}")
        self._staged.append(_StagedChange(Change("remove", id)))

    def extend(self, subscriptions: Iterable[Subscription | Mapping[str, Any]]) -> tuple[Refused, ...]:
        """Stage many additions for the next commit; returns the unusable ones with their reasons.

        They are given as to `match`: a mapping has `id` and `where`, and perhaps `language`, `subscriber` and
        `timezone`; the rest of it is metadata. Costs as much as an index of them.
        """
        found, refused = collect_given(subscriptions)
        given: dict[str, Subscription] = {}
        # A filter is written as its SQL text, which any reader can parse.
        for each in map(_without_filter, found):
            if _is_writable(each):
                given[each.id] = each
            else:
                refused.append(Refused(each.id, _NOT_WRITABLE))
        wants = Wants.gather(given.values())
        self._staged += [_StagedChange(Change("add", id, given[id])) for id in wants.matcher]
        return (*refused, *wants.refused)

    @property
    def staged(self) -> int:
        """How many changes wait for the next commit; no reader sees them before."""
        return len(self._staged)

    def discard(self) -> None:
        """Drop all staged changes."""
        self._staged.clear()

    def commit(self) -> int:
        """Commit the staged changes as one version, and return its number.

        Where another writer was faster, the changes apply to its version: adding an existing id raises
        `DuplicateSubscription`, changing or removing a missing one `UnknownSubscription`, and nothing is written.
        Without staged changes there is no new version, except the first, which creates the log.
        """
        while True:
            version = self.version
            if not self._staged and version:
                return version
            try:
                data, made = self._build_next(version)
            except VersionNotKept:  # other writers have committed and compacted meanwhile
                if self.version == version:
                    raise
                continue
            # The file name is the lock: of all writers of this version one creates it.
            if self._folder.create(_name(_CHANGES, made.number), data) and not self._lost_to_compaction(made):
                self._latest = made.number
                self._head = Head(made.number, made.time, made.digest)
                self._update_ids(made)
                self._staged.clear()
                return made.number
            # Jitter, so that writers that collided do not collide again.
            time.sleep(random.uniform(0, 0.01))

    def _build_next(self, version: int) -> tuple[bytes, Version]:
        """The file and the version that follow a version with the staged changes."""
        self._check_staged(version)
        head = self.head(version)
        # Times in a log never decrease, even where the clocks of its writers differ.
        moment = datetime.now(UTC) if head.time is None else max(datetime.now(UTC), head.time)
        return write_version(version + 1, moment, head.digest, self._changes(version))

    def _lost_to_compaction(self, made: Version) -> bool:
        """Whether another writer had committed this version before, and its file was compacted away since.

        `create` then finds the name free. Compaction writes a snapshot before it removes files, and a snapshot holds
        the digests of the versions before it; a version older than those digests cannot be the one just written.
        """
        later = [number for number in self._numbers(_SNAPSHOTS) if number >= made.number]
        for number in later:
            name = _name(_SNAPSHOTS, number)
            try:
                digest = read_snapshot(self._folder.read(name), self._folder.redacted_address(name), number).digest_of(
                    made.number
                )
            except FileNotFoundError:  # replaced by a later snapshot
                return self._lost_to_compaction(made)
            except SubscriptionLogError:  # damaged
                continue
            if digest != made.digest:
                self._folder.remove(_name(_CHANGES, made.number))
                self._latest = 0
            return digest != made.digest
        return False

    def compact(self, keep: timedelta = RETENTION) -> None:
        """Write a snapshot of the latest version, and remove files that no version younger than `keep` needs.

        Versions that were in force within that time stay readable; a stream that was stopped for longer cannot resume.
        Costs reading the log and writing all subscriptions.
        """
        check_duration("keep", keep)
        version = self.version
        if not version:
            return
        try:
            self._write_snapshot(version)
        except VersionNotKept:  # other writers have committed and compacted meanwhile
            if self.version == version:
                raise
            self.compact(keep)
            return
        self._remove_before(self._in_force(datetime.now(UTC) - keep))
        for folder in (_CHANGES, _SNAPSHOTS):
            self._folder.remove_stale_drafts(folder)

    def _write_snapshot(self, version: int) -> None:
        if self._is_sound(version):
            return
        name, data = _name(_SNAPSHOTS, version), write_snapshot(self.at(version))
        # A sound snapshot by now is another writer's, which may have removed the files that it replaces already.
        if not self._folder.create(name, data) and not self._is_sound(version):
            self._folder.remove(name)
            self._folder.create(name, data)

    def _remove_before(self, oldest: int) -> None:
        """Remove the files that no version from `oldest` on needs: those before the last snapshot up to it."""
        bases = [number for number in self._numbers(_SNAPSHOTS) if number <= oldest]
        base = next((number for number in reversed(bases) if self._is_sound(number)), 0)
        # A crash on the way leaves files that the next compaction removes.
        for folder, last in ((_CHANGES, base), (_SNAPSHOTS, base - 1)):
            for number in self._numbers(folder):
                if number <= last:
                    self._folder.remove(_name(folder, number))

    def _check_staged(self, version: int) -> None:
        """Check that the staged changes apply to a version."""
        known = self._ids_at(version)
        there: dict[str, bool] = {}  # whether an id exists after the changes so far
        for change, _ in self._staged:
            # An addition needs an absent id, every other change a present one.
            if there.get(change.id, change.id in known) == (change.kind == "add"):
                raise (DuplicateSubscription if change.kind == "add" else UnknownSubscription)(change.id)
            there[change.id] = change.kind != "remove"

    def _changes(self, version: int) -> list[Change]:
        """The staged changes, with kept fields filled in from a version."""
        before = self.at(version) if any(kept for _, kept in self._staged) else Snapshot.empty()
        latest: dict[str, Subscription | None] = {}
        changes = []
        for change, kept in self._staged:
            made = change.subscription
            if made is not None and kept:
                old = latest.get(change.id) or before[change.id]
                made = dataclasses.replace(made, **{name: getattr(old, name) for name in kept})
            latest[change.id] = made
            changes.append(Change(change.kind, change.id, made))
        return changes

    def _ids_at(self, version: int) -> set[str]:
        # The ids are advanced by the changes since, which costs less than a rebuild of the version.
        if self._ids is not None and self._ids[0] < version:
            for each in self._between(self._ids[0], version):
                self._update_ids(each)
        if self._ids is None or self._ids[0] != version:
            self._ids = version, {each.id for each in self.at(version)}
        return self._ids[1]

    def _update_ids(self, version: Version) -> None:
        if self._ids is None or self._ids[0] != version.number - 1:
            self._ids = None
            return
        ids = self._ids[1]
        for change in version.changes:
            (ids.discard if change.kind == "remove" else ids.add)(change.id)
        self._ids = version.number, ids

    def _between(self, after: int, upto: int) -> Iterator[Version]:
        """As `versions`; none where they were compacted away."""
        try:
            yield from list(self.versions(after, upto))
        except VersionNotKept:
            return

    # Reading

    @property
    def version(self) -> int:
        """The latest version, looked up now: two requests, whatever the size of the log."""
        # The first call lists both folders; later ones probe for the next file, which is cheaper in an object store.
        if not self._latest:
            self._latest = max([0, *self._numbers(_CHANGES), *self._numbers(_SNAPSHOTS)])
            return self._latest
        while self._folder.has(_name(_CHANGES, self._latest + 1)):
            self._latest += 1
        # The next version may have been committed and compacted away since; then a snapshot includes it.
        if max(self._numbers(_SNAPSHOTS), default=0) > self._latest:
            self._latest = max([*self._numbers(_CHANGES), *self._numbers(_SNAPSHOTS)])
        return self._latest

    @property
    def oldest(self) -> int:
        """The oldest version that can still be read."""
        changes, snapshots = self._numbers(_CHANGES), self._numbers(_SNAPSHOTS)
        return snapshots[0] if snapshots and (not changes or changes[0] > 1) else 0

    def at(self, version: int | None = None) -> Snapshot:
        """The subscriptions at a version, by default the latest.

        Costs reading one snapshot and the versions after it.
        """
        wanted = self.version if version is None else _checked_version(version)
        # A compaction may remove files between the choice of a snapshot and the reading of its successors.
        for _ in range(_MAX_READ_ATTEMPTS):
            try:
                return self._rebuild(wanted)
            except FileNotFoundError:
                continue
        raise self._not_kept(wanted)

    def versions(self, after: int = 0, upto: int | None = None) -> Iterator[Version]:
        """The versions after one, up to another, with their changes and times."""
        last = self.version if upto is None else _checked_version(upto)
        for number in range(_checked_version(after) + 1, last + 1):
            try:
                yield self._version(number)
            except FileNotFoundError:
                raise self._not_kept(number) from None

    def head(self, version: int) -> Head:
        """The time and the digest of a version; costs one file, the first time."""
        if not _checked_version(version) or version == self._head.version:
            return self._head if version else Head(0)
        name = _name(_CHANGES, version)
        try:
            self._head = read_head(self._folder.read(name), self._folder.redacted_address(name), version)
        except FileNotFoundError:
            whole = self.at(version)
            self._head = Head(version, whole.time, whole.digest)
        return self._head

    def _version(self, number: int) -> Version:
        name = _name(_CHANGES, number)
        return read_version(self._folder.read(name), self._folder.redacted_address(name), number)

    def _rebuild(self, version: int) -> Snapshot:
        found, damage = self._base(version)
        try:
            for number in range(found.version + 1, version + 1):
                each = self._version(number)
                if each.previous != found.digest:
                    address = self._folder.redacted_address(_name(_CHANGES, number))
                    raise SubscriptionLogError(
                        address, f"does not follow version {number - 1:,}; is it of another log?"
                    )
                found.apply(each)
        except FileNotFoundError:
            # Changes that a damaged snapshot replaced are gone: then the damage is the reason.
            raise damage or FileNotFoundError() from None
        return found

    def _base(self, version: int) -> tuple[Snapshot, SubscriptionLogError | None]:
        """The latest sound snapshot up to a version, and what is wrong with a later one.

        A damaged one can be done without while the changes are there.
        """
        damage: SubscriptionLogError | None = None
        for number in reversed([each for each in self._numbers(_SNAPSHOTS) if each <= version]):
            name = _name(_SNAPSHOTS, number)
            try:
                return read_snapshot(self._folder.read(name), self._folder.redacted_address(name), number), damage
            except SubscriptionLogError as error:
                _log.warning("%s", error)
                damage = error
        return Snapshot.empty(), damage

    def _is_sound(self, number: int) -> bool:
        name = _name(_SNAPSHOTS, number)
        try:
            read_snapshot(self._folder.read(name), self._folder.redacted_address(name), number)
        except (SubscriptionLogError, FileNotFoundError):
            return False
        return True

    def _in_force(self, moment: datetime) -> int:
        """The version that was in force at a moment, or the oldest that is younger."""
        found = 0
        for number in self._numbers(_CHANGES):
            try:
                if self._version(number).time > moment:
                    return found
            except FileNotFoundError:  # removed by another compaction as old enough
                pass
            found = number
        return self.version

    def _not_kept(self, version: int) -> VersionNotKept:
        latest = self.version
        if version > latest:
            return VersionNotKept(self.path, version, f"is not there; the latest is {latest:,}")
        return VersionNotKept(self.path, version, f"was compacted away; the oldest that is kept is {self.oldest:,}")

    def _numbers(self, folder: str) -> list[int]:
        stems = (name.removesuffix(_SUFFIX) for name in self._folder.names(folder) if name.endswith(_SUFFIX))
        return [int(stem) for stem in stems if stem.isdecimal()]


def _checked_version(version: Any) -> int:
    if type(version) is not int or version < 0:
        raise InvalidArgument(f"a version of a log is a whole number from 0 on, not {version!r:.80}")
    return version


def open_log(address: str) -> SubscriptionLog | None:
    """The log in a folder; None for all other addresses."""
    if not address or Path(address).is_file() or ("://" in address and Path(address).suffix):
        return None
    folder = StorageFolder(address)
    is_log = folder.names(_CHANGES) or folder.names(_SNAPSHOTS)
    return SubscriptionLog(address) if is_log else None


def _name(folder: str, number: int) -> str:
    return f"{folder}/{number:020}{_SUFFIX}"


def _check_subscription(subscription: Subscription) -> Subscription:
    """A subscription that can be written to a log, and used after reading."""
    subscription = _without_filter(subscription)
    if not _is_writable(subscription):
        raise InvalidSubscription(subscription.id, _NOT_WRITABLE)
    text = subscription.language == "sql" and isinstance(subscription.where, str)
    if not (text and BoundTemplate.read(subscription.where, subscription.timezone)):
        _ = subscription.filter
    return subscription


def _without_filter(subscription: Subscription) -> Subscription:
    where = subscription.where
    if not isinstance(where, Filter):
        return subscription
    return Subscription(
        subscription.id, str(where), "sql", subscription.subscriber, subscription.metadata, where.timezone
    )


def _is_writable(subscription: Subscription) -> bool:
    held = [subscription.language, subscription.timezone, subscription.where, dict(subscription.metadata)]
    return is_json(held)


_NOT_WRITABLE: Final = "a log holds what JSON can hold: texts, numbers, lists and objects of them"

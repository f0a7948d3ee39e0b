"""`SubscriptionLog`: subscriptions that come, change and go, in versions that anyone can come back to.

A commit is one file, made as `Place.create` makes files, so that of two writers one gets the next version and the other
finds it taken, looks at what is new, and takes the one after. A reader needs no lock: files never change, and
compaction removes only what a snapshot stands for; a reader whose file is removed under its hands starts again from
that snapshot.
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
    InvalidSubscription,
    SubscriptionLogError,
    UnknownSubscription,
    VersionNotKept,
)
from palio.filters.filter import Filter
from palio.languages.sql.shapes import Shaped
from palio.matching.subscription import Subscription
from palio.spark.log.versions import (
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
from palio.spark.places import Place
from palio.spark.wants import Refused, Wants

KEPT: Final = timedelta(days=7)
_CHANGES: Final = "changes"
_SNAPSHOTS: Final = "snapshots"
_SUFFIX: Final = ".jsonl.zst"
_READINGS: Final = 5  # how often a reader starts again, each time after a compaction
_log = logging.getLogger("palio.spark")


class Said(TypedDict, total=False):
    """What may be said of a subscription beside its condition."""

    language: str
    subscriber: str | None
    metadata: Mapping[str, Any] | None
    timezone: str


class _Staged(NamedTuple):
    """A change to come, and what it keeps of the subscription as it is then."""

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
        self._place = Place(path)
        self._staged: list[_Staged] = []
        self._latest = 0
        self._head = Head(0)
        self._ids: tuple[int, set[str]] | None = None  # the ids at a version, for those who write

    @property
    def path(self) -> str:
        """Where the log is."""
        return self._place.address

    def exists(self) -> bool:
        """Whether there is a log."""
        return self.version > 0

    # Writing

    def add(self, id: str, where: Any, **said: Unpack[Said]) -> None:
        """Add a subscription with the next commit. A condition that cannot be read is refused now."""
        self._stage("add", id, where, said)

    def replace(self, id: str, where: Any, **said: Unpack[Said]) -> None:
        """Change a subscription with the next commit.

        Its subscriber and metadata stay what they are where they are not given; None takes them away.
        """
        self._stage("change", id, where, said)

    def _stage(self, kind: Literal["add", "change"], id: str, where: Any, said: Said) -> None:
        language, timezone = said.get("language", "sql"), said.get("timezone", "UTC")
        metadata = said.get("metadata") or {}
        made = _checked(Subscription(id, where, language, said.get("subscriber"), metadata, timezone))
        kept = {"subscriber", "metadata"} - set(said) if kind == "change" else set[str]()
        self._staged.append(_Staged(Change(kind, id, made), frozenset(kept)))

    def remove(self, id: str) -> None:
        """Remove a subscription with the next commit."""
        self._staged.append(_Staged(Change("remove", id)))

    def extend(self, subscriptions: Iterable[Subscription]) -> tuple[Refused, ...]:
        """Add many with the next commit; those that cannot be used are left out, and told with the reason.

        Costs what an index of them costs.
        """
        refused, given = [], dict[str, Subscription]()
        for each in map(_without_filter, subscriptions):
            if not _is_writable(each):
                refused.append(Refused(each.id, _NOT_WRITABLE))
            elif each.id in given:
                refused.append(Refused(each.id, "another subscription has this id"))
            else:
                given[each.id] = each
        wants = Wants.gather(given.values())
        self._staged += [_Staged(Change("add", id, given[id])) for id in wants.matcher]
        return (*refused, *wants.refused)

    def discard(self) -> None:
        """Forget what was gathered since the last commit."""
        self._staged.clear()

    def commit(self) -> int:
        """Make what was gathered a version, and tell its number.

        Where another writer was faster, the changes are made to that one's version: adding an id that is there by now
        is a `DuplicateSubscription`, changing or removing one that is not is an `UnknownSubscription`, and nothing is
        written then. With nothing gathered there is no new version, but for the first, which makes the log.
        """
        while True:
            version = self.version
            if not self._staged and version:
                return version
            try:
                data, made = self._next(version)
            except VersionNotKept:  # others have gone on, and compacted
                if self.version == version:
                    raise
                continue
            if self._place.create(_name(_CHANGES, made.number), data) and not self._came_too_late(made):
                self._latest = made.number
                self._head = Head(made.number, made.time, made.digest)
                self._note(made)
                self._staged.clear()
                return made.number
            time.sleep(random.uniform(0, 0.01))

    def _next(self, version: int) -> tuple[bytes, Version]:
        """What was gathered as the version after this one."""
        self._check(version)
        head = self.head(version)
        # Time does not run backwards in a log, whatever the clocks of its writers say.
        moment = datetime.now(UTC) if head.time is None else max(datetime.now(UTC), head.time)
        return write_version(version + 1, moment, head.digest, self._changes(version))

    def _came_too_late(self, made: Version) -> bool:
        """Whether the number of a version had been another's, and its file compacted away before this one's was made.

        Compaction writes a snapshot before it removes a file. It tells whose the versions before it were; those of
        long ago were not this one, of which nobody can have read.
        """
        later = [number for number in self._numbers(_SNAPSHOTS) if number >= made.number]
        for number in later:
            name = _name(_SNAPSHOTS, number)
            try:
                digest = read_snapshot(self._place.read(name), self._place.shown(name), number).digest_of(made.number)
            except FileNotFoundError:  # it gave way to a later one
                return self._came_too_late(made)
            except SubscriptionLogError:  # it is damaged, and tells nothing
                continue
            if digest != made.digest:
                self._place.remove(_name(_CHANGES, made.number))
                self._latest = 0
            return digest != made.digest
        return False

    def compact(self, keep: timedelta = KEPT) -> None:
        """Write a snapshot of the present version, and remove what is needed by no version younger than `keep`.

        Versions that were in force within that time can still be read after it; a stream that stood still for longer
        than that cannot go on where it was. Costs reading the log and writing all subscriptions.
        """
        version = self.version
        if not version:
            return
        try:
            self._write_snapshot(version)
        except VersionNotKept:  # others have gone on, and compacted
            if self.version == version:
                raise
            self.compact(keep)
            return
        self._remove_before(self._in_force(datetime.now(UTC) - keep))
        for folder in (_CHANGES, _SNAPSHOTS):
            self._place.sweep(folder)

    def _write_snapshot(self, version: int) -> None:
        if self._is_sound(version):
            return
        name, data = _name(_SNAPSHOTS, version), write_snapshot(self.at(version))
        # One that is sound by now is another's, who may have removed already what it stands for.
        if not self._place.create(name, data) and not self._is_sound(version):
            self._place.remove(name)
            self._place.create(name, data)

    def _remove_before(self, oldest: int) -> None:
        """Remove the files that no version from the oldest on needs: those before the last snapshot up to it."""
        bases = [number for number in self._numbers(_SNAPSHOTS) if number <= oldest]
        base = next((number for number in reversed(bases) if self._is_sound(number)), 0)
        for folder, last in ((_CHANGES, base), (_SNAPSHOTS, base - 1)):
            for number in self._numbers(folder):
                if number <= last:
                    self._place.remove(_name(folder, number))

    def _check(self, version: int) -> None:
        """Whether what was gathered can be done at a version."""
        known = self._ids_at(version)
        there: dict[str, bool] = {}  # what the changes before have made of an id
        for change, _ in self._staged:
            if there.get(change.id, change.id in known) == (change.kind == "add"):
                raise (DuplicateSubscription if change.kind == "add" else UnknownSubscription)(change.id)
            there[change.id] = change.kind != "remove"

    def _changes(self, version: int) -> list[Change]:
        """What was gathered, where a change has what it leaves as it is at a version."""
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
        if self._ids is not None and self._ids[0] < version:
            for each in self._between(self._ids[0], version):
                self._note(each)
        if self._ids is None or self._ids[0] != version:
            self._ids = version, {each.id for each in self.at(version)}
        return self._ids[1]

    def _note(self, version: Version) -> None:
        if self._ids is None or self._ids[0] != version.number - 1:
            self._ids = None
            return
        ids = self._ids[1]
        for change in version.changes:
            (ids.discard if change.kind == "remove" else ids.add)(change.id)
        self._ids = version.number, ids

    def _between(self, after: int, upto: int) -> Iterator[Version]:
        """As `versions`, or none where they are not kept."""
        try:
            yield from list(self.versions(after, upto))
        except VersionNotKept:
            return

    # Reading

    @property
    def version(self) -> int:
        """The latest version, looked up now: two requests, whatever the size of the log."""
        if not self._latest:
            self._latest = max([0, *self._numbers(_CHANGES), *self._numbers(_SNAPSHOTS)])
            return self._latest
        while self._place.has(_name(_CHANGES, self._latest + 1)):
            self._latest += 1
        # The next one may have come, and have been compacted away since; then there is a snapshot that has it.
        if max(self._numbers(_SNAPSHOTS), default=0) > self._latest:
            self._latest = max([*self._numbers(_CHANGES), *self._numbers(_SNAPSHOTS)])
        return self._latest

    @property
    def oldest(self) -> int:
        """The oldest version that can still be read."""
        changes, snapshots = self._numbers(_CHANGES), self._numbers(_SNAPSHOTS)
        return snapshots[0] if snapshots and (not changes or changes[0] > 1) else 0

    def at(self, version: int | None = None) -> Snapshot:
        """The subscriptions at a version, by default the latest; they can be iterated over, and asked by id.

        Costs reading one snapshot and the versions after it.
        """
        wanted = self.version if version is None else version
        for _ in range(_READINGS):
            try:
                return self._rebuild(wanted)
            except FileNotFoundError:
                continue
        raise self._not_kept(wanted)

    def versions(self, after: int = 0, upto: int | None = None) -> Iterator[Version]:
        """The versions after one, up to another, with their changes and times."""
        last = self.version if upto is None else upto
        for number in range(after + 1, last + 1):
            try:
                yield self._version(number)
            except FileNotFoundError:
                raise self._not_kept(number) from None

    def head(self, version: int) -> Head:
        """The time and the digest of a version; costs one file, the first time."""
        if not version or version == self._head.version:
            return self._head if version else Head(0)
        name = _name(_CHANGES, version)
        try:
            self._head = read_head(self._place.read(name), self._place.shown(name), version)
        except FileNotFoundError:
            whole = self.at(version)
            self._head = Head(version, whole.time, whole.digest)
        return self._head

    def _version(self, number: int) -> Version:
        name = _name(_CHANGES, number)
        return read_version(self._place.read(name), self._place.shown(name), number)

    def _rebuild(self, version: int) -> Snapshot:
        found, damage = self._base(version)
        try:
            for number in range(found.version + 1, version + 1):
                each = self._version(number)
                if each.previous != found.digest:
                    place = self._place.shown(_name(_CHANGES, number))
                    raise SubscriptionLogError(place, f"does not follow version {number - 1:,}; is it of another log?")
                found.apply(each)
        except FileNotFoundError:
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
                return read_snapshot(self._place.read(name), self._place.shown(name), number), damage
            except SubscriptionLogError as error:
                _log.warning("%s", error)
                damage = error
        return Snapshot.empty(), damage

    def _is_sound(self, number: int) -> bool:
        name = _name(_SNAPSHOTS, number)
        try:
            read_snapshot(self._place.read(name), self._place.shown(name), number)
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
            except FileNotFoundError:  # somebody else compacts, and found it old enough
                pass
            found = number
        return self.version

    def _not_kept(self, version: int) -> VersionNotKept:
        latest = self.version
        if version > latest:
            return VersionNotKept(self.path, version, f"is not there; the latest is {latest:,}")
        return VersionNotKept(self.path, version, f"was compacted away; the oldest that is kept is {self.oldest:,}")

    def _numbers(self, folder: str) -> list[int]:
        stems = (name.removesuffix(_SUFFIX) for name in self._place.names(folder) if name.endswith(_SUFFIX))
        return [int(stem) for stem in stems if stem.isdecimal()]


def _name(folder: str, number: int) -> str:
    return f"{folder}/{number:020}{_SUFFIX}"


def _checked(subscription: Subscription) -> Subscription:
    """A subscription that can be written, and that can be used when it is read."""
    subscription = _without_filter(subscription)
    if not _is_writable(subscription):
        raise InvalidSubscription(subscription.id, _NOT_WRITABLE)
    text = subscription.language == "sql" and isinstance(subscription.where, str)
    if not (text and Shaped.read(subscription.where, subscription.timezone)):
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

"""Writer thread of a store: group commit of submissions, retention between groups, and the clock of both.

**Group commit.** Making one write durable costs the disk as long as making a hundred durable. While the disk is busy
more submissions arrive; they are the next group, and each gets its own answer. A lone submission is written at once:
no write is delayed to wait for others.

**Full disks.** Where there is no room, entries of the log that nobody waits for are removed, the oldest first, before
anything is refused. What frees space is written with the room in reserve (`disk_space`).

**Retention** of the event log and of abandoned queues. A log of gigabytes that expired while the broker was off must
not stop it for minutes: a step takes a bounded number of rows, and groups are written between two steps. An expired
entry that still waits in a queue, or is not delivered everywhere, leaves the log but stays on disk until it is done.

**Clock.** Timers use a monotonic clock; the log needs the time of day. A wall clock that is wrong for a moment must
neither expire a log nor leave times in it that are years ahead. So a jump of the wall clock is believed only when it
lasts.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Final, NamedTuple

from palio.errors import PalioError, StoreError, StoreFull
from palio.network.log_throttle import LogThrottle
from palio.network.store.disk_space import DiskSpace
from palio.network.store.interface import Acknowledged, DeadLettersRemoved, OnWritten, Retention, Writable
from palio.network.store.schema import NO_ROOM, store_error
from palio.network.store.transaction import Ledger, Transaction
from palio.network.store.wal_checkpoint import WalCheckpoints
from palio.routing.client_messages import SubscribeClient, UnadvertiseClient, UnsubscribeClient
from palio.routing.effects import Finished, Logged, Queued, Record

_MAX_GROUP_SUBMISSIONS: Final = 2_000  # of one transaction
_MAX_GROUP_BYTES: Final = 16 * 2**20  # of the events of one transaction
_TRIM_RETRY_SECONDS: Final = 1.0  # until the log is looked through again after nothing was found to remove
_IDLE_SECONDS: Final = 1.0  # without a submission, after which retention and checkpoints run
_GROUPS_BETWEEN_RETENTION: Final = 50  # while submissions follow each other
# Written before it is checked whether a WAL checkpoint is due. Far less than the writer copies itself: otherwise there
# would always be more than that by the time it looks, and the WAL would never restart.
_WAL_BYTES_BETWEEN_CHECKPOINTS: Final = 256 * 1024
_MIN_TRANSACTION_BYTES: Final = 8 * 4096  # of WAL for a transaction beside its events: a page of each table
RETENTION_STEP_ROWS: Final = 500
MICROSECONDS: Final = 1_000_000
# A correction of the wall clock that is believed at once: this, and a thousandth of the time since it was last read.
_MAX_CORRECTION_SECONDS: Final = 1.0
JUMP_ACCEPTED_SECONDS: Final = 600.0  # after which a lasting jump is believed

log: Final = logging.getLogger("palio.store")


class Submission(NamedTuple):
    entries: Sequence[Writable]
    answer: OnWritten


class Writer:
    """The writer thread, from its construction until `close`."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        ledger: Ledger,
        retention: Retention,
        space: DiskSpace,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._space = space
        self._is_full = False
        self._is_low = space.is_low  # looked at with each checkpoint
        self._next_trim = 0.0  # by the monotonic clock
        self._trims = LogThrottle[str](time.monotonic)
        self._trimmed_bytes = 0  # since the last line of the log
        self._connection = connection
        self._path = path
        self._ledger = ledger
        self._retention = retention
        self._clock = clock
        self._began = self._now()
        self._newest = ledger.counts.log_time
        if self._newest and retention.log_seconds and self._began - self._newest > retention.log_seconds * MICROSECONDS:
            away = (self._began - self._newest) // MICROSECONDS
            log.warning("all of the log is old; it goes if the clock stays so", extra={"seconds": away})
        self._waiting: SimpleQueue[Submission | Event | None] = SimpleQueue()
        self._broken: StoreError | None = None  # the failure after which nothing is written any more
        self._groups_since_retention = 0
        self._wal_bytes = 0  # written since checkpoints were last looked at; an estimate
        self._checkpoints = WalCheckpoints(path, connection)
        self._thread = Thread(target=self._run, name="palio store", daemon=True)
        self._thread.start()

    def submit(self, entries: Sequence[Writable], answer: OnWritten) -> None:
        self._waiting.put(Submission(entries, answer))

    @property
    def takes_events(self) -> bool:
        """Whether events can be written, as far as is known; read by any thread."""
        return not self._is_full and self._broken is None

    def retain(self) -> None:
        """Run retention to its end, and wait for it."""
        done = Event()
        self._waiting.put(done)
        done.wait()

    def change_retention(self, retention: Retention) -> None:
        """Apply other bounds from the next transaction on."""
        self._retention = retention  # read once for each transaction, so that no lock is needed

    def close(self) -> None:
        """Write everything submitted, and end."""
        self._waiting.put(None)
        self._thread.join()
        self._checkpoints.close()  # after the thread that begins checkpoints
        self._space.keep_room_to_open()

    def _run(self) -> None:
        while True:
            group, retention_requests, ends = self._take_group()
            if group:
                self._write(group)
            if retention_requests:
                while self._expire():
                    pass
                for done in retention_requests:
                    done.set()
            if ends:
                return
            if self._broken is None:
                is_idle = not group
                if is_idle:
                    self._look_at_space()
                self._run_retention(is_idle)
                if is_idle or self._is_low or self._wal_bytes > _WAL_BYTES_BETWEEN_CHECKPOINTS:
                    self._checkpoint(is_idle)

    def _take_group(self) -> tuple[list[Submission], list[Event], bool]:
        """Submissions and retention requests that wait, or the first to come; none after an idle time."""
        group: list[Submission] = []
        retention_requests: list[Event] = []
        try:
            each = self._waiting.get(timeout=_IDLE_SECONDS)
            while True:
                if each is None:
                    return group, retention_requests, True
                if isinstance(each, Submission):
                    group.append(each)
                else:
                    retention_requests.append(each)
                # A retention request ends the group: what was submitted before it is written before it runs.
                if retention_requests or len(group) == _MAX_GROUP_SUBMISSIONS:
                    break
                each = self._waiting.get_nowait()
        except Empty:
            pass
        return group, retention_requests, False

    def _write(self, group: list[Submission]) -> None:
        """Commit a group and answer its submissions; a group that does not fit one transaction takes several.

        Where a commit fails each submission is tried alone: on a full disk, acknowledgements need no room, or make it.
        """
        try:
            refused, count = self._commit_making_room(group)
        except StoreError as error:
            if len(group) > 1 and self._broken is None:
                for each in group:
                    self._write([each])
                return
            self._is_full = isinstance(error, StoreFull)
            refused, count = dict.fromkeys(range(len(group)), error), len(group)
        for place, each in enumerate(group[:count]):
            try:
                each.answer(refused.get(place))
            except Exception:  # the other submissions must have their answers all the same
                log.exception("an answer of the store was not taken")
        if count < len(group):
            self._write(group[count:])

    def _commit_making_room(self, group: list[Submission]) -> tuple[dict[int, PalioError], int]:
        """Commit, after old entries of the log have given way where there is no room."""
        frees = all(_frees(each.entries, self._ledger) for each in group)
        needed = 2 * sum(map(_event_bytes, group))
        while True:
            try:
                if self._is_low and not frees and not self._space.admits(_MIN_TRANSACTION_BYTES + needed):
                    raise StoreFull(str(self._path.parent), NO_ROOM)
                return self._commit(group)
            except StoreFull:
                if frees:
                    with self._space.reserve():
                        self._restart_wal()
                        return self._commit(group)
                # An event that would not fit even so must not cost the whole log.
                if needed > self._space.capacity_bytes or not self._make_room(needed):
                    raise

    def _make_room(self, needed: int) -> bool:
        """Remove the oldest entries of the log that nobody waits for; whether there were any."""
        if time.monotonic() < self._next_trim:
            return False
        step = self._space.step_bytes
        freed, wanted = 0, max(step, needed)
        try:
            # What is in the WAL takes the room of new entries until it restarts.
            self._checkpoints.restart()
            if not self._space.admits_after_removal(_MIN_TRANSACTION_BYTES + needed):
                return False
            # Looked for first: the reserve must not be used up where there is nothing to remove.
            while freed < wanted and (up_to := removable_entry(self._connection, self._ledger)) is not None:
                with self._space.reserve():
                    freed += trim_step(self._connection, self._ledger, self._retention, self._now(), up_to, step)
                self._checkpoints.restart()
        except sqlite3.Error as error:
            self._roll_back_after(error)
        self._trimmed_bytes += freed
        if freed and self._trims.note("trim"):
            log.warning("no room left: the oldest of the log went", extra={"bytes": self._trimmed_bytes})
            self._trimmed_bytes = 0
        if not freed:
            self._next_trim = time.monotonic() + _TRIM_RETRY_SECONDS
        return freed > 0 and self._broken is None

    def _commit(self, group: list[Submission]) -> tuple[dict[int, PalioError], int]:
        """Commit as many submissions as fit one transaction: refused ones by index, and the number handled.

        `StoreError` where nothing was written.
        """
        if self._broken is not None:
            raise self._broken
        refused: dict[int, PalioError] = {}
        count = 0
        try:
            transaction = Transaction(self._connection, self._ledger, self._retention, self._now())
            # A deferred transaction would take the write lock at its first write, where SQLite may say that it is busy.
            self._connection.execute("BEGIN IMMEDIATE")
            # A submission that is refused leaves no rows, so that the others of its group still commit.
            while count < len(group) and transaction.bytes < _MAX_GROUP_BYTES:
                try:
                    transaction.apply(group[count].entries)
                except PalioError as error:
                    refused[count] = error
                count += 1
            transaction.finish()
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._roll_back_after(error) from None
        except Exception as error:  # such as a value that no table can hold
            self._roll_back()
            raise StoreError(str(self._path.parent), f"cannot be written: {error!r}") from error
        # Only now: after a rollback the totals in memory must still be those on disk.
        transaction.install_totals()
        self._wal_bytes += _MIN_TRANSACTION_BYTES + transaction.bytes
        if transaction.bytes:
            self._is_full = False
        return refused, count

    def _roll_back_after(self, error: sqlite3.Error) -> StoreError:
        """Roll back after an error, and stop writing for good unless the disk was full.

        After any other failure the state of the disk is unknown: a sync that failed once may report success when it is
        repeated, without having written the lost pages.
        """
        reason = store_error(error, self._path)
        if not isinstance(reason, StoreFull):
            self._broken = reason
        self._roll_back()
        return reason

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            self._broken = store_error(error, self._path)

    def _look_at_space(self) -> None:
        """Notice that there is space again, although nothing was written meanwhile."""
        try:
            self._is_full = self._is_full and not self._space.has_room
            self._space.keep_reserve()
        except sqlite3.Error as error:
            self._roll_back_after(error)

    def _run_retention(self, is_idle: bool) -> None:
        """Expire old entries: to the end when idle, one step now and then when busy."""
        self._groups_since_retention += 1
        if not (is_idle or self._groups_since_retention >= _GROUPS_BETWEEN_RETENTION):
            return
        self._groups_since_retention = 0
        while self._expire() and is_idle and self._waiting.empty():
            pass

    def _expire(self) -> bool:
        """Run a step of retention where one is due."""
        try:
            at = self._retention_time()
            if self._broken is not None or not is_retention_due(self._connection, self._ledger, self._retention, at):
                return False
            expire_step(self._connection, self._ledger, self._retention, at)
            self._wal_bytes += _MIN_TRANSACTION_BYTES
        except sqlite3.Error as error:
            self._roll_back_after(error)
            return False
        except Exception as error:  # the next submission must fail, and not wait for ever for a dead thread
            log.exception("retention failed: expired events cannot be removed from the store")
            self._broken = StoreError(str(self._path.parent), f"the store does not work: {error!r}")
            self._roll_back()
            return False
        return True

    def _checkpoint(self, is_idle: bool) -> None:
        written, self._wal_bytes = self._wal_bytes, 0
        self._is_low = self._space.is_low
        if self._is_low:
            self._restart_wal()
            return
        try:
            self._checkpoints.run(written, is_idle)
        except sqlite3.Error as error:
            self._roll_back_after(error)

    def _restart_wal(self) -> None:
        """Copy all of the WAL, as far as there is room."""
        try:
            self._checkpoints.restart()
        except sqlite3.Error as error:
            self._roll_back_after(error)

    def _retention_time(self) -> RetentionTime:
        """The time by which entries expire, with a doubt as long as the clock may still be wrong after a start."""
        now = self._now()
        if now >= self._began + JUMP_ACCEPTED_SECONDS * MICROSECONDS:
            return RetentionTime(now)
        return RetentionTime(now, self._newest, max(0, min(now, self._began) - self._newest))

    def _now(self) -> int:
        return round(self._clock() * MICROSECONDS)


class RetentionTime(NamedTuple):
    """The time in microseconds. Entries up to `newest`, of earlier incarnations, count as younger by `doubt`.

    A machine may start with a clock that is years ahead. The doubt is the whole time since the last entry of the
    earlier incarnation, so that such a clock expires nothing before it has lasted for `JUMP_ACCEPTED_SECONDS`.
    """

    now: int
    newest: int = 0
    doubt: int = 0

    def age(self, time: int) -> int:
        return self.now - time - (self.doubt if time <= self.newest else 0)


def is_retention_due(connection: sqlite3.Connection, ledger: Ledger, retention: Retention, time: RetentionTime) -> bool:
    """Whether anything has expired."""
    return bool(ledger.orphans) or _expired(connection, ledger, retention, time, 1) > 0


def expire_step(
    connection: sqlite3.Connection,
    ledger: Ledger,
    retention: Retention,
    time: RetentionTime,
    most: int = RETENTION_STEP_ROWS,
) -> None:
    """Remove some expired rows, in a transaction of its own."""
    # A transaction without submissions: it keeps the totals, and frees events that nothing refers to.
    transaction = Transaction(connection, ledger, retention, time.now)
    expired = _expired(connection, ledger, retention, time, most)
    emptied = None
    connection.execute("BEGIN IMMEDIATE")
    if expired:
        _truncate_log(connection, transaction, expired)
    if ledger.orphans:
        emptied = _clear_queue(connection, transaction, ledger.orphans[0], most)
    transaction.finish()
    connection.execute("COMMIT")
    transaction.install_totals()
    if emptied is not None:  # only after the commit; until then its rows are still there
        ledger.orphans.remove(emptied)


def _expired(
    connection: sqlite3.Connection, ledger: Ledger, retention: Retention, time: RetentionTime, most: int
) -> int:
    """Number of the oldest log entries that exceed age or size, up to `most`."""
    counts = ledger.counts
    if counts.log_first == counts.log_next:
        return 0
    oldest = inf if retention.log_seconds is None else round(retention.log_seconds * MICROSECONDS)
    surplus = 0 if retention.log_bytes is None else counts.log_bytes - retention.log_bytes
    expired = 0
    for logged, length in connection.execute(
        "SELECT time, length(data) FROM log WHERE offset >= ? ORDER BY offset LIMIT ?", (counts.log_first, most)
    ):
        if time.age(logged) <= oldest and surplus <= 0:
            break
        surplus -= length
        expired += 1
    return expired


def removable_entry(connection: sqlite3.Connection, ledger: Ledger) -> int | None:
    """The offset of the oldest entry of the log that no queue and no unfinished delivery refers to."""
    [(offset,)] = connection.execute(
        "SELECT min(offset) FROM log WHERE offset >= ?"
        " AND NOT EXISTS (SELECT 1 FROM queue WHERE event = log.offset)"
        " AND NOT EXISTS (SELECT 1 FROM unfinished WHERE unfinished.offset = log.offset)",
        (ledger.counts.log_first,),
    )
    return None if offset is None else int(offset)


def trim_step(
    connection: sqlite3.Connection, ledger: Ledger, retention: Retention, now: int, up_to: int, wanted: int
) -> int:
    """Remove the entries of the log up to an offset and some more, of any age, in a transaction of its own; the bytes
    that are freed.

    An entry that a queue or an unfinished delivery refers to leaves the log, and stays on disk until it is done.
    """
    transaction = Transaction(connection, ledger, retention, now)
    lengths = 0
    for offset, length in connection.execute(
        "SELECT offset, length(data) FROM log WHERE offset >= ? ORDER BY offset LIMIT ?", (up_to, RETENTION_STEP_ROWS)
    ):
        up_to = offset
        lengths += length
        if lengths >= wanted:
            break
    connection.execute("BEGIN IMMEDIATE")
    freed = _truncate_log(connection, transaction, up_to + 1 - ledger.counts.log_first)
    transaction.finish()
    connection.execute("COMMIT")
    transaction.install_totals()
    return freed


def _event_bytes(submission: Submission) -> int:
    return sum(len(each.event.body) for each in submission.entries if isinstance(each, Logged | Queued))


def _frees(entries: Sequence[Writable], ledger: Ledger) -> bool:
    """Whether a submission only removes, or is of a consumer of a queue, who comes to empty it."""
    return all(
        isinstance(each, Acknowledged | Finished | DeadLettersRemoved)
        or (isinstance(each, Record) and isinstance(each.request, UnsubscribeClient | UnadvertiseClient))
        or (
            isinstance(each, Record)
            and isinstance(each.request, SubscribeClient)
            and (each.client, each.request.name) in ledger.queues
        )
        for each in entries
    )


def _truncate_log(connection: sqlite3.Connection, transaction: Transaction, expired: int) -> int:
    """Remove the oldest entries of the log; the bytes of those that nothing refers to."""
    counts = transaction.counts
    first, counts.log_first = counts.log_first, counts.log_first + expired
    [(length,)] = connection.execute(
        "SELECT sum(length(data)) FROM log WHERE offset >= ? AND offset < ?", (first, counts.log_first)
    )
    counts.log_bytes -= length
    # Entries that a queue or an unfinished delivery refers to stay as rows outside the bounds of the log.
    removed = connection.execute(
        "DELETE FROM log WHERE offset >= ? AND offset < ?"
        " AND NOT EXISTS (SELECT 1 FROM queue WHERE event = log.offset)"
        " AND NOT EXISTS (SELECT 1 FROM unfinished WHERE unfinished.offset = log.offset) RETURNING length(data)",
        (first, counts.log_first),
    )
    return sum(length for (length,) in removed.fetchall())


def _clear_queue(connection: sqlite3.Connection, transaction: Transaction, queue: int, most: int) -> int | None:
    """Remove rows of an abandoned queue; its number where nothing is left of it."""
    rows = connection.execute("SELECT number, event FROM queue WHERE queue = ? LIMIT ?", (queue, most)).fetchall()
    connection.executemany("DELETE FROM queue WHERE queue = ? AND number = ?", [(queue, row[0]) for row in rows])
    transaction.free({event for _, event in rows})
    if len(rows) == most:
        return None
    connection.execute("DELETE FROM queues WHERE number = ?", (queue,))
    return queue


class SteadyClock:
    """Seconds since 1970, without transient jumps of `wall`; `steady` is a monotonic clock."""

    __slots__ = ("_candidate", "_lock", "_offset", "_read", "_steady", "_wall")

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._steady = steady
        self._lock = Lock()
        self._read = steady()
        self._offset = wall() - self._read
        self._candidate: tuple[float, float] | None = None  # a new offset, and since when the wall clock shows it

    def __call__(self) -> float:
        with self._lock:
            now = self._steady()
            tolerance = _MAX_CORRECTION_SECONDS + (now - self._read) / 1_000
            self._read = now
            offset = self._wall() - now
            if abs(offset - self._offset) <= tolerance:
                self._offset, self._candidate = offset, None
            elif self._candidate is None or abs(offset - self._candidate[0]) > tolerance:
                self._candidate = offset, now
            elif now - self._candidate[1] >= JUMP_ACCEPTED_SECONDS:
                self._offset, self._candidate = offset, None
            return now + self._offset

"""Writer thread with group commit: all submissions that wait become one transaction.

Making one write durable costs the disk as long as making a hundred durable. While the disk is busy more submissions
arrive; they are the next group, and each gets its own answer. A lone submission is written at once: nothing waits on
purpose. The thread also runs retention and begins WAL checkpoints.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Final, NamedTuple

from palio.errors import PalioError, StoreError, StoreFull
from palio.network.store.interface import OnWritten, Retention, Writable
from palio.network.store.retention import (
    JUMP_ACCEPTED_SECONDS,
    MICROSECONDS,
    RetentionTime,
    expire_step,
    is_retention_due,
)
from palio.network.store.schema import store_error
from palio.network.store.transaction import Ledger, Transaction
from palio.network.store.wal_checkpoint import WalCheckpoints

_MAX_GROUP_SUBMISSIONS: Final = 2_000  # of one transaction
_MAX_GROUP_BYTES: Final = 16 * 2**20  # of the events of one transaction
_IDLE_SECONDS: Final = 1.0  # without a submission, after which retention runs
_GROUPS_BETWEEN_RETENTION: Final = 50  # while submissions follow each other


log: Final = logging.getLogger(__name__)


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
        clock: Callable[[], float] = time.time,
    ) -> None:
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
        self._broken: StoreError | None = None
        self._groups_since_retention = 0
        self._checkpoints = WalCheckpoints(path, connection)
        self._thread = Thread(target=self._run, name="palio store", daemon=True)
        self._thread.start()

    def submit(self, entries: Sequence[Writable], answer: OnWritten) -> None:
        self._waiting.put(Submission(entries, answer))

    def retain(self) -> None:
        """Run retention to its end, and wait for it."""
        done = Event()
        self._waiting.put(done)
        done.wait()

    def close(self) -> None:
        """Write everything submitted, and end."""
        self._waiting.put(None)
        self._thread.join()
        self._checkpoints.close()

    def _run(self) -> None:
        while True:
            group, asked, ends = self._take_group()
            if group:
                self._write(group)
            if asked:
                while self._expire():
                    pass
                for done in asked:
                    done.set()
            if ends:
                return
            if self._broken is None:
                self._run_retention(not group)
                self._checkpoint(not group)

    def _take_group(self) -> tuple[list[Submission], list[Event], bool]:
        """Submissions and retention requests that wait, or the first to come; none after an idle time."""
        group: list[Submission] = []
        asked: list[Event] = []
        try:
            each = self._waiting.get(timeout=_IDLE_SECONDS)
            while True:
                if each is None:
                    return group, asked, True
                if isinstance(each, Submission):
                    group.append(each)
                else:
                    asked.append(each)
                if asked or len(group) == _MAX_GROUP_SUBMISSIONS:
                    break
                each = self._waiting.get_nowait()
        except Empty:
            pass
        return group, asked, False

    def _write(self, group: list[Submission]) -> None:
        """Commit a group; where that fails, each submission alone: some need no room on disk, or make it."""
        try:
            refused, count = self._commit(group)
        except StoreError as error:
            if len(group) > 1 and self._broken is None:
                for each in group:
                    self._write([each])
                return
            refused, count = dict.fromkeys(range(len(group)), error), len(group)
        for place, each in enumerate(group[:count]):
            try:
                each.answer(refused.get(place))
            except Exception:  # the other submissions must have their answers all the same
                log.exception("an answer of the store was not taken")
        if count < len(group):
            self._write(group[count:])

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
        transaction.committed()
        self._checkpoints.count_transaction(transaction.bytes)
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
            self._checkpoints.count_transaction(0)
        except sqlite3.Error as error:
            self._roll_back_after(error)
            return False
        except Exception as error:  # the next submission must fail, and not wait for ever for a dead thread
            log.exception("the store cannot let go of what is old")
            self._broken = StoreError(str(self._path.parent), f"the store does not work: {error!r}")
            self._roll_back()
            return False
        return True

    def _checkpoint(self, is_idle: bool) -> None:
        try:
            self._checkpoints.run(is_idle)
        except sqlite3.Error as error:
            self._roll_back_after(error)

    def _retention_time(self) -> RetentionTime:
        """The time for retention: the clock may be wrong when a machine starts, and is trusted once it lasts."""
        now = self._now()
        if now >= self._began + JUMP_ACCEPTED_SECONDS * MICROSECONDS:
            return RetentionTime(now)
        return RetentionTime(now, self._newest, max(0, min(now, self._began) - self._newest))

    def _now(self) -> int:
        return round(self._clock() * MICROSECONDS)

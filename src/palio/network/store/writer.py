"""Who writes? One thread, and all that waits for it goes to disk together.

Making one write safe costs a disk as long as making a hundred safe. While the disk is busy others come; they are the
next group, one transaction, and each gets its own answer. So nobody waits on purpose: alone, a write goes at once. The
thread also lets go of what is too old, and sees to it that what was written is moved from the WAL to its place.
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
from palio.network.clock import LASTING
from palio.network.store.interface import Answer, Keeping, Writable
from palio.network.store.ledger import Ledger
from palio.network.store.moving import Mover, move_all
from palio.network.store.retention import MICROSECONDS, Time, is_due, let_go
from palio.network.store.schema import named
from palio.network.store.transaction import Transaction

_MOST_TOGETHER: Final = 2_000  # submissions of one transaction
_MOST_BYTES: Final = 16 * 2**20  # of their events
_PAUSE: Final = 1.0  # seconds between looking for what is too old
_GROUPS_BETWEEN: Final = 50  # transactions between two looks, where they follow each other
_STEP: Final = 4 * 2**20  # bytes of WAL that are moved together while others write
_LITTLE: Final = 2**20  # bytes of WAL that the writer moves itself, so that the WAL begins anew
_LONG: Final = 8 * 2**20  # bytes of WAL after which it had better begin anew
_LONGEST: Final = 64 * 2**20  # bytes of WAL at which the writer waits for what is being moved
_LEAST_WRITTEN: Final = 8 * 4096  # by a transaction, beside its events: a page of each table


_logger: Final = logging.getLogger(__name__)


class Submission(NamedTuple):
    entries: Sequence[Writable]
    answer: Answer


class Writer:
    """The thread that writes, from when it is made until `close`."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        ledger: Ledger,
        keeping: Keeping,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._connection = connection
        self._path = path
        self._ledger = ledger
        self._keeping = keeping
        self._clock = clock
        self._began = self._now()
        self._newest = ledger.counts.log_time
        if self._newest and keeping.log_seconds and self._began - self._newest > keeping.log_seconds * MICROSECONDS:
            away = (self._began - self._newest) // MICROSECONDS
            _logger.warning("all of the log is old; it goes if the clock stays so", extra={"seconds": away})
        self._waiting: SimpleQueue[Submission | Event | None] = SimpleQueue()
        self._broken: StoreError | None = None
        self._groups = 0
        self._mover = Mover(path)
        self._wal = 0  # bytes since the WAL began anew, about
        self._unmoved = 0  # of these, how many are not where they belong
        self._moving = 0  # of these, how many are being moved
        self._thread = Thread(target=self._run, name="palio store", daemon=True)
        self._thread.start()

    def submit(self, entries: Sequence[Writable], answer: Answer) -> None:
        self._waiting.put(Submission(entries, answer))

    def retain(self) -> None:
        """Let go of all that is too old or too much, and wait for it."""
        done = Event()
        self._waiting.put(done)
        done.wait()

    def close(self) -> None:
        """Write what was submitted, and end."""
        self._waiting.put(None)
        self._thread.join()
        self._mover.close()

    def _run(self) -> None:
        while True:
            group, asked, ends = self._next_group()
            if group:
                self._write(group)
            if asked:
                while self._let_go():
                    pass
                for done in asked:
                    done.set()
            if ends:
                return
            if self._broken is None:
                self._keep_house(not group)
                self._shorten_wal(not group)

    def _next_group(self) -> tuple[list[Submission], list[Event], bool]:
        """All that waits, or what comes first; nothing after a while in which nothing came."""
        group: list[Submission] = []
        asked: list[Event] = []
        try:
            each = self._waiting.get(timeout=_PAUSE)
            while True:
                if each is None:
                    return group, asked, True
                if isinstance(each, Submission):
                    group.append(each)
                else:
                    asked.append(each)
                if asked or len(group) == _MOST_TOGETHER:
                    break
                each = self._waiting.get_nowait()
        except Empty:
            pass
        return group, asked, False

    def _write(self, group: list[Submission]) -> None:
        """One transaction for all; where that cannot be, one for each: some may take no room, or make it."""
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
            except Exception:  # of whoever asked; others must have their answers all the same
                _logger.exception("an answer of the store was not taken")
        if count < len(group):
            self._write(group[count:])

    def _commit(self, group: list[Submission]) -> tuple[dict[int, PalioError], int]:
        """Which submissions were refused, by their place, and how many were dealt with, before they became too much for
        one transaction; `StoreError` where nothing was written."""
        if self._broken is not None:
            raise self._broken
        refused: dict[int, PalioError] = {}
        count = 0
        try:
            transaction = Transaction(self._connection, self._ledger, self._keeping, self._now())
            self._connection.execute("BEGIN IMMEDIATE")
            while count < len(group) and transaction.bytes < _MOST_BYTES:
                try:
                    transaction.apply(group[count].entries)
                except PalioError as error:
                    refused[count] = error
                count += 1
            transaction.finish()
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._failed(error) from None
        except Exception as error:  # a value that no table can hold
            self._roll_back()
            raise StoreError(str(self._path.parent), f"cannot be written: {error!r}") from error
        transaction.committed()
        self._wrote(transaction.bytes)
        return refused, count

    def _failed(self, error: sqlite3.Error) -> StoreError:
        """Undo a transaction. After any failure but a want of room nobody can say what the disk still keeps: a sync
        that failed once may seem to work when it is asked again. So nothing is written any more in this life."""
        reason = named(error, self._path)
        if not isinstance(reason, StoreFull):
            self._broken = reason
        self._roll_back()
        return reason

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            self._broken = named(error, self._path)

    def _keep_house(self, is_idle: bool) -> None:
        """What can wait, and must not wait for ever."""
        self._groups += 1
        if not (is_idle or self._groups >= _GROUPS_BETWEEN):
            return
        self._groups = 0
        while self._let_go() and is_idle and self._waiting.empty():
            pass

    def _let_go(self) -> bool:
        """A step of retention, where one is due."""
        try:
            at = self._time()
            if self._broken is not None or not is_due(self._connection, self._ledger, self._keeping, at):
                return False
            let_go(self._connection, self._ledger, self._keeping, at)
            self._wrote(0)
        except sqlite3.Error as error:
            self._failed(error)
            return False
        except Exception as error:  # whoever writes next must be told, and not wait for ever
            _logger.exception("the store cannot let go of what is old")
            self._broken = StoreError(str(self._path.parent), f"the store does not work: {error!r}")
            self._roll_back()
            return False
        return True

    def _wrote(self, bytes: int) -> None:
        self._wal += _LEAST_WRITTEN + bytes
        self._unmoved += _LEAST_WRITTEN + bytes

    def _shorten_wal(self, is_idle: bool) -> None:
        """Have it moved to where it belongs. Where that fails all is still in the WAL."""
        if self._mover.is_moving:
            if self._wal < _LONGEST:
                return
            self._mover.wait()
        try:
            self._mover.check()
            self._unmoved, self._moving = self._unmoved - self._moving, 0
            if self._wal > _LONG and self._unmoved <= _LITTLE:
                self._wal = 0 if move_all(self._connection) else self._wal
                self._unmoved = 0
            elif self._unmoved > (0 if is_idle else _STEP):
                self._moving = self._unmoved
                self._mover.begin()
        except sqlite3.Error as error:
            self._moving = 0
            self._failed(error)

    def _time(self) -> Time:
        """A clock may be wrong when a machine starts: how long ago the life before was is believed after a while."""
        now = self._now()
        if now >= self._began + LASTING * MICROSECONDS:
            return Time(now)
        return Time(now, self._newest, max(0, min(now, self._began) - self._newest))

    def _now(self) -> int:
        return round(self._clock() * MICROSECONDS)

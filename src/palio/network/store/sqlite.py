"""The store on disk: SQLite, one thread that writes, and readers beside it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event

from palio.errors import PalioError, StoreError
from palio.network.store.directory import Directory
from palio.network.store.interface import Answer, Keeping, Recovered, Writable
from palio.network.store.ledger import Ledger, read_keys, read_ledger
from palio.network.store.memory import new_node_number
from palio.network.store.reading import DiskDeadLetters, DiskLog, DiskQueue, Reader
from palio.network.store.schema import Safety, errors_of, open_for_writing
from palio.network.store.writer import Writer
from palio.routing import codec
from palio.routing.clients import AdvertiseClient, SubscribeClient
from palio.routing.effects import Client, Home, Logged, Record
from palio.routing.messages import Publish


class SqliteStore:
    """Keeps everything in a directory of its own.

    `durable`: what is answered survives a loss of power. `relaxed`: it survives the end of the process, and a loss of
    power may take the last seconds with it; nothing gets damaged by either.
    """

    def __init__(
        self,
        path: str | Path,
        keeping: Keeping | None = None,
        *,
        safety: Safety = "durable",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._directory = Directory(path)
        self._keeping = keeping or Keeping()
        self._safety = safety
        self._clock = clock
        self._opened: _Opened | None = None
        self.log = DiskLog(lambda: self._open.reader)
        self.dead_letters = DiskDeadLetters(lambda: self._open.reader, lambda: self._open.ledger)

    def open(self) -> Recovered:
        if self._opened is not None:
            raise StoreError(str(self._directory.path), "the store is open already")
        self._directory.hold()
        try:
            path = self._directory.database
            connection = open_for_writing(path, self._safety, self._keeping.disk_bytes)
            try:
                with errors_of(path):
                    ledger = read_ledger(connection)
                    recovered = _recover(connection, ledger, self._keeping.duplicates)
                reader = Reader(path)
                writer = Writer(connection, path, ledger, self._keeping, self._clock)
            except PalioError as error:
                connection.close()
                if isinstance(error, StoreError):
                    raise
                raise StoreError(str(self._directory.path), f"something in the store cannot be read: {error}") from None
        except PalioError:
            self._directory.release()
            raise
        self._opened = _Opened(connection, reader, ledger, writer)
        return recovered

    def submit(self, entries: Sequence[Writable], answer: Answer) -> None:
        self._open.writer.submit(entries, answer)

    def write(self, entries: Sequence[Writable]) -> None:
        written = Event()
        answers: list[PalioError | None] = []

        def answer(error: PalioError | None) -> None:
            answers.append(error)
            written.set()

        self.submit(entries, answer)
        written.wait()
        if answers[0] is not None:
            raise answers[0]

    def queue(self, client: Client, name: str) -> DiskQueue:
        return DiskQueue(self._open.reader, self._open.ledger, (client, name))

    def retain(self) -> None:
        self._open.writer.retain()

    def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.writer.close()
            opened.reader.close()
            opened.connection.close()
            self._directory.release()

    @property
    def _open(self) -> _Opened:
        if self._opened is None:
            raise StoreError(str(self._directory.path), "the store is not open")
        return self._opened


class _Opened:
    """What there is from `open` to `close`."""

    __slots__ = ("connection", "ledger", "reader", "writer")

    def __init__(self, connection: sqlite3.Connection, reader: Reader, ledger: Ledger, writer: Writer) -> None:
        self.connection = connection
        self.reader = reader
        self.ledger = ledger
        self.writer = writer


def _recover(connection: sqlite3.Connection, ledger: Ledger, duplicates: int) -> Recovered:
    """Begin a life: all that the last one left, and a number that none had."""
    known = connection.execute("SELECT node, incarnation FROM identity").fetchone()
    node, incarnation = (new_node_number(), 1) if known is None else (known[0], known[1] + 1)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM identity")
    connection.execute("INSERT INTO identity VALUES (?, ?)", (node, incarnation))
    connection.execute("COMMIT")
    records = []
    for client, request in connection.execute("SELECT client, request FROM records"):
        asked = codec.decode_request(request)
        assert isinstance(asked, SubscribeClient | AdvertiseClient)  # nothing else is kept
        records.append(Record(client, asked))
    unfinished = []
    for offset, publisher, data, key in connection.execute(
        "SELECT log.offset, publisher, data, key FROM unfinished JOIN log ON log.offset = unfinished.offset"
        " ORDER BY unfinished.offset"
    ):
        event = codec.decode_message(data)
        assert isinstance(event, Publish)
        unfinished.append(Logged(event, publisher, key))
        ledger.unfinished[event.id] = (offset, len(data))
    rows = connection.execute("SELECT broker, standing, gone FROM homes ORDER BY broker")
    homes = tuple(Home(broker, standing, bool(gone)) for broker, standing, gone in rows)
    seen = read_keys(connection, duplicates)
    return Recovered(node, incarnation, tuple(records), tuple(unfinished), seen, homes)

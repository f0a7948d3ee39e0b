"""Events and requests to put into a store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from palio import DurableSettings, Event, Filter
from palio.network.data_directory import DATABASE_FILE
from palio.routing import codec
from palio.routing.client_messages import SubscribeClient
from palio.routing.effects import Logged, Queued, Record
from palio.routing.messages import EventId, Publish


def event(sequence: int, *, node: int = 1, incarnation: int = 1, padding: int = 0) -> Publish:
    content = {"symbol": "ACME", "price": sequence, "note": "x" * padding}
    return Publish(
        EventId(node, incarnation, sequence), codec.encode_event(Event.from_dict(content, id=f"{node}-{sequence}"))
    )


def logged(sequence: int, publisher: str = "exchange", *, padding: int = 0) -> Logged:
    return Logged(event(sequence, padding=padding), publisher, b"key %d" % sequence)


def queued(sequence: int, client: str = "desk", *names: str, node: int = 1) -> Queued:
    return Queued(client, names or ("all",), event(sequence, node=node), b"%d-%d" % (node, sequence))


def subscribed(
    name: str, where: str = "price > 100", client: str = "desk", settings: DurableSettings | None = None
) -> Record:
    return Record(client, SubscribeClient(name, Filter.parse(where), durable=settings is not None, settings=settings))


def assert_whole(path: Path) -> None:
    with closing(sqlite3.connect(path / DATABASE_FILE)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

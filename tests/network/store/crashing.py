"""A process that is killed while it writes, again and again; its arguments are a directory, a seed, and how often.

The writer is a fork, so it goes on by the same script as the one that watches it: after the kill, the log says how far
the writer came, the watcher follows its own script to the same place, and what is on disk must be what the script says.
Whatever was confirmed must be among it.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from random import Random

from palio.network.data_directory import DATABASE_FILE
from palio.network.store import wal_checkpoint, writer
from palio.network.store.interface import Acknowledged, DeadLetterAdded, Retention, Writable
from palio.network.store.memory import MemoryStore
from palio.network.store.sqlite import SqliteStore
from palio.routing.client_messages import UnsubscribeClient
from palio.routing.effects import Finished, Queued, Record
from palio.routing.messages import Publish
from tests.network.store.making import logged, queued, subscribed

NAMES = ("a", "b", "c")
KEEPING = Retention(log_bytes=20_000, log_seconds=None, duplicates=50, dead_letters=5)


class Script:
    """What is written, step by step; each logs one event. The memory store is what is expected on disk."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.model = MemoryStore(Retention(log_bytes=None, log_seconds=None, duplicates=50, dead_letters=5))
        self.model.open()
        self.steps = 0
        self.unfinished: list[Publish] = []

    def step(self) -> list[Writable]:
        self.steps += 1
        first = logged(self.steps, padding=self.random.choice((0, 10, 500, 9_000)))
        entries: list[Writable] = [first]
        self.unfinished.append(first.event)
        for _ in range(self.random.randrange(4)):
            entries += self._further()
        self.model.write(entries)
        return entries

    def _further(self) -> list[Writable]:
        choice = self.random.randrange(7)
        name = self.random.choice(NAMES)
        if choice == 0:
            return [queued(self.steps, "desk", *self.random.sample(NAMES, 2), node=7)]
        if choice == 1:
            return [Queued("desk", (name,), self.random.choice(self.unfinished))]
        if choice == 2 and len(self.unfinished) > 3:
            return [Finished(self.unfinished.pop(self.random.randrange(3)).id)]
        if choice in (3, 4):
            waiting = [number for number, _ in self.model.queue("desk", name).read(0, 20)]
            return [Acknowledged("desk", name, tuple(self.random.sample(waiting, len(waiting) // 2)))]
        if choice == 5:
            taken_back = self.random.random() < 0.2
            return [Record("desk", UnsubscribeClient(name)) if taken_back else subscribed(name)]
        return [DeadLetterAdded("desk", name, "why", b"data %d" % self.steps)]


def write_until_killed(path: Path, script: Script, confirm: int) -> None:
    """Keep a few writes under way, and tell of each that is confirmed."""
    chance = Random(script.steps)  # the script's own must be where the watcher's is
    if chance.random() < 0.5:
        # Retention and checkpoints all the time: a kill is to meet them too.
        writer._GROUPS_BETWEEN_RETENTION = 1  # type: ignore[misc]
        writer._WAL_BYTES_BETWEEN_CHECKPOINTS = 0  # type: ignore[misc]
        wal_checkpoint._CHECKPOINT_STEP_BYTES = 0  # type: ignore[misc]
    store = SqliteStore(path, KEEPING)
    store.open()
    while True:
        for _ in range(chance.randrange(5)):
            store.submit(script.step(), lambda error: os.write(confirm, b"." if error is None else b"!") and None)
        store.write(script.step())
        os.write(confirm, b".")


def killed(path: Path, script: Script, chance: Random) -> int:
    """Let a fork write until it is killed; how many writes were confirmed."""
    told, confirm = os.pipe()
    child = os.fork()
    if not child:
        try:
            write_until_killed(path, script, confirm)
        finally:
            os._exit(1)  # a killed process runs no handlers either
    os.close(confirm)
    said = b""
    for _ in range(chance.randrange(6)):
        said += os.read(told, 64)
    time.sleep(chance.random() * 0.03)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the writer ended by itself"
    while more := os.read(told, 65_536):
        said += more
    os.close(told)
    assert b"!" not in said, "a write was refused"
    return len(said)


def check(path: Path, script: Script, least: int) -> None:
    """Follow the script to where the disk is, and compare."""
    with closing(sqlite3.connect(path / DATABASE_FILE)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    store = SqliteStore(path, KEEPING)
    recovered = store.open()
    first, after = store.log.bounds()
    reached = after - 1
    assert reached >= least, f"{least} writes were confirmed, and {reached} are on disk"
    while script.steps < reached:
        script.step()
    model = script.model.open()
    assert set(recovered.records) == set(model.records)
    assert recovered.unfinished == model.unfinished
    assert recovered.seen == model.seen
    assert [each.event for each in store.log.read(first, reached)] == [
        each.event for each in script.model.log.read(first, reached)
    ]
    for name in NAMES:
        assert store.queue("desk", name).read(0, 100_000) == script.model.queue("desk", name).read(0, 100_000)
        assert store.queue("desk", name).size() == script.model.queue("desk", name).size()
    assert [each.data for each in store.dead_letters.read(0, 10)] == [
        each.data for each in script.model.dead_letters.read(0, 10)
    ]
    store.close()


def main(directory: str, seed: int, kills: int) -> None:
    path, script, chance = Path(directory), Script(seed), Random(-seed)
    store = SqliteStore(path, KEEPING)
    store.open()
    store.close()
    for _ in range(kills):
        before = script.steps
        check(path, script, before + killed(path, script, chance))
    print(f"{script.steps:,} writes, {kills:,} kills")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

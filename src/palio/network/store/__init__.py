"""What does a broker remember when it is switched off? `Store` says what can be asked; a disk or memory answers."""

from palio.network.store.interface import (
    Acknowledged,
    Buried,
    DeadLetter,
    Exhumed,
    Keeping,
    LogEntry,
    Recovered,
    Size,
    Store,
)
from palio.network.store.memory import MemoryStore
from palio.network.store.sqlite import SqliteStore

__all__ = [
    "Acknowledged",
    "Buried",
    "DeadLetter",
    "Exhumed",
    "Keeping",
    "LogEntry",
    "MemoryStore",
    "Recovered",
    "Size",
    "SqliteStore",
    "Store",
]

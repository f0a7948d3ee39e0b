"""Files of events and of subscriptions, as the command line reads them.

`.jsonl`, `.ndjson`, `.json`, `.csv` and `.parquet`, each also `.gz`, `.xz` or `.zst`, and standard input as
`-`. None is ever loaded whole.
"""

from palio.cli.reading.events import EventReader, OnError, read_events
from palio.cli.reading.files import STANDARD_INPUT, Kind, kind_of
from palio.cli.reading.subscriptions import SubscriptionLine, read_subscriptions

__all__ = [
    "STANDARD_INPUT",
    "EventReader",
    "Kind",
    "OnError",
    "SubscriptionLine",
    "kind_of",
    "read_events",
    "read_subscriptions",
]

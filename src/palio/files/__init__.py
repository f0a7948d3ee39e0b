"""Files of events and of subscriptions, as the command line and the Spark pipeline read them.

`.jsonl`, `.ndjson`, `.json`, `.csv` and `.parquet`, each also `.gz`, `.xz` or `.zst`; from disk, from whatever Arrow
can open by its address (`s3://…`, `gs://…`), and from standard input as `-`. None is ever loaded whole.
"""

from palio.files.events import EventReader, OnError, read_events
from palio.files.folders import is_of_conditions
from palio.files.line import SubscriptionLine
from palio.files.sources import STANDARD_INPUT, Kind, kind_of
from palio.files.subscriptions import read_subscriptions

__all__ = [
    "STANDARD_INPUT",
    "EventReader",
    "Kind",
    "OnError",
    "SubscriptionLine",
    "is_of_conditions",
    "kind_of",
    "read_events",
    "read_subscriptions",
]

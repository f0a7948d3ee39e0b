"""Files of events and of subscriptions, as the command line and the Spark pipeline read them.

`.jsonl`, `.ndjson`, `.json`, `.csv`, `.parquet` and, for events, `.xml`, each also `.gz`, `.xz` or `.zst`; from disk,
from whatever Arrow can open by its address (`s3://…`, `gs://…`), and from standard input as `-`. None but an XML
document is ever loaded whole.
"""

from palio.files.document_files import DocumentFiles, are_documents
from palio.files.events import EventReader, OnError, read_events
from palio.files.input_file import STANDARD_INPUT, FileKind, kind_of
from palio.files.subscriptions import SubscriptionLine, is_condition_path, read_subscriptions

__all__ = [
    "STANDARD_INPUT",
    "DocumentFiles",
    "EventReader",
    "FileKind",
    "OnError",
    "SubscriptionLine",
    "are_documents",
    "is_condition_path",
    "kind_of",
    "read_events",
    "read_subscriptions",
]

"""Files of events and of subscriptions, as the command line and the Spark pipeline read them.

`.jsonl`, `.ndjson`, `.json`, `.csv`, `.parquet` and, for events, `.xml`, each also `.gz`, `.xz` or `.zst`; from disk,
from whatever Arrow can open by its address (`s3://…`, `gs://…`), and from standard input as `-`. None but an XML
document is ever loaded whole.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

# At first use: an index is opened by its path alone, and the readers would take longer to import than that takes.
_LAZY_MODULES = {
    "STANDARD_INPUT": "input_file",
    "DocumentFiles": "document_files",
    "EventReader": "events",
    "FileKind": "input_file",
    "OnError": "events",
    "SubscriptionLine": "subscriptions",
    "are_documents": "document_files",
    "is_condition_path": "subscriptions",
    "kind_of": "input_file",
    "read_events": "events",
    "read_subscriptions": "subscriptions",
}


if not TYPE_CHECKING:  # a type checker has the imports above

    def __getattr__(name: str) -> Any:
        module = _LAZY_MODULES.get(name)
        if module is None:
            raise AttributeError(f"module 'palio.files' has no attribute {name!r}")
        value = getattr(import_module(f"palio.files.{module}"), name)
        globals()[name] = value
        return value

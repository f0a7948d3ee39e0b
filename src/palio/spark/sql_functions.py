"""SQL function for those who write SQL alone: `palio_matches('wants.jsonl', struct(*))`.

Spark takes functions in Python from Python only, and for one session: its parser refuses `LANGUAGE PYTHON`, and a
persistent function may not refer to a temporary one. So one call registers one function, and the rest is SQL, which
names the subscriptions in each call. Rejected: a table function, because Spark calls those row by row unless their
columns are fixed; a data source, which needs no registration, but can read files only, no tables or views.

The subscriptions are read by the workers, once in each process, and again by the first task after they have changed. A
saved index is only mapped, so it is the form for very many.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from palio.errors import PipelineError
from palio.matching.matcher import Matcher
from palio.spark.argument_checks import check_session
from palio.spark.attributes import is_case_sensitive
from palio.spark.column_functions import TypedMatcher, given_columns
from palio.spark.projection import session_zone
from palio.spark.record_batches import as_arrow_udf, group_into_lists
from palio.spark.subscription_log import open_log
from palio.spark.subscriptions import (
    SAVED_INDEX_SUFFIX,
    Wants,
    is_parquet_folder,
    parquet_files,
    read_files,
    refusal_messages,
)
from palio.spark.worker_warnings import WorkerWarnings
from palio.spark.workers import choose_worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SQL_FUNCTION: Final = "palio_matches"
_MAX_OPEN_SUBSCRIPTIONS: Final = 4  # in a worker
_opened: OrderedDict[tuple[str, str], tuple[Hashable, Wants]] = OrderedDict()


def register(spark: SparkSession | None = None) -> None:
    """Register `palio_matches` in a session, for SQL: `SELECT *, palio_matches('wants.jsonl', struct(*)) FROM quotes`.

    It takes the address of subscriptions and a struct of all columns, and gives the ids of the subscriptions that match
    a row, as an array of strings. The subscriptions are a file or a folder as the command line reads them, a folder of
    Parquet files, a saved index (`.palio`) or a `SubscriptionLog`, then its latest version; workers must reach the
    address. A relative path starts in the working folder of now, and literals without a zone are read in the time zone
    that the session has now.

    Each worker process reads the subscriptions once and indexes them, some 30 µs each; a saved index is mapped.
    """
    from pyspark.sql import SparkSession as Session

    session = Session.getActiveSession() if spark is None else spark
    if session is None:
        raise PipelineError("there is no Spark session yet; start one, or hand it in: register(spark)")
    check_session(session)
    choose_worker_python(session)
    warn = WorkerWarnings(session).warn
    function = _build_function(Path.cwd(), is_case_sensitive(session), session_zone(session), warn)
    session.udf.register(SQL_FUNCTION, function)


def _build_function(folder: Path, case_sensitive: bool, zone: str, warn: Callable[[str], None]) -> Any:
    opened: dict[str, TypedMatcher] = {}  # by this task: its rows are matched with one version

    def palio_matches(*arguments: pa.Array) -> pa.Array:
        address = _address(arguments, folder)
        if address not in opened:
            wants = open_subscriptions(address, zone)
            for message in refusal_messages(wants.refused):
                warn(f"{address}: {message}")
            opened[address] = TypedMatcher(wants.matcher, case_sensitive, zone, warn)
        rows, ids = opened[address].match(given_columns(arguments[1:], []), len(arguments[1]))
        return group_into_lists(rows, ids, len(arguments[1]))

    return as_arrow_udf(palio_matches, "array<string>")


def _address(arguments: Sequence[pa.Array], folder: Path) -> str:
    """The address of the subscriptions; refuses a call with other arguments."""
    types = [each.type for each in arguments]
    if len(types) != 2 or not _is_text(types[0]) or not pa.types.is_struct(types[1]):
        given = ", ".join(map(str, types))
        raise PipelineError(
            f"{SQL_FUNCTION} takes the address of subscriptions and a struct of all columns, "
            f"{SQL_FUNCTION}('wants.jsonl', struct(*)), not ({given})"
        )
    addresses = arguments[0].unique().to_pylist()
    if len(addresses) != 1 or not addresses[0]:
        raise PipelineError(f"{SQL_FUNCTION} takes one address of subscriptions for all rows, not {addresses[:3]}")
    # The working folder of a worker is that of the JVM.
    return str(addresses[0] if "://" in addresses[0] else folder / addresses[0])


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def open_subscriptions(address: str, zone: str) -> Wants:
    """The subscriptions at an address, in the state of now; read only where that has changed since the last call."""
    if address.endswith(SAVED_INDEX_SUFFIX):
        return Wants(Matcher.open(address))
    log = open_log(address)
    state: Hashable = _file_state(address) if log is None else log.version
    known = _opened.get((address, zone))
    if known is not None and state is not None and known[0] == state:
        _opened.move_to_end((address, zone))
        return known[1]
    wants = _read(address, zone) if log is None else Wants.gather(log.at(log.version))
    _opened[address, zone] = state, wants
    if len(_opened) > _MAX_OPEN_SUBSCRIPTIONS:
        _opened.popitem(last=False)
    return wants


def _file_state(address: str) -> Hashable:
    """What changes when the files at a path change; None where that is unknown, as in an object store."""
    path = Path(address)
    if not path.exists():
        return None
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    status = [each.stat() for each in files]
    return tuple((str(file), each.st_mtime_ns, each.st_size) for file, each in zip(files, status, strict=True))


def _read(address: str, zone: str) -> Wants:
    return read_files(parquet_files(address) if is_parquet_folder(address) else [address], zone)

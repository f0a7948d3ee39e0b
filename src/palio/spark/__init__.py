"""How does Palio run on a Spark cluster, and on Spark's own terms? DataFrames in, DataFrames out.

Needs the extra `spark`. The session is the caller's, and is never stopped here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palio.spark.annotating import annotate as annotate
    from palio.spark.estimating import Estimate as Estimate
    from palio.spark.estimating import estimate as estimate
    from palio.spark.functions import matches as matches
    from palio.spark.functions import matching_function as matching_function
    from palio.spark.generating import generate as generate
    from palio.spark.log import SubscriptionLog as SubscriptionLog
    from palio.spark.matching import match as match
    from palio.spark.reducing import covering as covering
    from palio.spark.rendezvous.sampling import Rendezvous as Rendezvous
    from palio.spark.session import open_session as open_session
    from palio.spark.sinks import DeltaSink as DeltaSink
    from palio.spark.sinks import HttpSink as HttpSink
    from palio.spark.sinks import NatsSink as NatsSink
    from palio.spark.sinks import PalioSink as PalioSink
    from palio.spark.sinks import ParquetSink as ParquetSink
    from palio.spark.sources import NatsSource as NatsSource
    from palio.spark.sources import PalioSource as PalioSource
    from palio.spark.streaming.backfill import backfill as backfill
    from palio.spark.streaming.journal import progress as progress
    from palio.spark.streaming.stream import stream as stream
    from palio.spark.sweeping import sweep as sweep
    from palio.spark.wants import Refused as Refused
    from palio.spark.wants import Wants as Wants

_HOMES = {
    "DeltaSink": "palio.spark.sinks",
    "Estimate": "palio.spark.estimating",
    "HttpSink": "palio.spark.sinks",
    "NatsSink": "palio.spark.sinks",
    "NatsSource": "palio.spark.sources",
    "PalioSink": "palio.spark.sinks",
    "PalioSource": "palio.spark.sources",
    "ParquetSink": "palio.spark.sinks",
    "Refused": "palio.spark.wants",
    "Rendezvous": "palio.spark.rendezvous.sampling",
    "SubscriptionLog": "palio.spark.log",
    "Wants": "palio.spark.wants",
    "annotate": "palio.spark.annotating",
    "backfill": "palio.spark.streaming.backfill",
    "covering": "palio.spark.reducing",
    "estimate": "palio.spark.estimating",
    "generate": "palio.spark.generating",
    "match": "palio.spark.matching",
    "matches": "palio.spark.functions",
    "matching_function": "palio.spark.functions",
    "open_session": "palio.spark.session",
    "progress": "palio.spark.streaming.journal",
    "stream": "palio.spark.streaming.stream",
    "sweep": "palio.spark.sweeping",
}

__all__ = [
    "DeltaSink",
    "Estimate",
    "HttpSink",
    "NatsSink",
    "NatsSource",
    "PalioSink",
    "PalioSource",
    "ParquetSink",
    "Refused",
    "Rendezvous",
    "SubscriptionLog",
    "Wants",
    "annotate",
    "backfill",
    "covering",
    "estimate",
    "generate",
    "match",
    "matches",
    "matching_function",
    "open_session",
    "progress",
    "stream",
    "sweep",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'palio.spark' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

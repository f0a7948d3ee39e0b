"""The pipeline on Apache Spark: DataFrames in, DataFrames out.

Needs the extra `spark`. The session belongs to the caller and is never stopped here. Names are loaded when they are
first used, so that importing the package costs nothing. On a machine without any Java, importing it sets `JAVA_HOME` to
the one that the extra brings, so that `SparkSession.builder` can start; see `java`. No module here is named as a public
function is: importing the module would replace the function in this namespace.
"""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palio.spark.column_functions import annotate as annotate
    from palio.spark.column_functions import matches as matches
    from palio.spark.column_functions import matching_function as matching_function
    from palio.spark.document_synopsis import synopsis as synopsis
    from palio.spark.documents import read_documents as read_documents
    from palio.spark.experiment_jobs import generate as generate
    from palio.spark.experiment_jobs import sweep as sweep
    from palio.spark.match_job import match as match
    from palio.spark.physical_plan import Rendezvous as Rendezvous
    from palio.spark.ring_planning import RingPlan as RingPlan
    from palio.spark.ring_planning import ring_plan as ring_plan
    from palio.spark.session import open_session as open_session
    from palio.spark.sinks.broker import PalioSink as PalioSink
    from palio.spark.sinks.delta import DeltaSink as DeltaSink
    from palio.spark.sinks.http import HttpSink as HttpSink
    from palio.spark.sinks.nats import NatsSink as NatsSink
    from palio.spark.sinks.parquet import ParquetSink as ParquetSink
    from palio.spark.sources.broker import PalioSource as PalioSource
    from palio.spark.sources.nats import NatsSource as NatsSource
    from palio.spark.sql_functions import register as register
    from palio.spark.streaming.backfill import backfill as backfill
    from palio.spark.streaming.commit_journal import progress as progress
    from palio.spark.streaming.progress_listener import ProgressListener as ProgressListener
    from palio.spark.streaming.stream import stream as stream
    from palio.spark.subscription_analysis import Estimate as Estimate
    from palio.spark.subscription_analysis import covering as covering
    from palio.spark.subscription_analysis import estimate as estimate
    from palio.spark.subscription_log import SubscriptionLog as SubscriptionLog
    from palio.spark.subscriptions import Refused as Refused
    from palio.spark.subscriptions import Wants as Wants

_MODULES = {
    "DeltaSink": "sinks.delta",
    "Estimate": "subscription_analysis",
    "HttpSink": "sinks.http",
    "NatsSink": "sinks.nats",
    "NatsSource": "sources.nats",
    "PalioSink": "sinks.broker",
    "PalioSource": "sources.broker",
    "ParquetSink": "sinks.parquet",
    "ProgressListener": "streaming.progress_listener",
    "Refused": "subscriptions",
    "Rendezvous": "physical_plan",
    "RingPlan": "ring_planning",
    "SubscriptionLog": "subscription_log",
    "Wants": "subscriptions",
    "annotate": "column_functions",
    "backfill": "streaming.backfill",
    "covering": "subscription_analysis",
    "estimate": "subscription_analysis",
    "generate": "experiment_jobs",
    "match": "match_job",
    "matches": "column_functions",
    "matching_function": "column_functions",
    "open_session": "session",
    "progress": "streaming.commit_journal",
    "read_documents": "documents",
    "register": "sql_functions",
    "ring_plan": "ring_planning",
    "stream": "streaming.stream",
    "synopsis": "document_synopsis",
    "sweep": "experiment_jobs",
}

__all__ = list(_MODULES)

if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
    import_module("palio.spark.java").provide_java()


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'palio.spark' has no attribute {name!r}")
    value = getattr(import_module(f"palio.spark.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

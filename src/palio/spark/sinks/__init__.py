"""Where matches go, each batch of a stream once.

A sink is called with the matches of a batch and with the batch; it may be called again with the same ones, after
something died, and must then leave what it would have left had it been called once. Those here do; any other callable
is a sink too.
"""

from palio.spark.sinks.addresses import is_pushed, open_sink
from palio.spark.sinks.broker import PalioSink
from palio.spark.sinks.delta import DeltaSink
from palio.spark.sinks.http import HttpSink
from palio.spark.sinks.nats import NatsSink
from palio.spark.sinks.parquet import ParquetSink
from palio.spark.sinks.sink import Batch, Sink, Taken

__all__ = [
    "Batch",
    "DeltaSink",
    "HttpSink",
    "NatsSink",
    "PalioSink",
    "ParquetSink",
    "Sink",
    "Taken",
    "is_pushed",
    "open_sink",
]

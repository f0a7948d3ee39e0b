"""Sinks by their address, for those who name them in one word: `hits/`, `delta:hits`, `nats://…`, `https://…`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from palio.errors import PipelineError
from palio.spark.nats_connection import SCHEMES, read_address
from palio.spark.places import public
from palio.spark.sinks.delta import DeltaSink
from palio.spark.sinks.http import HttpSink
from palio.spark.sinks.nats import NatsSink
from palio.spark.sinks.parquet import ParquetSink
from palio.spark.sinks.sink import Sink

_DELTA: Final = "delta:"
_HTTP: Final = ("http://", "https://")


def open_sink(address: str, *, key: Sequence[str] = (), undelivered: Sink | None = None) -> Sink:
    """The sink at an address.

    `hits/` is a folder of Parquet, `delta:hits` and `delta:s3://…` a Delta table. `nats://localhost:4222/hits.{subscriber}`
    is a subject of JetStream and `https://…` a URL to post to; these need a `key`, the columns that tell one event from
    another, and put what nobody takes into `undelivered`.
    """
    if address.startswith(_DELTA):
        return DeltaSink(address.removeprefix(_DELTA))
    if not address.startswith((*_HTTP, *SCHEMES)):
        return ParquetSink(address)
    if not key:
        raise PipelineError(
            f"{public(address)}: say which columns tell one event from another, so that a repeat can be told"
        )
    if address.startswith(_HTTP):
        return HttpSink(address, key=key, dead_letters=undelivered)
    read, subject = read_address(address, "the subject to publish to, such as hits.{subscription_id}")
    options: dict[str, Any] = {**read}
    return NatsSink(options.pop("servers"), subject, key=key, dead_letters=undelivered, **options)

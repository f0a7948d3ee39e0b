"""Sinks by their address, for those who name them in one word: `hits/`, `delta:hits`, `nats://…`, `https://…`,
`palio://…`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from palio.errors import PipelineError
from palio.spark import broker_connection, nats_connection
from palio.spark.places import public
from palio.spark.sinks.broker import PalioSink
from palio.spark.sinks.delta import DeltaSink
from palio.spark.sinks.http import HttpSink
from palio.spark.sinks.nats import NatsSink
from palio.spark.sinks.parquet import ParquetSink
from palio.spark.sinks.sink import Sink

_DELTA: Final = "delta:"
_HTTP: Final = ("http://", "https://")


def open_sink(
    address: str,
    *,
    key: Sequence[str] = (),
    undelivered: Sink | None = None,
    broker: Mapping[str, str] | None = None,
) -> Sink:
    """The sink at an address.

    `hits/` is a folder of Parquet, `delta:hits` and `delta:s3://…` a Delta table. `nats://localhost:4222/hits.{subscriber}`
    is a subject of JetStream, `https://…` a URL to post to, `palio://localhost:7420` a broker, for which `broker` has
    options that its address may lack. These need a `key`, the columns that tell one event from another, and put what
    nobody takes into `undelivered`.
    """
    if address.startswith(_DELTA):
        return DeltaSink(address.removeprefix(_DELTA))
    if not is_pushed(address):
        return ParquetSink(address)
    if not key:
        raise PipelineError(
            f"{public(address)}: say which columns tell one event from another, so that a repeat can be told"
        )
    if address.startswith(_HTTP):
        return HttpSink(address, key=key, dead_letters=undelivered)
    if address.startswith(broker_connection.SCHEMES):
        told: dict[str, Any] = {**(broker or {}), **broker_connection.read_address(address)}
        return PalioSink(key=key, dead_letters=undelivered, **told)
    read, subject = nats_connection.read_address(address, "the subject to publish to, such as hits.{subscription_id}")
    options: dict[str, Any] = {**read}
    return NatsSink(options.pop("servers"), subject, key=key, dead_letters=undelivered, **options)


def is_pushed(address: str) -> bool:
    """Whether matches are sent there one by one, and not written in files."""
    return address.startswith((*_HTTP, *nats_connection.SCHEMES, *broker_connection.SCHEMES))

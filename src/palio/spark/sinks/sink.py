"""Sink protocol, and the registry that opens a sink by its address.

A sink is called with the matches of a batch. After a failure it may be called again with the same batch, and must then
leave what one call would have left. To add a sink: write a module beside this one with a class that satisfies `Sink`,
and name its address scheme in `open_sink`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from palio.errors import PipelineError
from palio.spark.connections import BROKER_SCHEMES, NATS_SCHEMES, read_broker_address, read_nats_address
from palio.spark.storage import redact

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DELTA_PREFIX: Final = "delta:"
_HTTP_SCHEMES: Final = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class Batch:
    """Identity of a batch: equal when the batch is run again, different from every other batch of any stream."""

    stream: str
    """Random name of the stream, made with its checkpoint."""
    number: int
    version: int
    """Version of the subscription log that the batch is matched with."""
    time: datetime
    """Start of the first run of the batch."""

    @property
    def key(self) -> str:
        return f"{self.stream}-{self.number:012}"


@dataclass(frozen=True, slots=True)
class Taken:
    """Answer of a sink that has all matches, with their number."""

    matches: int
    is_replay: bool = False
    """Whether an earlier run of the batch has delivered them. The sink has read none now."""


class Sink(Protocol):
    """Callable that takes the matches of a batch; an answer other than `Taken` leaves their number unknown.

    A sink may also have methods that a stream calls before it starts: `check(schema)`, and, unless the sink is reached
    from a server of Spark Connect only, `check_stored(schema)`, which may look at what it holds.
    """

    def __call__(self, matches: DataFrame, batch: Batch) -> object: ...


def open_sink(
    address: str,
    *,
    key: Sequence[str] = (),
    undelivered: Sink | None = None,
    broker: Mapping[str, str] | None = None,
) -> Sink:
    """Open the sink at an address.

    `hits/` is a folder of Parquet, `delta:hits` and `delta:s3://…` a Delta table. `nats://localhost:4222/hits.{subscriber}`
    is a subject of JetStream, `https://…` a URL to post to, `palio://localhost:7420` a broker, for which `broker` has
    options that its address may lack. The last three need a `key`, the columns that identify an event, and put matches
    that a server refuses into `undelivered`.
    """
    # Every sink imports this module for `Batch` and `Sink`.
    from palio.spark.sinks.broker import PalioSink
    from palio.spark.sinks.delta import DeltaSink
    from palio.spark.sinks.http import HttpSink
    from palio.spark.sinks.nats import NatsSink
    from palio.spark.sinks.parquet import ParquetSink

    if address.startswith(_DELTA_PREFIX):
        return DeltaSink(address.removeprefix(_DELTA_PREFIX))
    if not is_push_address(address):
        return ParquetSink(address)
    if not key:
        raise PipelineError(
            f"{redact(address)}: say which columns tell one event from another, so that a receiver can deduplicate"
        )
    if address.startswith(_HTTP_SCHEMES):
        return HttpSink(address, key=key, dead_letters=undelivered)
    if address.startswith(BROKER_SCHEMES):
        broker_options: dict[str, Any] = {**(broker or {}), **read_broker_address(address)}
        return PalioSink(key=key, dead_letters=undelivered, **broker_options)
    read, subject = read_nats_address(address, "the subject to publish to, such as hits.{subscription_id}")
    nats_options: dict[str, Any] = {**read}
    return NatsSink(nats_options.pop("servers"), subject, key=key, dead_letters=undelivered, **nats_options)


def is_push_address(address: str) -> bool:
    """Whether matches are sent to a server one by one, instead of being written to files."""
    return address.startswith((*_HTTP_SCHEMES, *NATS_SCHEMES, *BROKER_SCHEMES))

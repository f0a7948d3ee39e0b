"""Events that come as messages of a server: what is said about each, and its payload, which is JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from palio.filters.filter import Filter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MESSAGE: Final = "message"
PAYLOAD: Final = "data"


@dataclass(frozen=True)
class Messages:
    """Where messages are: a source of Spark's, by its name, with its options."""

    format: str
    options: Mapping[str, str]
    about: tuple[str, ...]
    """The columns that say something about a message; together they tell it from any other."""
    payload: str

    @classmethod
    def at(cls, address: str, broker: Mapping[str, str]) -> Messages | None:
        """The messages at an address of NATS or of Palio's brokers, for which `broker` has further options."""
        from palio.spark import broker_connection, nats_connection
        from palio.spark.sources import broker as palio
        from palio.spark.sources import nats
        from palio.spark.sources.options import check_options

        if address.startswith(nats_connection.SCHEMES):
            options, stream = nats_connection.read_address(address, "a stream of JetStream")
            check_options("nats", options, nats.OPTIONS)
            about = ("stream", "subject", "sequence", "time", "headers")
            return cls("nats", {"stream": stream, **options}, about, "data")
        if address.startswith(broker_connection.SCHEMES):
            options = {**broker, **broker_connection.read_address(address)}
            check_options("palio", options, palio.OPTIONS)
            broker_connection.Brokers.from_options(options)  # what is wrong is told here, before Spark starts
            Filter.parse(options.get("where", "true"))
            return cls("palio", options, ("node", "offset", "logged", "id", "source", "time"), "event")
        return None

    def load(self, spark: SparkSession, reader: Any) -> DataFrame:
        """The messages: a `message` with what is said about it, and its payload as a text in `data`."""
        from pyspark.sql import functions as sql

        from palio.spark.sources import NatsSource, PalioSource

        for source in (NatsSource, PalioSource):
            spark.dataSource.register(source)
        messages: DataFrame = reader.format(self.format).options(**self.options).load()
        payload = sql.col(self.payload).cast("string")
        return messages.select(sql.struct(*self.about).alias(MESSAGE), payload.alias(PAYLOAD))

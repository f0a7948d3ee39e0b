"""Where events come from that Spark does not know by itself: its Python data sources, over anything with offsets."""

from palio.spark.sources.broker import PalioSource
from palio.spark.sources.nats import NatsSource

__all__ = ["NatsSource", "PalioSource"]

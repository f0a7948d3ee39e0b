"""All systems, by name, in the order of the table."""

from __future__ import annotations

from beside.of_mosquitto import MOSQUITTO
from beside.of_nats import NATS, NATS_MATCHER, NATS_MATCHER_SENDS
from beside.of_palio import PALIO, PALIO_ALL
from beside.of_rabbitmq import RABBITMQ
from beside.of_redis import REDIS
from beside.system import System

SYSTEMS: dict[str, System] = {
    each.name: each for each in (PALIO, NATS, RABBITMQ, REDIS, MOSQUITTO, NATS_MATCHER_SENDS, PALIO_ALL, NATS_MATCHER)
}

"""RabbitMQ's headers exchange knows equality: a subscriber gets its group, a twentieth, and filters by the price."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from beside.system import Publish, Running, System, each_on_its_own, found, free_port, started
from beside.tally import Tally
from beside.work import compiled, group_of, read_seen

SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"  # Debian's own command changes the user and the folder first
EXCHANGE = "amq.headers"  # which every server has


@contextmanager
def serve() -> Iterator[Running]:
    """A node with everything of its own, the daemon that knows nodes by name among it."""
    port, names, distribution = free_port(), free_port(), free_port()
    with tempfile.TemporaryDirectory() as place:
        config = Path(place) / "rabbitmq.conf"
        config.write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\ntcp_listen_options.backlog = 4096\n")
        told = {
            "HOME": place,
            "ERL_EPMD_PORT": str(names),
            "RABBITMQ_NODENAME": f"palio{port}@localhost",
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_MNESIA_BASE": place,
            "RABBITMQ_LOG_BASE": place,
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{place}/plugins",
            "RABBITMQ_PID_FILE": f"{place}/pid",
        }
        environment = {**os.environ, **told}
        daemon = subprocess.Popen(["epmd"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            command = SERVER if Path(SERVER).exists() else str(found("rabbitmq-server"))
            with started([command], port, "amqp", env=environment) as server:
                yield server
        finally:
            daemon.terminate()
            daemon.wait()


async def subscribe(url: str, numbers: Sequence[int], tally: Tally) -> None:
    import aio_pika

    async def one(number: int) -> None:
        wanted = compiled(number)

        async def take(message: Any) -> None:
            event = read_seen(message.body)
            if wanted(event):
                tally.saw(event.sent)

        connection = await aio_pika.connect(url, timeout=60)
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(EXCHANGE, arguments={"x-match": "all", "group": group_of(number)})
        await queue.consume(take, no_ack=True)
        tally.ready()

    await each_on_its_own(numbers, one)


@asynccontextmanager
async def publisher(url: str) -> AsyncIterator[Publish]:
    import aio_pika

    connection = await aio_pika.connect(url)
    channel = await connection.channel(publisher_confirms=False)
    exchange = await channel.get_exchange(EXCHANGE, ensure=False)

    async def publish(event: dict[str, Any]) -> None:
        message = aio_pika.Message(msgspec.json.encode(event), headers={"group": event["group"]})
        await exchange.publish(message, routing_key="", mandatory=False)

    yield publish
    await connection.close()


RABBITMQ = System("rabbitmq headers", serve, subscribe, publisher, "aio_pika", "rabbitmq-server")

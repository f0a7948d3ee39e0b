"""Metrics in the text format of Prometheus: documented, bounded, with any names."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import palio
from palio.network.gateway.metrics import LEFT_OUT, MAX_SERIES, METRICS, write_metrics
from palio.network.server.process_metrics import AbsenceClock, LatencyHistogram
from tests.network.gateway.serving import serving
from tests.network.running import broker, run, until, up, url

# The text format of Prometheus, version 0.0.4: comments, and samples with labels whose values are quoted.
LINE = re.compile(
    r"# HELP [a-z_]+ [^\n]+|# TYPE [a-z_]+ (gauge|counter|histogram)"
    r'|[a-z_]+(\{([a-z_]+="([^"\\\n]|\\\\|\\"|\\n)*",?)+\})? [0-9.e+-]+'
)
DOCUMENT = Path(__file__).parents[3] / "docs" / "operations.md"


async def exported(client: Any) -> str:
    answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert [line for line in answer.text.splitlines() if not LINE.fullmatch(line)] == []
    text: str = answer.text
    return text


def test_every_metric_is_documented_and_no_other(tmp_path: Path) -> None:
    documented = re.findall(r"^\| `((?:palio|process)_[a-z_]+)", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)

    async def test() -> None:
        async with serving(data=str(tmp_path)) as (_, client):
            names = re.findall(r"^# TYPE ([a-z_]+)", await exported(client), re.MULTILINE)
            assert names == [each.name for each in (*METRICS, LEFT_OUT)]
            assert sorted(documented) == sorted(names)

    run(test)


def test_a_broker_has_metrics_of_what_it_does(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(data=str(tmp_path), keeping={"disk_bytes": 10_000_000}) as (server, client):
            await client.post("/events", json={"n": 1})
            text = await exported(client)
            assert 'palio_handled_total{kind="in"} 1' in text
            assert "palio_log_events 1\n" in text
            assert "palio_disk_limit_bytes 10000000\n" in text
            assert "palio_confirm_seconds_count 1\n" in text
            assert 'palio_confirm_seconds_bucket{le="+Inf"} 1\n' in text
            values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
            for name in ("palio_disk_used_bytes", "palio_disk_free_bytes", "process_resident_memory_bytes",
                         "process_cpu_seconds_total", "process_open_fds", "process_max_fds"):  # fmt: skip
                assert float(values[name]) > 0, name
            assert server.loop_lag.longest >= 0

    run(test)


def test_a_link_has_one_series_however_often_its_peer_comes_back() -> None:
    async def test() -> None:
        async with serving() as (hub, client), broker(connect=hub.addresses) as edge:
            for _ in range(3):
                arrived = sum(each["arrivals"] for each in hub.status()["neighbours"])
                await until(lambda: len(up(hub)) == 1)
                for link in list(hub.host.links.values()):
                    link.close("again")
                await until(lambda arrived=arrived: sum(
                    each["arrivals"] for each in hub.status()["neighbours"]) > arrived)  # fmt: skip
            text = await exported(client)
            assert re.findall(r"palio_link_up\{(.*)\}", text) == [f'peer="broker {edge.node}"']
            assert f'palio_link_up{{peer="{hub.addresses[0]}"}}' in write_metrics(edge.status())

    run(test)


def test_whoever_blocks_publishers_is_named() -> None:
    async def test() -> None:
        async with (
            serving() as (server, client),
            palio.connect(url(server)) as publisher,
            publisher.subscribe("x >= 0", queue=5, overflow="block"),
        ):
            for session in server.sessions:
                for queue in session.delivery.queues():
                    queue.credit = 0
            publishing = [asyncio.ensure_future(publisher.publish({"x": x}, confirm=True)) for x in range(20)]
            await until(lambda: server.host.backpressure.is_blocked)
            assert re.search(r'palio_blocked_by\{principal="anyone",subscription="[^"]+"\} \d+', await exported(client))
            for each in publishing:
                each.cancel()

    run(test)


def test_the_number_of_series_is_bounded_and_the_largest_stay() -> None:
    async def test() -> None:
        async with serving() as (server, client):
            server.arrivals.update({f"desk-{number}": number for number in range(1, 1_001)})
            text = await exported(client)
            found = re.findall(r'palio_client_arrivals_total\{principal="desk-(\d+)"\}', text)
            assert len(found) == MAX_SERIES
            assert min(map(int, found)) > 1_000 - MAX_SERIES - 1
            assert f'palio_series_left_out{{metric="palio_client_arrivals_total"}} {1_000 - MAX_SERIES}' in text

    run(test)


def test_names_are_escaped() -> None:
    async def test() -> None:
        async with serving() as (server, client):
            server.arrivals['a"b\\c\nd'] = 2
            assert r'palio_client_arrivals_total{principal="a\"b\\c\nd"} 2' in await exported(client)

    run(test)


def test_a_histogram_counts_up_to_each_bound() -> None:
    latency = LatencyHistogram()
    for seconds in (0.001, 0.002, 3.0, 100.0):
        latency.observe(seconds)
    described = latency.describe()
    assert [described["buckets"][bound] for bound in ("0.001", "0.0025", "2.5", "5.0", "30.0", "+Inf")] == [
        1, 2, 2, 3, 3, 4
    ]  # fmt: skip
    assert described["sum"] == 103.003


def test_a_broker_that_came_back_is_not_away_any_more() -> None:
    away = AbsenceClock()
    away.update([7, 8])
    assert away.update([8]).keys() == {8}
    assert away.update([]) == {}

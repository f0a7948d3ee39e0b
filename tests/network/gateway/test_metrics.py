"""Metrics in the text format of Prometheus, with any names."""

from __future__ import annotations

import re
from typing import Any

from palio.network.gateway.metrics import write_metrics
from tests.network.gateway.serving import serving
from tests.network.running import run

# The text format of Prometheus, version 0.0.4: comments, and samples with labels whose values are quoted.
LINE = re.compile(
    r"# HELP palio_[a-z_]+ [^\n]+|# TYPE palio_[a-z_]+ (gauge|counter)"
    r'|palio_[a-z_]+(\{([a-z_]+="([^"\\\n]|\\\\|\\"|\\n)*",?)+\})? [0-9.e+-]+'
)
STATUS: dict[str, Any] = {
    "node": 7, "version": "1", "incarnation": 1, "safety": "durable", "uptime": 1.5, "clients": [], "subscriptions": 0,
    "queued": 0, "is_blocked": True, "dead_letters": 0, "durable": [], "unfinished": 0, "inversions": 0,
    "neighbours": [{"address": 'a"b\\c\nd', "up": True, "queued": 3, "arrivals": 2}],
    "arrivals": {"desk": 9},
    "counts": {"in": 5}, "refusals": {"limit": 2}, "failed_handshakes": {"no TLS": 1},
    "drops": {"subscriber slow: drop_oldest": 2},
}  # fmt: skip


def test_names_are_escaped_and_every_line_is_one() -> None:
    text = write_metrics(STATUS)
    assert text.endswith("\n")
    assert [line for line in text.splitlines() if not LINE.fullmatch(line)] == []
    assert r'palio_link_up{address="a\"b\\c\nd"} 1' in text
    assert r'palio_link_arrivals_total{address="a\"b\\c\nd"} 2' in text
    assert 'palio_client_arrivals_total{principal="desk"} 9' in text
    assert 'palio_dropped_total{reason="subscriber slow: drop_oldest"} 2' in text


def test_a_broker_has_metrics() -> None:
    async def test() -> None:
        async with serving() as (_, client):
            await client.post("/events", json={"n": 1})
            answer = await client.get("/metrics")
            assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
            assert [line for line in answer.text.splitlines() if not LINE.fullmatch(line)] == []
            assert 'palio_handled_total{kind="in"} 1' in answer.text

    run(test)

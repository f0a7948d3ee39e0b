"""Metrics of a broker in the text format of Prometheus.

The numbers are those of `palio status`; nothing is counted twice. A client library would bring counters of its own,
which would have to be kept equal to the broker's; writing the text takes less code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def write_metrics(status: Mapping[str, Any]) -> str:
    """The metrics of a broker's status."""
    return "".join(_lines(status))


def _lines(status: Mapping[str, Any]) -> Iterator[str]:
    yield from _metric("info", "gauge", "The broker: number, version, how often it started, safety.", [
        ({name: status[name] for name in ("node", "version", "incarnation", "safety")}, 1)
    ])  # fmt: skip
    yield from _metric("uptime_seconds", "gauge", "Since the broker started.", [({}, status["uptime"])])
    yield from _metric("clients", "gauge", "Clients that are connected.", [({}, len(status["clients"]))])
    yield from _metric("subscriptions", "gauge", "Subscriptions of clients.", [({}, status["subscriptions"])])
    yield from _metric("queued_events", "gauge", "Events that wait for clients.", [({}, status["queued"])])
    yield from _metric("durable_queued_events", "gauge", "Events that wait for a durable subscription.", [
        (_durable_labels(each), each["queued"]) for each in status["durable"]
    ])  # fmt: skip
    yield from _metric("durable_lag_seconds", "gauge", "How long the first event of a durable subscription waits.", [
        (_durable_labels(each), each["lag"]) for each in status["durable"]
    ])  # fmt: skip
    yield from _metric("dead_letters", "gauge", "Events that no sink took, and that are kept.", [
        ({}, status["dead_letters"])
    ])  # fmt: skip
    yield from _metric("blocked", "gauge", "Whether confirmed publishers wait for subscribers.", [
        ({}, int(status["is_blocked"]))
    ])  # fmt: skip
    yield from _metric("unfinished_events", "gauge", "Confirmed events that are not yet where they are for.", [
        ({}, status["unfinished"])
    ])  # fmt: skip
    yield from _metric("inversions_total", "counter", "Events of durable subscriptions that came out of order.", [
        ({}, status["inversions"])
    ])  # fmt: skip
    yield from _metric("link_up", "gauge", "Whether a link to a neighbour is up.", [
        ({"address": each["address"]}, int(each["up"])) for each in status["neighbours"]
    ])  # fmt: skip
    yield from _metric("link_queued_messages", "gauge", "Messages that wait for a neighbour.", [
        ({"address": each["address"]}, each["queued"]) for each in status["neighbours"]
    ])  # fmt: skip
    yield from _metric("link_arrivals_total", "counter", "How often a link to a neighbour came up.", [
        ({"address": each["address"]}, each["arrivals"]) for each in status["neighbours"]
    ])  # fmt: skip
    yield from _metric("client_arrivals_total", "counter", "How often clients of a principal came.", [
        ({"principal": principal}, number) for principal, number in sorted(status["arrivals"].items())
    ])  # fmt: skip
    yield from _metric("handled_total", "counter", "What the broker handled, by kind.", [
        ({"kind": kind}, number) for kind, number in sorted(status["counts"].items())
    ])  # fmt: skip
    yield from _metric("dropped_total", "counter", "What was thrown away on purpose, by reason.", [
        ({"reason": reason}, number) for reason, number in sorted(status["drops"].items())
    ])  # fmt: skip
    yield from _metric("refused_total", "counter", "What clients and brokers were refused, by kind.", [
        ({"kind": kind}, number) for kind, number in sorted(status["refusals"].items())
    ])  # fmt: skip
    yield from _metric("failed_handshakes_total", "counter", "Connections that came to no TLS, by kind.", [
        ({"kind": kind}, number) for kind, number in sorted(status["failed_handshakes"].items())
    ])  # fmt: skip


def _durable_labels(durable: Mapping[str, Any]) -> dict[str, Any]:
    return {"principal": durable["principal"], "name": durable["name"]}


def _metric(name: str, kind: str, help: str, samples: list[tuple[dict[str, Any], float]]) -> Iterator[str]:
    if not samples:
        return
    yield f"# HELP palio_{name} {help}\n# TYPE palio_{name} {kind}\n"
    for labels, value in samples:
        written = ",".join(f'{label}="{_escape(str(text))}"' for label, text in labels.items())
        yield f"palio_{name}{'{' + written + '}' if written else ''} {value}\n"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

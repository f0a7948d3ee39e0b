"""Metrics of a broker in the text format of Prometheus.

The numbers are those of `palio status`; nothing is counted twice. A client library would bring counters of its own,
which would have to be kept equal to the broker's; writing the text takes less code.

The number of series is bounded: where a metric has one for each subscription, principal or peer, the largest are
written, and `palio_series_left_out` counts the others. A link is named by its peer, which is the broker at the other
end or the dialled address, and never by a port that changes with each connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import nlargest
from typing import Any, Final, Literal, NamedTuple

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MAX_SERIES: Final = 200  # of one metric

Status = Mapping[str, Any]
Sample = tuple[dict[str, Any], float]


class Metric(NamedTuple):
    """A metric, and how its samples are read from the status."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    help: str
    samples: Callable[[Status], Iterable[Sample]]


def _single(read: Callable[[Status], float]) -> Callable[[Status], Iterable[Sample]]:
    return lambda status: [({}, read(status))]


def _labelled(label: str, table: str) -> Callable[[Status], Iterable[Sample]]:
    return lambda status: [({label: name}, number) for name, number in sorted(status[table].items())]


def _durable(read: Callable[[Mapping[str, Any]], float]) -> Callable[[Status], Iterable[Sample]]:
    return lambda status: [
        ({"principal": each["principal"], "name": each["name"]}, read(each)) for each in status["durable"]
    ]


def _by_peer(field: str) -> Callable[[Status], Iterable[Sample]]:
    """A sum over the links to each peer: a broker may be linked over streams and over datagrams."""

    def samples(status: Status) -> Iterable[Sample]:
        sums: dict[str, float] = {}
        for each in status["neighbours"]:
            sums[each["peer"]] = sums.get(each["peer"], 0) + each[field]
        return [({"peer": peer}, number) for peer, number in sorted(sums.items())]

    return samples


def _confirmations(status: Status) -> Iterable[Sample]:
    latency = status["confirm_latency"]
    yield from (({"le": bound}, count) for bound, count in latency["buckets"].items())


METRICS: Final = (
    Metric("palio_info", "gauge", "The broker: number, version, how often it started, safety.",
           lambda status: [({name: status[name] for name in ("node", "version", "incarnation", "safety")}, 1)]),
    Metric("palio_uptime_seconds", "gauge", "Since the broker started.", _single(lambda status: status["uptime"])),
    Metric("palio_draining", "gauge", "Whether the broker drains.",
           _single(lambda status: int(status["draining"] is not None))),
    Metric("palio_clients", "gauge", "Clients that are connected.", _single(lambda status: len(status["clients"]))),
    Metric("palio_subscriptions", "gauge", "Subscriptions of clients.",
           _single(lambda status: status["subscriptions"])),
    Metric("palio_queued_events", "gauge", "Events that wait for clients.", _single(lambda status: status["queued"])),
    Metric("palio_durable_queued_events", "gauge", "Events that wait for a durable subscription.",
           _durable(lambda each: each["queued"])),
    Metric("palio_durable_queued_bytes", "gauge", "Bytes that wait for a durable subscription.",
           _durable(lambda each: each["bytes"])),
    Metric("palio_durable_lag_seconds", "gauge", "How long the first event of a durable subscription waits.",
           _durable(lambda each: each["lag"])),
    Metric("palio_dead_letters", "gauge", "Events that no sink took, and that are kept.",
           _single(lambda status: status["dead_letters"])),
    Metric("palio_blocked", "gauge", "Whether confirmed publishers wait for subscribers.",
           _single(lambda status: int(status["is_blocked"]))),
    Metric("palio_blocked_by", "gauge", "Events in a full queue that confirmed publishers wait for.",
           lambda status: [({"principal": each["principal"], "subscription": each["subscription"]}, each["queued"])
                           for each in status["blocked_by"]]),
    Metric("palio_confirm_seconds", "histogram",
           "How long confirmed publications waited: of each client, one at a time is measured.", _confirmations),
    Metric("palio_unfinished_events", "gauge", "Confirmed events that are not yet where they are for.",
           _single(lambda status: status["unfinished"])),
    Metric("palio_withheld_events", "gauge", "Those of them that wait for subscribers elsewhere which block.",
           _single(lambda status: status["withheld"])),
    Metric("palio_broker_away_seconds", "gauge", "How long a broker has been away that confirmed events wait for.",
           _labelled("broker", "away_seconds")),
    Metric("palio_inversions_total", "counter", "Events of durable subscriptions that came out of order.",
           _single(lambda status: status["inversions"])),
    Metric("palio_disk_used_bytes", "gauge", "Size of the database and its WAL.",
           _single(lambda status: status["disk"]["used"])),
    Metric("palio_disk_limit_bytes", "gauge", "Bound of the database (keeping.disk_bytes); 0 is none.",
           _single(lambda status: status["disk"]["limit"])),
    Metric("palio_disk_free_bytes", "gauge", "Free bytes of the disk with the data directory.",
           _single(lambda status: status["disk"]["free"])),
    Metric("palio_log_events", "gauge", "Events in the event log.", _single(lambda status: status["log"]["events"])),
    Metric("palio_log_bytes", "gauge", "Bytes of the events in the event log.",
           _single(lambda status: status["log"]["bytes"])),
    Metric("palio_log_age_seconds", "gauge", "Age of the oldest event in the event log.",
           _single(lambda status: status["log"]["age"])),
    Metric("palio_link_up", "gauge", "Links to a peer that are up.", _by_peer("up")),
    Metric("palio_link_queued_messages", "gauge", "Messages that wait for a peer.", _by_peer("queued")),
    Metric("palio_link_arrivals_total", "counter", "How often a link to a peer came up.", _by_peer("arrivals")),
    Metric("palio_client_arrivals_total", "counter", "How often clients of a principal came.",
           _labelled("principal", "arrivals")),
    Metric("palio_handled_total", "counter", "What the broker handled, by kind.", _labelled("kind", "counts")),
    Metric("palio_dropped_total", "counter", "What was thrown away on purpose, by reason.",
           _labelled("reason", "drops")),
    Metric("palio_refused_total", "counter", "What clients and brokers were refused, by kind.",
           _labelled("kind", "refusals")),
    Metric("palio_failed_handshakes_total", "counter", "Connections that came to no TLS, by kind.",
           _labelled("kind", "failed_handshakes")),
    Metric("palio_loop_lag_seconds", "gauge", "The longest delay of the event loop in the last ten seconds.",
           _single(lambda status: status["process"]["loop_lag_seconds"])),
    # The names that all clients of Prometheus have for these.
    Metric("process_resident_memory_bytes", "gauge", "Memory of the process.",
           _single(lambda status: status["process"]["resident_bytes"])),
    Metric("process_cpu_seconds_total", "counter", "Processor time of the process.",
           _single(lambda status: status["process"]["cpu_seconds"])),
    Metric("process_open_fds", "gauge", "Open files and connections.",
           _single(lambda status: status["process"]["open_files"])),
    Metric("process_max_fds", "gauge", "Files and connections that the process may have open.",
           _single(lambda status: status["process"]["max_files"])),
)  # fmt: skip
LEFT_OUT: Final = Metric("palio_series_left_out", "gauge", "Series beyond the bound of a metric, by metric.",
                         lambda status: ())  # fmt: skip


def write_metrics(status: Status) -> str:
    """The metrics of a broker's status."""
    left_out: list[Sample] = []
    lines: list[str] = []
    for metric in METRICS:
        samples = list(metric.samples(status))
        if len(samples) > MAX_SERIES:
            left_out.append(({"metric": metric.name}, len(samples) - MAX_SERIES))
            samples = nlargest(MAX_SERIES, samples, key=lambda sample: sample[1])
        lines += _lines(metric, samples)
        if metric.kind == "histogram":
            latency = status["confirm_latency"]
            lines += [f"{metric.name}_sum {latency['sum']}\n", f"{metric.name}_count {latency['buckets']['+Inf']}\n"]
    lines += _lines(LEFT_OUT, left_out)
    return "".join(lines)


def _lines(metric: Metric, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n"
    name = f"{metric.name}_bucket" if metric.kind == "histogram" else metric.name
    for labels, value in samples:
        written = ",".join(f'{label}="{_escape(str(text))}"' for label, text in labels.items())
        yield f"{name}{'{' + written + '}' if written else ''} {value}\n"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

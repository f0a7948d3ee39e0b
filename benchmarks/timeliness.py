"""Tightness of the bounds on ages: what brokers say an event's age is at most, beside the truth of the simulation.

The truth is known to a simulation alone. The error of a bound is what it is above the truth. On a link of 0.1 to 4.1 s
a simulation of the printed algorithm (Jerzak §6.4) has a mean error of 0.39 s with the best helper, and of 1.99 s
without any choice of helpers.

    python -m benchmarks.timeliness
"""

from __future__ import annotations

from statistics import mean, quantiles

from palio.simulation import Network

_EVENTS = 400
_CASES: dict[str, tuple[int, dict[str, float]]] = {
    "one link, 5 ms": (2, {"delay": 0.005}),
    "one link, 5 ms, jitter 5 ms": (2, {"delay": 0.005, "jitter": 0.005}),
    "one link, 0.1 to 4.1 s (the source's)": (2, {"delay": 0.1, "jitter": 4.0}),
    "three links, 5 ms": (4, {"delay": 0.005}),
    "three links, 5 ms, jitter 5 ms": (4, {"delay": 0.005, "jitter": 0.005}),
    "three links, 5 ms, 10 % lost": (4, {"delay": 0.005, "loss": 0.1}),
    "ten links, 5 ms, jitter 5 ms": (11, {"delay": 0.005, "jitter": 0.005}),
}


def measured(brokers: int, links: dict[str, float]) -> list[tuple[float, float]]:
    """Bounds and true ages of events over a line of brokers, half of whose clocks are as wrong as they may be."""
    options = {"timeliness": True, "drift": 1e-4, "max_drift": 1e-4, **links}
    net = Network.line(brokers, options=options, seed=7)
    desk = net.subscribe(at=brokers - 1, where="x >= 0")
    net.run(60)
    published: dict[str, float] = {}
    for number in range(_EVENTS):
        published[net.publish(at=0, event={"x": number}, settled=False).id] = net.now
        net.run(0.73)
    net.run(60)
    return [
        (each.age, each.time - published[each.event.id]) for each in net.deliveries_of(desk) if each.age is not None
    ]


def main() -> None:
    print(f"{'':40} {'true age':>10} {'bound':>10} {'error':>10} {'error 99 %':>11}  below the truth")
    for name, (brokers, links) in _CASES.items():
        pairs = measured(brokers, links)
        errors = [bound - truth for bound, truth in pairs]
        figures = mean(truth for _, truth in pairs), mean(bound for bound, _ in pairs), mean(errors)
        shown = " ".join(f"{each * 1_000:>7.2f} ms" for each in (*figures, quantiles(errors, n=100)[98]))
        print(f"{name:40} {shown}  {sum(error < 0 for error in errors)} of {len(pairs)}")


if __name__ == "__main__":
    main()

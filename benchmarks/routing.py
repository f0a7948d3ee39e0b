"""Entry point of the routing benchmarks, strategy by strategy.

    python benchmarks/routing.py                     list the parts
    python benchmarks/routing.py all                 the parts about claims of the sources, one after the other
    python benchmarks/routing.py all --quick         the same parts, smaller: less than a minute of CPU time
    python benchmarks/routing.py bloom --sizes 1000 10000
    python benchmarks/routing.py reuse --densities 0.01 0.2

Each part is a file `routing_<part>.py` beside this one, with a `main` of its own; see `--help` after its name.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter, process_time

# The parts about claims of the sources, with what makes each one quick.
ALL = {
    "forwarding": "--sizes 1000 --events 100 --poset 1000",
    "reuse": "--densities 0.01 0.2 --subscriptions 3000 --events 100 --rounds 2 --seeds 1",
    "propagation": "--sizes 200",
    "choices": "--brokers 10 --events 100",
    "paths": "--brokers 15 --extra 15 --subscriptions 60 --events 200",
    "covering": "--operations 500 --attributes 2 6",
    "simulation": "--brokers 40 --subscriptions 40 --events 1200 --large 1000",
}


def parts() -> list[str]:
    """The names of the parts, in order."""
    return sorted(each.stem.removeprefix("routing_") for each in Path(__file__).parent.glob("routing_*.py"))


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if given in (["all"], ["all", "--quick"]):
        return max(timed(part, quick.split() if len(given) == 2 else []) for part, quick in ALL.items())
    if not given or given[0] not in parts():
        print(__doc__)
        print(f"Parts: {', '.join(parts())}")
        return 0 if not given or given[0] in ("-h", "--help") else 2
    measured: int = import_module(f"routing_{given[0]}").main(given[1:])
    return measured


def timed(part: str, arguments: list[str]) -> int:
    """Run a part, and print what it was and took."""
    print(f"\n== {' '.join((part, *arguments))}", flush=True)
    begun, spent = perf_counter(), process_time()
    result = main([part, *arguments])
    print(f"== {part}: {perf_counter() - begun:.0f} s, {process_time() - spent:.0f} CPU s", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())

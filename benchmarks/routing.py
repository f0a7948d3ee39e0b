"""Entry point of the routing benchmarks, strategy by strategy.

    python benchmarks/routing.py                     list the parts
    python benchmarks/routing.py all                 the parts about claims of the sources, one after the other
    python benchmarks/routing.py bloom --sizes 1000 10000
    python benchmarks/routing.py reuse --densities 0.01 0.2

Each part is a file `routing_<part>.py` beside this one, with a `main` of its own; see `--help` after its name.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

ALL = ("forwarding", "reuse", "propagation", "paths", "covering", "simulation")


def parts() -> list[str]:
    """The names of the parts, in order."""
    return sorted(each.stem.removeprefix("routing_") for each in Path(__file__).parent.glob("routing_*.py"))


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["all"]:
        return max(main([part]) for part in ALL)
    if not given or given[0] not in parts():
        print(__doc__)
        print(f"Parts: {', '.join(parts())}")
        return 0 if not given or given[0] in ("-h", "--help") else 2
    measured: int = import_module(f"routing_{given[0]}").main(given[1:])
    return measured


if __name__ == "__main__":
    sys.exit(main())

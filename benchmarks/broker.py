"""Cost of a broker on the wire: entry point to the parts that measure it.

    python benchmarks/broker.py                      which parts there are
    python benchmarks/broker.py line                 three brokers in a line: how old events are when they arrive
    python benchmarks/broker.py beside               Palio beside others, at 1 % selectivity
    python benchmarks/broker.py columns              batches of columns beside events one by one, and fan-out

Each part is a file `broker_<part>.py` beside this one; `--help` after its name says more.
"""

from __future__ import annotations

import sys
from importlib import import_module

PARTS = ("line", "beside", "columns")


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] not in PARTS:
        print(__doc__)
        return 0 if not given or given[0] in ("-h", "--help") else 2
    measured: int = import_module(f"broker_{given[0]}").main(given[1:])
    return measured


if __name__ == "__main__":
    sys.exit(main())

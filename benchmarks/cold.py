"""Cold-start benchmark: seconds to the first answer, and to full speed, where no kernel was ever compiled.

    python benchmarks/cold.py
    python benchmarks/cold.py --only batch spark

Every path runs in a process of its own with an empty cache of kernels, and again with the cache that the first run has
left. Seconds to the first answer count from `import palio`; those to full speed end when all kernels are in use.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.clock import with_bytecode
from rich.console import Console
from rich.progress import track
from rich.table import Table

_PROLOGUE = """
import json, os, time
start = time.perf_counter()
import palio
told = {}
def answered():
    told.setdefault("first", time.perf_counter() - start)
def finish():
    from palio.matching.columnar.kernel_readiness import kernel_readiness
    kernel_readiness.wait_until_ready()
    told["full"] = time.perf_counter() - start
    print(json.dumps(told), flush=True)
SIZE = 10_000
IDS = [str(n) for n in range(SIZE)]
WHERES = [f"city = 'c{n % 4000}' AND price > {n % 997}" for n in range(SIZE)]
EVENT = {"city": "c7", "price": 500}
"""

_PATHS = {
    "match: one subscription, one event": """
wants = palio.Matcher()
wants.add("a", "city = 'c7' AND price > 100")
assert wants.match(EVENT) == {"a"}
answered()
finish()
""",
    "batch: one subscription, three events": """
wants = palio.Matcher()
wants.add("a", "city = 'c7' AND price > 100")
assert wants.match_batch([EVENT] * 3).num_rows == 3
answered()
finish()
""",
    "bulk: 10,000 subscriptions, three events": """
wants = palio.Matcher()
wants.add_many(IDS, WHERES)
assert wants.match_batch([EVENT] * 3).num_rows == 9
answered()
finish()
""",
    "opened: a saved index of 10,000, three events": """
wants = palio.Matcher.open(os.environ["PALIO_INDEX"])
assert wants.match_batch([EVENT] * 3).num_rows == 9
answered()
finish()
""",
    "command: palio match": """
import subprocess, sys
from pathlib import Path
folder = Path(os.environ["PALIO_INDEX"]).parent
start = time.perf_counter()
command = [sys.executable, "-m", "palio", "match", str(folder / "wants.jsonl"), str(folder / "events.jsonl"), "--json"]
process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
assert "subscription" in process.stdout.readline()
answered()
process.communicate()
finish()
""",
    "broker: 100 conditions of a client, one event": """
import asyncio
from palio.network.addresses import Address
from palio.network.server.process import Server
from palio.network.server.settings import Settings
async def main():
    server = Server(Settings(listen=(Address("127.0.0.1", 0),)))
    await server.start()
    async with palio.connect(str(server.addresses[0])) as broker:
        async with broker.subscribe_many(dict(zip(IDS[:100], WHERES))) as found:
            await broker.publish(EVENT)
            assert (await anext(found)).get("price") == 500
            answered()
    await server.stop()
asyncio.run(main())
finish()
""",
    "task: a worker of Spark": """
from palio.spark import match, open_session
spark = open_session("local[1]")
events = spark.createDataFrame([("c7", 500)] * 3, "city string, price int")
match(events, [{"id": "x", "where": "price > 1000"}]).count()  # Spark itself is up, and so is its Python
import pyarrow as pa
def first_answer(batches):
    import time
    start = time.perf_counter()
    import palio
    wants = palio.Matcher.open(os.environ["PALIO_INDEX"])
    for batch in batches:
        assert wants.match_batch(batch).num_rows == 9
    yield pa.RecordBatch.from_pydict({"seconds": [time.perf_counter() - start]})
told["first"] = events.mapInArrow(first_answer, "seconds double").collect()[0][0]
spark.stop()
finish()
""",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="paths whose names contain one of these")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args()
    chosen = {name: path for name, path in _PATHS.items() if any(each in name for each in options.only)}
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = _prepare(Path(folder))
        for name, path in track(chosen.items(), "Measuring", console=Console(stderr=True)):
            cache = Path(folder) / "cache"
            _run(path, environment)  # for the bytecode, which installing a package makes
            shutil.rmtree(cache, ignore_errors=True)
            results[name] = {"cold": _run(path, environment), "warm": _run(path, environment)}
    if options.json:
        print(json.dumps(results, indent=2))
        return
    table = Table("path", "first answer s", "full speed s", "first answer, compiled before")
    for name, result in results.items():
        cold, warm = result["cold"], result["warm"]
        table.add_row(name, f"{cold['first']:.2f}", f"{cold['full']:.1f}", f"{warm['first']:.2f}")
    Console().print(table)


def _prepare(folder: Path) -> dict[str, str]:
    """A saved index, subscriptions and events, and the variables that name them and the empty cache."""
    index = folder / "wants.palio"
    save = f"wants = palio.Matcher()\nwants.add_many(IDS, WHERES)\nwants.save({str(index)!r})"
    subprocess.run([sys.executable, "-c", _PROLOGUE + save], check=True)
    subscriptions = [{"id": str(n), "where": f"city = 'c{n}' AND price > 100"} for n in range(100)]
    (folder / "wants.jsonl").write_text("".join(json.dumps(each) + "\n" for each in subscriptions))
    (folder / "events.jsonl").write_text('{"city": "c7", "price": 500}\n' * 3)
    return with_bytecode(folder) | {"NUMBA_CACHE_DIR": str(folder / "cache"), "PALIO_INDEX": str(index)}


def _run(path: str, environment: dict[str, str]) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", _PROLOGUE + path], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


if __name__ == "__main__":
    main()

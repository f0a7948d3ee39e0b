"""Start of a broker process: what it leaves out, and that it serves at once what its store has."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import palio
from palio.network.fast_start import fast_start, freeze_garbage_collection
from palio.routing.combinations import FORWARDINGS
from tests.network.processes import ROOT
from tests.network.running import broker, run, url

CODE = """
import gc, sys
from palio.network.fast_start import fast_start, freeze_garbage_collection
with fast_start():
    assert not gc.isenabled()
    import palio.network.server.process as process
    process.preload_compiled_code()
    freeze_garbage_collection()
    assert gc.isenabled() and gc.get_freeze_count() > 10_000
assert not {"pandas", "pyspark", "matplotlib", "duckdb"} & sys.modules.keys(), "imported for nothing"
"""


def test_a_broker_imports_nothing_that_it_does_not_use() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", CODE], check=True, env=environment, timeout=120)


def test_settings_are_read_without_the_libraries_of_a_broker() -> None:
    code = "import sys, palio.network.server.settings; sys.exit(bool({'numba', 'pyarrow'} & sys.modules.keys()))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=120)


def test_a_start_that_fails_leaves_the_process_as_it_was() -> None:
    finders, thresholds = list(sys.meta_path), gc.get_threshold()
    with suppress(KeyError), fast_start():
        assert not gc.isenabled()
        freeze_garbage_collection()
        raise KeyError
    assert (sys.meta_path, gc.get_threshold(), gc.isenabled()) == (finders, thresholds, True)


@pytest.mark.parametrize("forwarding", FORWARDINGS)
def test_stored_subscriptions_are_indexed_before_the_first_event(forwarding: str, tmp_path: Path) -> None:
    names = [f"above-{number}" for number in range(20)]  # more than are evaluated without an index

    async def test() -> None:
        settings = {"data": str(tmp_path), "forwarding": forwarding}
        async with broker(**settings) as server, palio.connect(url(server)) as client:
            for number, name in enumerate(names):
                async with client.subscribe(f"x > {number} AND y = 'a'", durable=name):
                    pass
        async with broker(**settings) as server, palio.connect(url(server)) as client:
            await client.publish({"x": 10, "y": "a"}, confirm=True)
            async with client.subscribe("x > 3 AND y = 'a'", durable="above-3") as events:
                assert (await anext(events)).get("x") == 10
            waiting = {each["name"]: each["queued"] for each in server.status()["durable"]}
            assert [waiting[name] for name in names] == [1] * 10 + [0] * 10

    run(test)

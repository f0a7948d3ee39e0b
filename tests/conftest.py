"""Fixtures and Hypothesis profiles of all tests: real data, a Spark session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.connect_server import connect_session
from tests.spark_session import open_session, spark_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = Path(__file__).parent.parent

# `dev` looks at other examples at each run and so finds more, the longer one works; `ci` looks at the same
# ones every time, so that a change is never refused for a fault it did not bring; `deep` is the long search.
# No deadlines: the first call of a kernel compiles it, and a shared machine stalls. A failure prints the line
# that replays it.
_no_clock = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=100, **_no_clock)
settings.register_profile("ci", max_examples=100, derandomize=True, **_no_clock)
settings.register_profile("deep", max_examples=3_000, **_no_clock)
settings.load_profile("dev")  # `--hypothesis-profile` chooses another


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what uses Spark, and keep it together: of several processes, one starts a JVM, not all."""
    if "spark" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.spark)
    if item.get_closest_marker("spark"):
        item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels() -> None:
    """Kernels that are compiled from the first test on: what is indexed when depends on it."""
    from palio.matching.columnar.kernel_readiness import wait_until_all_are_ready

    wait_until_all_are_ready()


@pytest.fixture(scope="session")
def project_folder() -> Path:
    """The root of the repository."""
    return PROJECT


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The real data that some tests measure themselves by; they are skipped where it is not to be had."""
    folder = Path(os.environ.get("PALIO_DATA") or PROJECT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"the real data are not here: {folder} is no folder (set PALIO_DATA to theirs)")
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--connect", action="store_true", help="run tests marked `connect` through Spark Connect")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """One Spark session for all tests of a process, see `tests/spark_session.py`."""
    if request.config.getoption("--connect"):
        with connect_session(tmp_path_factory.mktemp("spark")) as session:
            yield session
        return
    with pytest.MonkeyPatch.context() as environment:
        for name, value in spark_environment().items():
            environment.setenv(name, value)
        session = open_session(tmp_path_factory.mktemp("spark"))
        yield session
        session.stop()

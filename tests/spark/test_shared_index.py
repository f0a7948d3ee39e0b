"""Every session's workers get the index, also when another session had it before."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from palio import Matcher
from palio.matching.columnar.kernel_readiness import readiness
from palio.spark import Wants, match
from palio.spark.shared_index import SharedIndex, remove_orphaned_folders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Cluster:
    """As much of a session on other machines as publishing asks of it."""

    name: str
    breaks: bool = False
    carried: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)

    @property
    def session(self) -> Any:
        return SimpleNamespace(
            sparkContext=SimpleNamespace(master="spark://elsewhere:7077", applicationId=self.name, addFile=self._add)
        )

    def _add(self, path: str) -> None:
        if self.breaks:
            raise ConnectionError("the network")
        (self.kernels if path.endswith(".zip") else self.carried).append(Path(path).name)


@pytest.fixture
def matcher(request: pytest.FixtureRequest) -> Matcher:
    made = Matcher()
    made.add(request.node.name, "price > 1")  # an index of its own
    return made


def test_each_application_is_brought_the_index_once(matcher: Matcher) -> None:
    first, second = Cluster("first"), Cluster("second")
    published = [SharedIndex.publish(each.session, matcher) for each in (first, first, second, first)]
    assert len(set(published)) == 1
    name = Path(published[0].path).name
    assert (first.carried, second.carried) == ([name], [name])


def test_each_application_is_brought_the_compiled_kernels_once(matcher: Matcher) -> None:
    here, there = Cluster("with kernels"), Cluster("with kernels too")
    for each in (here, here, there):
        SharedIndex.publish(each.session, matcher)
    names = [kernels.archive_name for kernels in readiness.values()]
    assert len(names) == 4
    assert (here.kernels, there.kernels) == (names, names)


def test_a_matcher_is_saved_again_only_after_a_change(matcher: Matcher, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, save = Cluster("saving"), Matcher.save
    saved: list[Path] = []

    def counted(self: Matcher, path: Path) -> None:
        saved.append(path)
        save(self, path)

    monkeypatch.setattr(Matcher, "save", counted)
    first = SharedIndex.publish(cluster.session, matcher)
    assert SharedIndex.publish(cluster.session, matcher) == first
    assert len(saved) == 1
    matcher.add("another", "price > 3")
    second = SharedIndex.publish(cluster.session, matcher)
    assert "another" in second.open()
    assert "another" not in first.open()
    Path(second.path).unlink()  # as after its last use
    assert Path(SharedIndex.publish(cluster.session, matcher).path).exists()
    assert len(saved) == 3


def test_what_did_not_get_through_is_brought_again(matcher: Matcher) -> None:
    cluster = Cluster("one", breaks=True)
    with pytest.raises(ConnectionError):
        SharedIndex.publish(cluster.session, matcher)
    cluster.breaks = False
    SharedIndex.publish(cluster.session, matcher)
    assert len(cluster.carried) == 1


def test_the_index_of_an_application_goes_when_the_next_one_has_its_own(matcher: Matcher) -> None:
    other = Matcher()
    other.add("other", "price > 2")
    first, second = Cluster("first"), Cluster("second")
    kept, gone = SharedIndex.publish(first.session, matcher), SharedIndex.publish(first.session, other)
    assert Path(gone.path).exists()
    SharedIndex.publish(second.session, matcher)  # which both have
    assert (Path(kept.path).exists(), Path(gone.path).exists()) == (True, False)
    again = SharedIndex.publish(second.session, other)
    assert (again, Path(again.path).exists()) == (gone, True)
    assert len(second.carried) == 2


def test_an_index_that_is_shared_for_a_while_is_removed(spark: SparkSession, matcher: Matcher) -> None:
    events = spark.sql("SELECT 1 AS id, 2 AS price")
    with Wants.read(spark, matcher).shared(spark) as wants:
        assert wants.index is not None
        assert match(events, wants).count() == match(events, wants, per_event=True).count() == 1
        assert Path(wants.index.path).exists()
    assert not Path(wants.index.path).exists()


def test_what_killed_processes_left_behind_is_removed(tmp_path: Path) -> None:
    for name in ("dead", "alive", "new", "other"):
        folder = tmp_path / f"palio-spark-{name}"
        folder.mkdir()
        (folder / "palio-1.palio").touch()
        if name != "other":
            (folder / "lock").touch()
            os.utime(folder / "lock", (0, 0) if name != "new" else None)
    with (tmp_path / "palio-spark-alive" / "lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        remove_orphaned_folders(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {f"palio-spark-{name}" for name in ("alive", "new", "other")}

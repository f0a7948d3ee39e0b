"""A log in an object store: the same log, with the store's conditional put in place of a link."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from palio.errors import PipelineError, VersionNotKept
from palio.spark import SubscriptionLog
from palio.spark.storage import StorageFolder, absolute, join_address
from palio.spark.streaming.commit_journal import Journal
from tests.spark.subscription_log.s3_store import S3Store


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Store]:
    pytest.importorskip("obstore")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    made = S3Store()
    yield made
    made.close()


def test_a_log_can_be_in_an_object_store(store: S3Store) -> None:
    log = SubscriptionLog(store.address("some/log"))
    assert not log.exists()
    log.add("a", "x = 1")
    assert log.commit() == 1
    log.add("b", "x = 2")
    log.commit()
    other = SubscriptionLog(store.address("some/log"))
    assert [each.id for each in other.at()] == ["a", "b"]
    log.remove("a")
    log.commit()
    log.compact(keep=timedelta(0))
    assert other.version == 3
    assert [each.id for each in other.at()] == ["b"]
    with pytest.raises(VersionNotKept):
        other.at(1)


def test_two_writers_never_both_win_there_either(store: S3Store) -> None:
    won: list[int] = []

    def write(name: str) -> None:
        log = SubscriptionLog(store.address("log"))
        for number in range(6):
            log.add(f"{name}{number}", "x = 1")
            won.append(log.commit())

    writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(won) == list(range(1, 19))
    assert len(SubscriptionLog(store.address("log")).at()) == 18


def test_so_can_the_journal(store: S3Store) -> None:
    log = SubscriptionLog(store.address("log"))
    log.commit()
    journal = Journal(store.address("checkpoint"))
    begun = journal.begin(0, log)
    log.add("a", "x = 1")
    log.commit()
    assert Journal(store.address("checkpoint")).begin(0, log) == begun
    assert journal.stream == Journal(store.address("checkpoint")).stream


def test_addresses_are_understood_as_spark_writes_them() -> None:
    assert absolute("s3a://bucket/path") == "s3://bucket/path"
    assert join_address("s3://bucket/path/?region=here", "name") == "s3://bucket/path/name?region=here"
    assert join_address("/what? a path", "name") == "/what? a path/name"
    assert absolute("file:/some/where") == "/some/where"
    assert absolute("gs://bucket/path") == "gs://bucket/path"


def test_where_nothing_is_known_about_writing_it_is_refused() -> None:
    import pyarrow.fs

    place = StorageFolder("/")
    # No address leads to a file system that Palio does not know.
    place._system = pyarrow.fs._MockFileSystem()
    with pytest.raises(PipelineError, match="two writers cannot be kept apart on mock"):
        place.create("name", b"")

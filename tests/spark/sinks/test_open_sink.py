"""Sinks and servers by their address."""

from __future__ import annotations

from pathlib import Path

import pytest

from palio.errors import PipelineError
from palio.spark import DeltaSink, HttpSink, NatsSink, ParquetSink
from palio.spark.connections import read_nats_address
from palio.spark.sinks.sink import open_sink


def test_the_address_says_which_sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder, table, store = open_sink("hits"), open_sink("delta:hits"), open_sink("delta:s3://bucket/hits")
    assert isinstance(folder, ParquetSink)
    assert folder.path == str(tmp_path / "hits")
    assert isinstance(table, DeltaSink)
    assert table.table == str(tmp_path / "hits")
    assert isinstance(store, DeltaSink)
    assert store.table == "s3://bucket/hits"
    assert isinstance(open_sink("https://example.org/{subscriber}", key=["id"]), HttpSink)
    assert isinstance(open_sink("nats://localhost:4222/hits.{subscriber}", key=["id"]), NatsSink)


@pytest.mark.parametrize(
    ("address", "options", "name"),
    [
        ("nats://localhost:4222/ORDERS", {"servers": "nats://localhost:4222"}, "ORDERS"),
        ("nats://a:1,b:2/hits.{subscriber}", {"servers": "nats://a:1,nats://b:2"}, "hits.{subscriber}"),
        ("tls://ada:s%40y@a/X", {"servers": "tls://a", "user": "ada", "password": "s@y"}, "X"),
        ("nats://secret@a/X", {"servers": "nats://a", "token": "secret"}, "X"),
        ("nats://a/X?subject=x.%3E&start=latest", {"servers": "nats://a", "subject": "x.>", "start": "latest"}, "X"),
    ],
)
def test_an_address_of_nats_says_it_all(address: str, options: dict[str, str], name: str) -> None:
    assert read_nats_address(address, "a stream") == (options, name)


@pytest.mark.parametrize("address", ["nats://secret@a", "nats://secret@a/", "nats:///X"])
def test_a_message_about_an_address_keeps_its_secret(address: str) -> None:
    with pytest.raises(PipelineError, match="not a stream") as caught:
        read_nats_address(address, "a stream")
    assert "secret" not in str(caught.value)


def test_who_cannot_tell_repeats_is_asked_for_a_key() -> None:
    with pytest.raises(PipelineError, match="which columns tell one event from another") as caught:
        open_sink("https://ada:secret@example.org/in")
    assert "secret" not in str(caught.value)

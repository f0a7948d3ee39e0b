"""Damage to a subscription log is found and named, and repaired where that is possible."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio.errors import SubscriptionLogError
from palio.spark import SubscriptionLog
from tests.spark.subscription_log.contents import AT_ONCE, contents


def files(log: SubscriptionLog) -> list[Path]:
    return sorted(path for path in Path(log.path).rglob("*.zst"))


@given(file=st.integers(0, 3), place=st.integers(0, 1000), way=st.sampled_from(["cut", "flip", "empty"]))
@settings(max_examples=60)
def test_damage_is_found(tmp_path_factory: pytest.TempPathFactory, file: int, place: int, way: str) -> None:
    log = SubscriptionLog(tmp_path_factory.mktemp("damage") / "log")
    for number in range(3):
        log.add(f"s{number}", f"x = {number}")
        log.commit()
        if number == 1:
            log.compact()
    expected = [contents(log, version) for version in range(4)]
    path = files(log)[file]
    whole = path.read_bytes()
    place %= len(whole)
    flipped = whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :]
    path.write_bytes({"cut": whole[:place], "flip": flipped, "empty": b""}[way])
    for version, before in enumerate(expected):
        try:
            assert contents(SubscriptionLog(log.path), version) == before
        except SubscriptionLogError as error:
            assert path.name in str(error)
            assert "bring it back from a copy" in str(error)


def test_a_file_of_another_log_does_not_fit(log: SubscriptionLog, tmp_path: Path) -> None:
    other = SubscriptionLog(tmp_path / "other")
    other.commit()
    other.add("z", "x = 1")
    other.commit()
    files(log)[1].write_bytes(files(other)[1].read_bytes())
    with pytest.raises(SubscriptionLogError, match="does not follow version 1"):
        log.at()
    files(log)[1].write_bytes(files(log)[0].read_bytes())
    with pytest.raises(SubscriptionLogError, match="it is of version 1"):
        log.at()


def test_a_damaged_snapshot_is_done_without_and_written_again(log: SubscriptionLog) -> None:
    log.compact()
    snapshot = next(path for path in files(log) if path.parent.name == "snapshots")
    whole = snapshot.read_bytes()
    snapshot.write_bytes(whole[:-5])
    assert contents(log) == {"a": "x = 10"}
    log.compact(keep=AT_ONCE)
    assert snapshot.read_bytes() == whole
    snapshot.write_bytes(whole[:-5])
    with pytest.raises(SubscriptionLogError, match="is damaged"):
        log.at()


def test_a_newer_format_is_told_from_damage(log: SubscriptionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palio.spark.subscription_log_files.FORMAT", 2)
    with pytest.raises(SubscriptionLogError, match="has format 1, and this Palio reads 2"):
        log.at()

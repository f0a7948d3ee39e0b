"""A saved matcher opens as it was, or is refused by name."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

import palio
from palio.matching.matcher import Matcher

CONDITIONS = {
    "equal": "symbol = 'ACME' AND price > 100",
    "in": "symbol IN ('ACME', 'INIT') OR price < 0.5",
    "like": "name LIKE '%corp%' AND NOT (name LIKE '%old')",
    "ilike": "name ILIKE '%Corp%'",
    "regex": "name RLIKE '^[a-c]+$'",
    "computed": "length(name) = 4",
    "odd number": "price = '10.5'",
    "when missing": "coalesce(price, 0) = 0",
    "residual": "bid > ask",
    "never": "price > 5 AND price < 3",
    "always": "TRUE",
    "null": "name IS NULL",
}
EVENTS = pa.table(
    {
        "symbol": ["ACME", "INIT", None, "ACME"],
        "price": [120.0, 10.5, None, 0.25],
        "name": ["corp", "abc", None, "incorp old"],
        "bid": [2, 1, 5, None],
        "ask": [1, 2, None, 3],
    }
)


@pytest.fixture
def matcher() -> Matcher:
    matcher = Matcher()
    matcher.add_many(CONDITIONS, CONDITIONS.values())
    return matcher


def rows(table: pa.Table) -> list[tuple[int, str]]:
    return sorted(zip(table["row"].to_pylist(), table["subscription"].to_pylist(), strict=True))


def test_an_opened_matcher_answers_as_the_saved_one(matcher: Matcher, tmp_path: Path) -> None:
    expected = rows(matcher.match_batch(EVENTS))
    matcher.save(tmp_path / "wants.palio")
    opened = Matcher.open(tmp_path / "wants.palio")
    assert rows(opened.match_batch(EVENTS)) == expected
    assert len(opened) == len(CONDITIONS)
    assert list(opened) == list(CONDITIONS)
    for event in EVENTS.to_pylist():
        assert opened.match(event) == matcher.match(event)


def test_an_opened_matcher_can_be_changed_and_saved_again(matcher: Matcher, tmp_path: Path) -> None:
    path = tmp_path / "wants.palio"
    matcher.save(path)
    opened = Matcher.open(path)
    opened.remove("always")
    opened.replace("null", "price IS NULL")
    opened.add("new", "price >= 100")
    opened.save(path)
    again = Matcher.open(path)
    assert "always" not in again
    assert again.match({"price": 500}) == opened.match({"price": 500}) >= {"new"}
    again.merge()
    assert again.match({"price": 500}) == opened.match({"price": 500})


def test_subscriptions_keep_what_they_were_added_with(tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.add("a", "x > 1", subscriber="ops", metadata={"severity": "high"})
    matcher.add("b", "hour(t) = 0 AND t < d", timezone="Asia/Tokyo")
    matcher.save(tmp_path / "wants.palio")
    opened = Matcher.open(tmp_path / "wants.palio")
    assert opened["a"].subscriber == "ops"
    assert opened["a"].metadata == {"severity": "high"}
    assert opened["b"].timezone == "Asia/Tokyo"


def test_an_empty_matcher_can_be_saved(tmp_path: Path) -> None:
    Matcher().save(tmp_path / "none.palio")
    assert len(Matcher.open(tmp_path / "none.palio")) == 0


def test_a_file_that_is_cut_short_is_refused(matcher: Matcher, tmp_path: Path) -> None:
    path = tmp_path / "wants.palio"
    matcher.save(path)
    whole = path.read_bytes()
    for size in (0, 5, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(palio.IndexFileError, match=r"wants\.palio"):
            Matcher.open(path)


def test_a_damaged_file_is_refused_or_harmless(matcher: Matcher, tmp_path: Path) -> None:
    path = tmp_path / "wants.palio"
    matcher.save(path)
    whole = path.read_bytes()
    expected = rows(matcher.match_batch(EVENTS))
    for place in range(0, len(whole), max(1, len(whole) // 97)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        path.write_bytes(damaged)
        try:
            opened = Matcher.open(path)
        except palio.PalioError:
            continue
        assert rows(opened.match_batch(EVENTS)) == expected  # what was hit is padding


def test_other_files_and_versions_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(b"x" * 200)
    with pytest.raises(palio.IndexFileError, match="no saved matcher"):
        Matcher.open(path)
    path.write_bytes(b"PALIO\0\0\x63" + b"x" * 200)
    with pytest.raises(palio.IndexFileError, match="another version"):
        Matcher.open(path)
    with pytest.raises(palio.IndexFileError, match="cannot be opened"):
        Matcher.open(tmp_path / "missing")
    with pytest.raises(palio.IndexFileError, match="cannot be written"):
        Matcher().save(tmp_path / "no" / "such" / "folder")


def test_saving_replaces_a_file_whole_and_leaves_nothing_else(matcher: Matcher, tmp_path: Path) -> None:
    path = tmp_path / "wants.palio"
    matcher.save(path)
    opened = Matcher.open(path)
    matcher.remove("always")
    matcher.save(path)  # while the old file is still mapped
    assert "always" in opened.match({"x": 1})
    assert os.listdir(tmp_path) == ["wants.palio"]

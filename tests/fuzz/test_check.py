"""Fuzz tests of `palio check`: exit code 0, 1 or 2 for any file, never a traceback."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from palio.cli.main import palio
from tests.oracles.generate import Generator

_SUFFIXES = [".jsonl", ".json", ".csv", ".parquet", ".jsonl.gz", ".json.xz", ".csv.zst", ".txt", ""]
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=30)
    | st.sampled_from(["x > 1", "x >", "sql", "nosuch"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def _check(content: bytes, suffix: str, *options: str) -> Result:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"wants{suffix}"
        path.write_bytes(content)
        result = CliRunner().invoke(palio, ["check", str(path), *options])
    assert result.exit_code in (0, 1, 2), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert "Traceback" not in result.output
    return result


@given(st.binary(max_size=300), st.sampled_from(_SUFFIXES))
def test_any_bytes_in_any_file_are_checked_or_refused(content: bytes, suffix: str) -> None:
    _check(content, suffix)


@given(st.text(st.characters(exclude_categories=()), max_size=200), st.sampled_from(_SUFFIXES[:3]))
def test_any_text_in_a_file_is_checked_or_refused(content: str, suffix: str) -> None:
    _check(content.encode("utf-8", "surrogatepass"), suffix)


@given(st.lists(st.dictionaries(st.sampled_from(["id", "where", "language", "subscriber", "x"]), _VALUES), max_size=5))
def test_any_objects_in_a_file_are_checked_or_refused(objects: list[dict[str, Any]]) -> None:
    lines = "\n".join(map(json.dumps, objects)).encode()
    _check(lines, ".jsonl", "--json")
    _check(gzip.compress(lines), ".jsonl.gz")
    _check(json.dumps(objects).encode(), ".json", "--normal-form")


@given(st.integers(0, 10**9))
def test_random_conditions_are_checked(seed: int) -> None:
    random, generator = Random(seed), Generator(seed)
    lines = [{"id": str(n), "where": generator.condition().text, "subscriber": random.choice("ab")} for n in range(8)]
    result = _check("\n".join(map(json.dumps, lines)).encode(), ".jsonl", "--json")
    assert len(result.stdout.splitlines()) == len(lines)

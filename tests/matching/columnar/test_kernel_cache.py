"""Compiled kernels on disk: compiled by one process, loaded by all others, wherever they may be kept."""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from numba.core import caching, config

from palio.matching.columnar import kernel_cache
from palio.matching.columnar.native import compiled
from palio.matching.precompilation import compile_kernels, kernels

PROCESSES = 3

# A process that compiles what is missing, and prints how often it had to compile each kernel.
ALL = """
import json, sys
from palio.matching.columnar import kernel_cache
from palio.matching.precompilation import compile_kernels, kernels
kernel_cache.LOCK_TIMEOUT_SECONDS = 3600  # a busy machine may take minutes
sys.stdin.readline()
compile_kernels()
compiled = {kernel.py_func.__name__: sum(kernel.stats.cache_misses.values()) for kernel in kernels()}
print(json.dumps({"compiled": compiled}))
"""

# A process that needs one kernel only.
ONE = """
import json
from numba import types
from palio.matching.columnar.encoding_kernels import float_slot as kernel
kernel.compile((types.int64, types.int64, types.float64))
compiled = {kernel.py_func.__name__: sum(kernel.stats.cache_misses.values())}
print(json.dumps({"compiled": compiled, "folder": kernel.stats.cache_path}))
"""

# The demonstration's subscriptions and flights, in every way to match.
FLIGHTS = """
import json, tempfile
from palio import Matcher
from palio.matching.xml_kernels import PATTERN_KERNELS
from palio.xml.document_parser import parse_document
from palio.xml.pattern_index import PatternIndex
from palio.xml.xpath_parser import parse_xpath
from palio.workloads.flights import generated_subscriptions, sample
flights = sample().slice(0, 500)
wants = generated_subscriptions(2_000)
matcher = Matcher()
matcher.add_many([each.id for each in wants], [each.where for each in wants])
matcher.add_many([f"sum{n}" for n in range(40)], [f"arr_delay * {n} < dep_delay" for n in range(40)])
patterns = PatternIndex(PATTERN_KERNELS)
patterns.add(parse_xpath("//a[b]/c"))
assert patterns.match(parse_document("<a><b/><c/></a>"))
matcher.add("one", "dest LIKE 'S%' OR contains(dest, 'F') OR arr_delay > 1.5e0")
found = sum(matcher.match_batch(batch).num_rows for batch in flights.to_batches())
with tempfile.TemporaryDirectory() as folder:
    matcher.save(folder + "/index.palio")
    opened = Matcher.open(folder + "/index.palio")
    assert sum(len(opened.match(row)) for row in flights.to_pylist()) == found > 100
from palio.matching.precompilation import kernels
print(json.dumps({"compiled": {kernel.py_func.__name__: len(kernel.stats.cache_misses) for kernel in kernels()},
    "loaded": [kernel.py_func.__name__ for kernel in kernels() if kernel.stats.cache_hits]}))
"""
# There none starts a second compiler, whose kernels would not be counted.
ON_ONE_PROCESSOR = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
COMPILE = "from palio.matching.precompilation import compile_kernels as c; c(); print('{}')"

ARE_READY = """
import json
import palio.matching.matcher
from palio.matching.columnar.kernel_readiness import readiness
print(json.dumps({"ready": [group for group, kernels in readiness.items() if kernels.are_recorded()]}))
"""

SEND = """
from pathlib import Path
import palio.matching.matcher
from palio.matching.columnar.kernel_readiness import readiness
for each in readiness.values():
    each.write_archive(Path("{}"))
print("{{}}")
"""
RECEIVE = """
from pathlib import Path
import palio.matching.matcher
from palio.matching.columnar.kernel_readiness import readiness
for each in readiness.values():
    each.install_archive(Path("{}") / each.archive_name)
print("{{}}")
"""


def environment(**variables: str) -> dict[str, str]:
    """Of this process, but for where kernels are kept."""
    paths = os.pathsep.join(path for path in sys.path if path)
    known = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    return {**known, "PYTHONPATH": paths, **variables}


def run(program: str, variables: dict[str, str], enter: Sequence[str] = ()) -> dict[str, Any]:
    command = [*enter, sys.executable, "-c", program]
    done = subprocess.run(command, env=variables, input="\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_of_processes_that_start_together_one_compiles_each_kernel(tmp_path: Path) -> None:
    variables = environment(NUMBA_CACHE_DIR=str(tmp_path))
    started = [
        subprocess.Popen(
            [sys.executable, "-c", ON_ONE_PROCESSOR + ALL],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(PROCESSES)
    ]
    for each in started:  # all are waiting for this line, with everything imported
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    answers = [json.loads(each.communicate()[0])["compiled"] for each in started]
    together = {name: sum(answer[name] for answer in answers) for name in answers[0]}
    assert max(together.values()) == 1, together
    assert sum(together.values()) > 10, together


def double(value: int) -> int:
    return 2 * value


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    return tmp_path


def test_a_kernel_whose_lock_stays_taken_is_compiled_all_the_same(
    in_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_cache, "LOCK_TIMEOUT_SECONDS", 0.1)
    kernel: Any = compiled(double)
    lock = Path(kernel.stats.cache_path) / lock_name(kernel)
    with lock.open("w") as taken:
        fcntl.flock(taken, fcntl.LOCK_EX)
        assert kernel(21) == 42
    again: Any = compiled(double)
    assert again(21) == 42
    assert not again.stats.cache_misses


def lock_name(kernel: Any) -> str:
    return Path(kernel._cache._own._cache_file._index_path).with_suffix(".lock").name


def test_a_lock_is_free_after_compiling_whether_it_failed_or_not(in_folder: Path) -> None:
    def fail(value: int) -> int:
        return value.no_such_attribute  # type: ignore[attr-defined, no-any-return]

    kernel: Callable[[int], int] = compiled(double)
    assert kernel(21) == 42
    with pytest.raises(Exception, match="no_such_attribute"):
        compiled(fail)(1)
    locks = list(in_folder.glob("*/*.lock"))
    assert len(locks) == 2
    for lock in locks:
        with lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_kernel_that_cannot_be_written_to_disk_is_used_all_the_same(
    in_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "save", fail)
    kernel: Callable[[int], int] = compiled(double)
    assert kernel(21) == 42


@pytest.mark.parametrize(
    "left", [b"", b"\x80", pickle.dumps("another numba"), None], ids=["empty", "cut", "other", "gone"]
)
def test_an_index_that_an_older_version_left_behind_is_replaced(in_folder: Path, left: bytes | None) -> None:
    first: Any = compiled(double)
    assert first(21) == 42
    index = Path(first._cache._own._cache_file._index_path)
    if left is None:  # an index of this Numba that names a class which is gone
        version, _, rest = index.read_bytes().partition(b"\x94.")
        left = version + b"\x94." + pickle.dumps(kernel_cache.SharedCache).replace(b"SharedCache", b"OlderCache_")
        assert rest
    index.write_bytes(left)
    again: Any = compiled(double)
    assert again(21) == 42
    assert sum(again.stats.cache_misses.values()) == 1
    third: Any = compiled(double)
    assert third(21) == 42
    assert not third.stats.cache_misses


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, with a cache of its own beside the source."""
    source = Path(kernel_cache.__file__).parents[2]
    shutil.copytree(source, tmp_path / "src" / "palio", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "src"


def variables_with(package: Path, **variables: str) -> dict[str, str]:
    paths = [str(package), *(path for path in sys.path if path and not (Path(path) / "palio").is_dir())]
    return environment(PYTHONPATH=os.pathsep.join(paths), **variables)


READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


def run_read_only(package: Path, variables: dict[str, str]) -> dict[str, Any]:
    """Need a kernel in a process that sees the package on a read-only file system."""
    enter = ["unshare", "--mount", "sh", "-c", READ_ONLY, str(package)]
    if shutil.which("unshare") is None or subprocess.run([*enter, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this user cannot mount a folder read-only (unshare --mount)")
    return run(ONE, variables, enter)


def test_kernels_warmed_beside_the_package_serve_those_who_cannot_write_there(package: Path, tmp_path: Path) -> None:
    variables = variables_with(package, HOME=str(tmp_path / "home"))
    assert run(ONE, variables)["compiled"] == {"float_slot": 1}
    answer = run_read_only(package, variables)
    assert answer["compiled"] == {"float_slot": 0}
    assert Path(answer["folder"]).is_relative_to(tmp_path / "home")


def test_where_neither_package_nor_home_can_be_written_a_private_temporary_folder_keeps_kernels(
    package: Path, tmp_path: Path
) -> None:
    variables = variables_with(package, HOME="/proc/none", TMPDIR=str(tmp_path))
    first = run_read_only(package, variables)
    folder = tmp_path / f"palio-kernels-{os.getuid()}"
    assert first["compiled"] == {"float_slot": 1}
    assert Path(first["folder"]).is_relative_to(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert run_read_only(package, variables)["compiled"] == {"float_slot": 0}


def test_a_temporary_folder_that_others_can_write_to_is_not_trusted(package: Path, tmp_path: Path) -> None:
    variables = variables_with(package, HOME="/proc/none", TMPDIR=str(tmp_path))
    folder = tmp_path / f"palio-kernels-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    assert run_read_only(package, variables)["folder"] is None


def test_all_kernels_of_matching_are_compiled_ahead(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    done = compile_kernels(report=lambda ready, total: seen.append((ready, total)))
    assert all(kernel.signatures for kernel in kernels())
    assert done.kernels == len(list(kernels())) == seen[-1][0] == seen[-1][1]


def test_after_precompilation_no_match_compiles_anything_also_on_another_machine(package: Path, tmp_path: Path) -> None:
    variables = environment(NUMBA_CACHE_DIR=str(tmp_path / "here"))
    run(COMPILE, variables)
    assert run(ARE_READY, variables) == {"ready": ["plain", "patterns", "expressions", "xml"]}
    answer = run(FLIGHTS, variables)
    assert not any(answer["compiled"].values()), answer
    assert {"match_rows", "look_up_columns", "run_program", "run_automaton"} <= set(answer["loaded"])
    # A copy of the package, of another time and in another folder.
    elsewhere = variables_with(package, NUMBA_CACHE_DIR=str(tmp_path / "there"))
    run(SEND.format(tmp_path), variables)
    run(RECEIVE.format(tmp_path), elsewhere)
    assert run(ARE_READY, elsewhere) == {"ready": ["plain", "patterns", "expressions", "xml"]}
    answer = run(FLIGHTS, elsewhere)
    assert not any(answer["compiled"].values()), answer

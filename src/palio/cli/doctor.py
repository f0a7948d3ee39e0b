"""`palio doctor`: checks of the installation, of Spark and Java, each with a remedy."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Literal

import click

from palio.cli import terminal
from palio.cli.warm import compile_with_progress

_EXIT_BROKEN: Final = 1
_PYTHON_TIMEOUT_SECONDS: Final = 60.0  # importing palio takes a tenth of one
State = Literal["fine", "absent", "broken"]
_STYLES: Final[dict[State, str]] = {"fine": "good", "absent": "quiet", "broken": "bad"}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, and a remedy if it is not fine."""

    what: str
    state: State
    seen: str
    remedy: str = ""


@click.command()
@click.option("--warm", is_flag=True, help="Compile the kernels of matching first, instead of in the background.")
@click.option("--start", is_flag=True, help="Also start Spark and run a job, which takes some seconds.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each finding, on a line each.")
@click.pass_context
def doctor(ctx: click.Context, warm: bool, start: bool, as_json: bool) -> None:
    """Check the installation of Palio and Spark, with a remedy for each fault.

    \b
    Examples:
      palio doctor
      palio doctor --warm
      palio doctor --start

    Exit code 0: all that is installed works; 1: something does not.
    """
    if warm:
        compile_with_progress()
    findings: list[Finding] = []
    for check in [*_CHECKS, *([_spark_job] if start else [])]:
        for finding in check():
            findings.append(finding)
            if as_json:
                terminal.print_json(
                    {"what": finding.what, "state": finding.state, "seen": finding.seen, "remedy": finding.remedy}
                )
    if not as_json:
        _print(findings)
    ctx.exit(_EXIT_BROKEN if any(each.state == "broken" for each in findings) else 0)


def _print(findings: list[Finding]) -> None:
    from rich.text import Text

    console = terminal.results()
    table = terminal.table("", "what", "seen")
    marks: dict[State, str] = {"fine": "✓", "absent": "–", "broken": "✗"}
    for each in findings:
        seen = Text(each.seen)
        if each.remedy:
            seen.append(f"\n{each.remedy}", style="warning")
        table.add_row(Text(marks[each.state], style=_STYLES[each.state]), each.what, seen)
    console.print(table)


def _python() -> Iterator[Finding]:
    seen = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Finding("Python", "fine", f"{seen}, {os.cpu_count()} processors")
    yield Finding("Palio", "fine", _version_of("palio") or "not installed as a package")


def _engine() -> Iterator[Finding]:
    """Matching gives the right answer, by kernels or by their interpreter."""
    from palio.matching.columnar.kernel_readiness import kernel_readiness
    from palio.matching.matcher import Matcher

    started = time.perf_counter()
    try:
        matcher = Matcher()
        matcher.add_many(["a", "b"], ["x = 1", "y LIKE '%z%'"])
        answer = matcher.match({"x": 1, "y": "xyz"})
    except Exception as error:
        yield Finding("matching", "broken", f"{type(error).__name__}: {error}", "please report this")
        return
    state: State = "fine" if answer == {"a", "b"} else "broken"
    taken = terminal.duration(time.perf_counter() - started)
    yield Finding("matching", state, f"Numba {_version_of('numba')}; the first match took {taken}", _cache_remedy())
    if not kernel_readiness.are_ready():
        yield Finding(
            "kernels", "absent", "are compiled in the background; until then matching is slow", "palio doctor --warm"
        )


def _cache_remedy() -> str:
    """Without a cache for compiled kernels, every process compiles them again."""
    from palio.matching.precompilation import kernels

    kept = next(kernels()).stats.cache_path is not None
    return "" if kept else "compiled code can be kept nowhere; set NUMBA_CACHE_DIR to a folder that can be written to"


def _spark() -> Iterator[Finding]:
    found = _version_of("pyspark") or _version_of("pyspark-client")
    if found is None:
        yield Finding("Spark", "absent", "not installed", "pip install 'palio[spark]' brings it")
        return
    supported = (4, 1) <= _version_numbers(found) < (5, 0)
    yield Finding(
        "Spark",
        "fine" if supported else "broken",
        f"pyspark {found}",
        "" if supported else "Palio needs pyspark>=4.1,<5: pip install 'pyspark>=4.1,<5'",
    )
    pandas = _version_of("pandas")
    if pandas is None or _version_numbers(pandas) >= (3, 0):
        seen = "not installed" if pandas is None else f"pandas {pandas}"
        yield Finding("pandas", "broken", seen, "Spark needs pandas>=2.2,<3: pip install 'pandas>=2.2,<3'")
    yield from _java()
    yield from _settings()


def _java() -> Iterator[Finding]:
    from palio.spark.java import JavaNotFound, find_java

    try:
        java = find_java()
    except JavaNotFound as error:
        first, *rest = str(error).splitlines()
        yield Finding("Java", "broken", first, "\n".join(rest))
        return
    yield Finding("Java", "fine", f"Java {java.version}, {java.origin}")


def _settings() -> Iterator[Finding]:
    """Environment variables that mislead a session on this machine. They are followed, because they are the user's."""
    python = os.environ.get("PYSPARK_PYTHON")
    if python and os.path.realpath(python) != os.path.realpath(sys.executable):
        yield _worker_python(python)
    home = os.environ.get("SPARK_HOME")
    if home:
        import pyspark

        if os.path.realpath(home) != os.path.realpath(os.path.dirname(pyspark.__file__)):
            yield Finding("SPARK_HOME", "broken", home, "another Spark would be started than pyspark's: unset it")


def _worker_python(python: str) -> Finding:
    """Another Python for the workers. On a cluster it is theirs; on this machine it has to have Palio."""
    what = "PYSPARK_PYTHON"
    path = shutil.which(python)
    if path is None:
        return Finding(what, "fine", f"{python}, which is not on this machine", "local masters cannot start it")
    command = [path, "-c", "import palio; print(palio.__version__)"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_PYTHON_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(what, "broken", f"{python}: {error}", f"unset it, or set it to {sys.executable}")
    if answer.returncode:
        remedy = f"install 'palio[spark]' there, unset it, or set it to {sys.executable}"
        return Finding(what, "broken", f"{python}, which cannot import palio", remedy)
    found, ours = answer.stdout.strip(), _version_of("palio")
    if found != ours:
        remedy = f"workers need the version of the driver, {ours}: install it there, or unset the variable"
        return Finding(what, "broken", f"{python}, which has palio {found}", remedy)
    return Finding(what, "fine", python)


def _sigma() -> Iterator[Finding]:
    found = _version_of("pysigma")
    if found is None:
        yield Finding("Sigma rules", "absent", "not installed", "pip install 'palio[sigma]' reads them")
    else:
        yield Finding("Sigma rules", "fine", f"pySigma {found}")


def _stream_extras() -> Iterator[Finding]:
    """Extras for the sources, sinks and subscription logs of streams."""
    for package, extra, what in (
        ("deltalake", "delta", "Delta tables"),
        ("nats-py", "nats", "NATS JetStream"),
        ("obstore", "stores", "logs in object stores"),
        ("grpcio", "connect", "Spark Connect"),
    ):
        found = _version_of(package)
        if found is None:
            yield Finding(what, "absent", f"{package} is not installed", f"pip install 'palio[{extra}]' brings it")
        else:
            yield Finding(what, "fine", f"{package} {found}")


def _spark_job() -> Iterator[Finding]:
    from palio.errors import PalioError
    from palio.spark.session import open_session

    started = time.perf_counter()
    try:
        spark = open_session()
        from palio.spark import match

        found = match(spark.range(10), [{"id": "a", "where": "id = 3"}]).count()
        spark.stop()
    except Exception as error:
        reason = str(error) if isinstance(error, PalioError) else f"{type(error).__name__}: {error}"
        yield Finding("a Spark job", "broken", reason.splitlines()[0], "see what Spark printed above")
        return
    taken = terminal.duration(time.perf_counter() - started)
    yield Finding("a Spark job", "fine" if found == 1 else "broken", f"started, matched and stopped in {taken}")


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _version_numbers(text: str) -> tuple[int, ...]:
    # A part such as `0rc1` is left out: a pre-release counts as its minor version.
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())


_CHECKS: Final[tuple[Callable[[], Iterator[Finding]], ...]] = (_python, _engine, _spark, _stream_extras, _sigma)

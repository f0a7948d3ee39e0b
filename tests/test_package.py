"""The package as a whole: its public names, the cost of importing it, and text that must not be in the repository."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path
from types import ModuleType

import mypy.api
import pytest

import palio
import palio.errors
import palio.spark

# The public names beside the errors. A name is public for good, so that adding one is a decision made here as well.
PUBLIC = {
    "DurableSettings", "Event", "Filter", "Matcher", "Subscription", "ValueSet", "__version__", "col", "connect",
    "connect_blocking",
}  # fmt: skip
PUBLIC_OF_SPARK = {
    "DeltaSink", "Estimate", "HttpSink", "NatsSink", "NatsSource", "PalioSink", "PalioSource", "ParquetSink",
    "ProgressListener", "Refused", "Rendezvous", "RingPlan", "SubscriptionLog", "Wants", "annotate", "backfill",
    "covering", "estimate", "generate", "match", "matches", "matching_function", "open_session", "progress",
    "read_documents", "register", "ring_plan", "stream", "sweep", "synopsis",
}  # fmt: skip


def test_public_names_are_listed_once_and_sorted_by_dir() -> None:
    assert len(palio.__all__) == len(set(palio.__all__))
    assert dir(palio) == sorted(palio.__all__)


def test_no_name_is_public_by_accident() -> None:
    errors = {error.__name__ for error in errors_defined_in(palio.errors)}
    assert set(palio.__all__) - errors == PUBLIC
    assert set(palio.spark.__all__) == PUBLIC_OF_SPARK


def test_every_error_is_in_the_hierarchy_that_its_module_opens_with() -> None:
    listed = re.findall(r"^ {4,}([A-Z]\w+)", palio.errors.__doc__ or "", re.MULTILINE)
    assert sorted(listed) == sorted(error.__name__ for error in errors_defined_in(palio.errors))


@pytest.mark.parametrize("name", palio.__all__)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(palio, name) is not None


def test_what_a_type_checker_sees_is_what_is_imported_at_first_use() -> None:
    """The imports under TYPE_CHECKING and the table of lazy modules have the same names from the same modules."""
    [checked] = [
        node
        for node in ast.parse(Path(palio.__file__).read_text(encoding="utf-8")).body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    ]
    imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    # The table is private, and the only other place that names them.
    assert {alias.asname: node.module for node in imports for alias in node.names} == palio._LAZY_MODULES


def test_a_type_checker_knows_the_calls_that_connect(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import palio\nreveal_type(palio.connect())\nreveal_type(palio.connect_blocking())\npalio.Broom\n"
    )
    said, _, status = mypy.api.run([str(script), "--cache-dir", str(tmp_path)])
    assert "palio.network.client.broker.ConnectionContext" in said
    assert "palio.network.client.blocking.BlockingConnectionContext" in said
    assert 'no attribute "Broom"' in said
    assert status == 1


def test_a_name_that_is_not_there_is_refused_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Broom'"):
        palio.Broom  # type: ignore[attr-defined]  # noqa: B018


def test_every_error_that_palio_defines_is_a_palio_error() -> None:
    modules = [
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(palio.__path__, "palio.")
        if not module.name.endswith("__main__")
    ]
    errors = {error for module in modules for error in errors_defined_in(module)}
    assert palio.errors.UnknownSubscription in errors
    assert [error for error in errors if not issubclass(error, palio.PalioError) or not error.__doc__] == []


def test_every_error_of_the_core_is_public() -> None:
    errors = errors_defined_in(palio.errors)
    assert palio.errors.PalioError in errors
    assert [error for error in errors if error.__name__ not in palio.__all__] == []


def errors_defined_in(module: ModuleType) -> list[type[BaseException]]:
    return [
        value
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, BaseException)
        if value.__module__ == module.__name__ and not name.startswith("_")
    ]


def test_the_version_is_the_installed_one() -> None:
    assert palio.__version__ == version("palio")


def test_sql_is_registered_as_a_language() -> None:
    [sql] = entry_points(group="palio.languages", name="sql")
    assert callable(sql.load())


HEAVY = ("numpy", "numba", "pyarrow", "rich", "pyspark", "pandas", "click")


@pytest.mark.parametrize(
    "statement",
    [
        "import palio",
        "import palio.events",
        "import palio.filters",
        "import palio.languages.sql",
        "import palio; palio.Filter.parse('x > 3').matches({'x': 4})",
        "import palio; palio.connect()",
    ],
)
def test_importing_palio_does_not_import_what_is_heavy(statement: str) -> None:
    check = f"{statement}\nimport sys\nprint(*sorted(sys.modules.keys() & {set(HEAVY)!r}))"
    assert run_python("-c", check).strip() == ""


def test_python_m_palio_is_the_command() -> None:
    assert "match" in run_python("-m", "palio", "--help")


def run_python(*arguments: str) -> str:
    return subprocess.check_output([sys.executable, *arguments], text=True)


# Where this was written is nobody's business, and works nowhere else.
NOT_HERE = {
    "a path of one machine": re.compile(r"(?<![\w.~-])/(work|root|opt|home|Users|tmp|mnt)/[\w.]"),
    "a registry": re.compile(r"\b(pypi\.org|pythonhosted\.org|[a]rtifactory|[j]frog|[i]ndex-url|[f]ind-links)\b"),
    "a document that readers do not have": re.compile(r"(?<![\w/])spec/\w|share[d]/spec\b"),
}
TEXT = {"", ".cfg", ".cpp", ".h", ".html", ".ini", ".md", ".py", ".rst", ".sh", ".toml", ".txt", ".yml"}


def test_no_file_tells_where_it_was_written(project_folder: Path) -> None:
    found = [
        f"{path}:{number}: {what}: {line.strip()[:80]}"
        for path in repository_files(project_folder)
        for number, line in enumerate((project_folder / path).read_text(encoding="utf-8").splitlines(), 1)
        for what, pattern in NOT_HERE.items()
        if pattern.search(line)
    ]
    assert found == []


def repository_files(project: Path) -> list[Path]:
    """The text files under version control or about to be."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=project,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("this is no clone of the repository: nothing says which files belong to it")
    names = {os.fsdecode(name) for name in listed.stdout.split(b"\0") if name}
    return [path for path in map(Path, sorted(names)) if path.suffix in TEXT and (project / path).is_file()]

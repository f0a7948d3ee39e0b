"""The benchmark of XPath patterns: a row for each size, with answers equal to lxml's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from harness import nitf, xml_patterns


def test_answers_are_those_of_lxml(capsys: pytest.CaptureFixture[str]) -> None:
    if nitf.read_schema() is None:
        pytest.skip("the NITF schema is not here")
    assert xml_patterns.main(["--quick", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert [(line["documents"], line["patterns"]) for line in lines] == [
        ("3.8 KB", 50),
        ("60 KB", 50),
        ("3.8 KB", 200),
        ("60 KB", 200),
    ]
    assert all(line["note"].startswith(("equal", "lxml is not installed")) for line in lines)


def test_the_script_does_not_hide_the_package_of_its_name() -> None:
    script = Path(xml_patterns.__file__).parents[1] / "xml.py"
    done = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True, check=True)
    assert "XPath patterns" in done.stdout
    imported = "import xml.parsers.expat, xml.etree.ElementTree as tree; print(tree.fromstring('<a/>').tag)"
    done = subprocess.run(
        [sys.executable, "-c", imported], capture_output=True, text=True, check=True, cwd=script.parent
    )
    assert done.stdout == "a\n"

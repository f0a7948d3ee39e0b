"""The benchmark of XPath patterns: a row for each size, with answers equal to lxml's."""

from __future__ import annotations

import json

import pytest
import xpath


def test_answers_are_those_of_lxml(capsys: pytest.CaptureFixture[str]) -> None:
    if xpath.read_schema() is None:
        pytest.skip("the NITF schema is not here")
    assert xpath.main(["--quick", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert [(line["documents"], line["patterns"]) for line in lines] == [
        ("3.8 KB", 50),
        ("60 KB", 50),
        ("3.8 KB", 200),
        ("60 KB", 200),
    ]
    assert all(line["note"].startswith(("equal", "lxml is not installed")) for line in lines)

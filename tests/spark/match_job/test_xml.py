"""XPath subscriptions over a column of XML text, compared with Spark's own xpath_boolean."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from palio import Matcher, PipelineError
from palio.spark import estimate, match, read_documents, synopsis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCUMENTS = [
    "<a><b>1</b><b x='2'>two</b></a>",
    "<a>10</a>",
    "<c><a><b/></a></c>",
    "<c><b x='1'>one</b><d/></c>",
]
XPATHS = [
    "/a/b", "a/b", "//b[@x = 2]", "/a[b = 'two']", "/a[b > 0]", "//a[not(b)]", "/a | /c", "//b[. = 1 or @x]",
    "//b[2]", "//b[position()=last()][@x]", "//b[following-sibling::d]", "/a[count(b) = 2]", "//a[b + 1 = 2]",
    "//b[contains(., 'w')]", "/a[starts-with(b, '1')]", "//b[parent::a][not(ancestor::c)]", "/c/*[self::d or self::a]",
]  # fmt: skip


def test_the_matches_are_those_of_xpath_boolean(spark: SparkSession) -> None:
    events = spark.createDataFrame(list(enumerate(DOCUMENTS)), "n INT, body STRING")
    wants = Matcher()
    for number, xpath in enumerate(XPATHS):
        wants.add(f"{number}", xpath, language="xpath")
    found = match(events, wants, xml="body")
    assert found.columns == ["n", "body", "subscription_id"]
    expressions = [f"xpath_boolean(body, {xpath!r}) AS c{number}" for number, xpath in enumerate(XPATHS)]
    expected = {
        (row["n"], f"{number}")
        for row in events.selectExpr("n", *expressions).collect()
        for number in range(len(XPATHS))
        if row[f"c{number}"]
    }
    assert {(row["n"], row["subscription_id"]) for row in found.collect()} == expected


def test_files_of_any_encoding_are_events_with_a_path(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "one.xml").write_text("<a><b>1</b></a>")
    (tmp_path / "deep" / "two.xml").write_bytes("<a><b>é</b><b/></a>".encode("utf-16"))
    (tmp_path / "latin.xml").write_bytes("<?xml version='1.0' encoding='latin-1'?><a><b>é</b></a>".encode("latin-1"))
    (tmp_path / "bad.xml").write_bytes(b"<a>\xff")
    (tmp_path / "unknown.xml").write_bytes(b"<?xml version='1.0' encoding='nothing'?><a/>")
    (tmp_path / "notes.txt").write_text("<a/>")
    wants = Matcher()
    wants.add("accent", "//b[. = 'é']", language="xpath")
    wants.add("second", "//b[2]", language="xpath")
    wants.add("one", "path LIKE '%/one.xml' AND xpath_boolean(xml, '/a/b')")
    events = read_documents(spark, str(tmp_path))
    assert events.columns == ["path", "xml"]
    assert events.count() == 5
    found = match(events, wants, columns=["path"]).collect()
    assert {(Path(row["path"]).name, row["subscription_id"]) for row in found} == {
        ("two.xml", "accent"),
        ("latin.xml", "accent"),
        ("two.xml", "second"),
        ("one.xml", "one"),
    }
    assert read_documents(spark, f"{tmp_path}/*.xml").count() == 4
    assert estimate(events, "//b[2]", language="xpath").matches == 1
    renamed = events.withColumnRenamed("xml", "body")
    assert estimate(renamed, "//b[2]", language="xpath", xml="body").matches == 1
    known = synopsis(renamed, "body")
    assert (known.documents, known.frequency("/a"), known.frequency("/a/b")) == (3, 3, 3)
    again = estimate(renamed, "/a/b", language="xpath", xml="body", synopsis=known)
    assert (again.rate, again.by_synopsis) == (3 / 5, 1.0)
    assert estimate(renamed, "path IS NULL", synopsis=known).by_synopsis is None
    with pytest.raises(PipelineError, match="there is no 'text'"):
        synopsis(renamed, "text")
    with pytest.raises(PipelineError, match="from a folder or a pattern"):
        read_documents(spark, 5)


def test_the_column_of_documents_must_be_there(spark: SparkSession) -> None:
    events = spark.createDataFrame([("<a/>", "<b/>")], "body STRING, xml STRING")
    with pytest.raises(PipelineError, match="there is no 'text', but body, xml"):
        match(events, Matcher(), xml="text")
    with pytest.raises(PipelineError, match="there is a column xml too"):
        match(events, Matcher(), xml="body")

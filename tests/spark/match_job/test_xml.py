"""XPath subscriptions over a column of XML text, compared with Spark's own xpath_boolean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from palio import Matcher, PipelineError
from palio.spark import match

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


def test_the_column_of_documents_must_be_there(spark: SparkSession) -> None:
    events = spark.createDataFrame([("<a/>", "<b/>")], "body STRING, xml STRING")
    with pytest.raises(PipelineError, match="there is no 'text', but body, xml"):
        match(events, Matcher(), xml="text")
    with pytest.raises(PipelineError, match="there is a column xml too"):
        match(events, Matcher(), xml="body")

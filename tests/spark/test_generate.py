"""Workloads made on Spark are those made anywhere, whatever the partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from palio.errors import InvalidArgument
from palio.spark import generate, match
from palio.workloads import WorkloadError
from palio.workloads.generated import workload
from palio.workloads.xml_documents import XmlDocuments
from palio.workloads.xml_schema import read_dtd
from palio.workloads.xml_workload import XmlWorkload
from palio.workloads.xpath_patterns import XPathPatterns
from palio.xml.document_parser import parse_document
from palio.xml.reference_matcher import ReferenceMatcher
from palio.xml.xpath_parser import parse_xpath

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKLOADS = ["eq", "mix", "xsiena", "shen", "shen-letters", "baldoni"]


@pytest.mark.parametrize("name", WORKLOADS)
def test_rows_depend_on_the_seed_alone(spark: SparkSession, name: str) -> None:
    made = workload(name, seed=5)
    for partitions in (1, 3):
        events = generate(spark, name, "events", 700, partitions=partitions, seed=5).toArrow().sort_by("number")
        assert events["number"].to_pylist() == list(range(700))
        assert events.drop(["number"]).to_pylist() == pa.Table.from_batches([made.events(700)]).to_pylist()
    subscriptions = generate(spark, name, "subscriptions", 300, partitions=3, start=50, seed=5).toArrow()
    assert sorted(subscriptions.to_pylist(), key=lambda row: int(row["id"])) == made.subscriptions(300, 50).to_pylist()


def test_another_seed_gives_other_rows(spark: SparkSession) -> None:
    first, second = (generate(spark, "mix", "subscriptions", 50, seed=seed).toArrow() for seed in (1, 2))
    assert first["where"].to_pylist() != second["where"].to_pylist()


def test_documents_and_xpath_subscriptions_are_made_from_a_schema(spark: SparkSession) -> None:
    schema = read_dtd("<!ELEMENT a (b | c)+><!ELEMENT b (c+)><!ELEMENT c (#PCDATA)>", "a")
    made = XmlWorkload(XmlDocuments(schema, tags=4), XPathPatterns(schema, min_depth=1, branch=0.3))
    events = generate(spark, made, "events", 60, partitions=3).toArrow().sort_by("number")
    assert events["xml"].to_pylist() == made.events(60)["xml"].to_pylist()
    subscriptions = generate(spark, made, "subscriptions", 20, partitions=2)
    assert sorted(subscriptions.toArrow()["where"].to_pylist()) == sorted(made.subscriptions(20)["where"].to_pylist())
    matched = match(spark.createDataFrame(events.to_pandas()), subscriptions, columns=["number"]).collect()
    patterns = {f"{row}": parse_xpath(made.patterns.pattern(row)) for row in range(20)}
    expected = {
        (number, row)
        for number in range(60)
        for row, pattern in patterns.items()
        if ReferenceMatcher(parse_document(made.documents.document(number))).matches(pattern)
    }
    assert {(row["number"], row["subscription_id"]) for row in matched} == expected != set()


def test_nothing_is_a_number_too(spark: SparkSession) -> None:
    assert generate(spark, "eq", "events", 0).count() == 0


def test_what_cannot_be_generated_is_refused(spark: SparkSession) -> None:
    with pytest.raises(WorkloadError, match="there is no workload 'eqq'; there are eq, mix"):
        generate(spark, "eqq", "events", 1)
    with pytest.raises(WorkloadError, match="colour"):
        generate(spark, "eq", "events", 1, colour="red")
    with pytest.raises(InvalidArgument, match="'events' and 'subscriptions', not 'rows'"):
        generate(spark, "eq", "rows", 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="from 0 on"):
        generate(spark, "eq", "events", -1)

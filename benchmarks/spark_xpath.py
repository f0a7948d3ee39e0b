"""XML on Spark: XPath subscriptions over a column of documents, beside Spark's own `xpath_boolean` for each pattern.

    python benchmarks/spark_xpath.py                            100,000 documents, 10,000 patterns
    python benchmarks/spark_xpath.py --documents 20000 --keep ./documents

Patterns and documents are those of `benchmarks/xml.py`. The executors make the documents and write them as Parquet,
which both read; `--keep` names the folder, whose documents a later run takes as they are. Making one takes 2 ms of a
processor, so `--distinct` of them are made, and each is written as often as `--documents` needs.

Spark is asked some patterns in one pass over some of the documents, and its time is scaled to all pairs of a document
and a pattern; both answers are compared on these. Seconds are those of the clock, on local[2], best of some rounds.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.nitf import TAGS_BY_SIZE, read_schema
from pyspark.sql import DataFrame, SparkSession

from palio import Matcher
from palio.matching.subscription import Subscription
from palio.spark import generate, match, open_session
from palio.workloads.xml_documents import XmlDocuments
from palio.workloads.xml_schema import Schema
from palio.workloads.xml_workload import XmlWorkload
from palio.workloads.xpath_patterns import XPathPatterns

PARTITIONS = 16


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--distinct", type=int, default=20_000, help="documents that differ")
    parser.add_argument("--patterns", type=int, default=10_000)
    parser.add_argument(
        "--spark-documents", type=int, default=500, help="documents that Spark's function is asked about"
    )
    parser.add_argument("--spark-patterns", type=int, default=100, help="patterns for xpath_boolean")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="the folder of the documents; without it they are removed at the end")
    options = parser.parse_args(arguments)
    schema = read_schema()
    if schema is None:
        print("the NITF schema is not here; set PALIO_DATA to the folder that has it", file=sys.stderr)
        return 0
    with TemporaryDirectory(prefix="palio-documents-") as temporary:
        spark = open_session("local[2]")
        events = _documents(spark, schema, options, options.keep or Path(temporary))
        return _measure(events, list(islice(XPathPatterns(schema).patterns(), options.patterns)), options)


def _documents(spark: SparkSession, schema: Schema, options: argparse.Namespace, folder: Path) -> DataFrame:
    """The documents, in the columns `number` and `xml`."""
    count, distinct = options.documents, min(options.documents, options.distinct)
    path = folder / f"nitf-{distinct}.parquet"
    if not (path / "_SUCCESS").exists():
        start = time.perf_counter()
        documents = XmlDocuments(schema, tags=TAGS_BY_SIZE["3.8 KB"], attribute_share=0.1)
        made = generate(spark, XmlWorkload(documents, XPathPatterns(schema)), "events", distinct, partitions=PARTITIONS)
        made.write.mode("overwrite").parquet(str(path))
        print(f"{distinct:,} documents made in {time.perf_counter() - start:,.0f} s", flush=True)
    copies = folder / f"nitf-{distinct}-{count}.parquet"
    if not (copies / "_SUCCESS").exists():
        times = spark.range(math.ceil(count / distinct)).withColumnRenamed("id", "copy")
        rows = spark.read.parquet(str(path)).crossJoin(times).selectExpr(f"number + copy * {distinct} AS number", "xml")
        rows.where(f"number < {count}").repartition(PARTITIONS).write.mode("overwrite").parquet(str(copies))
    return spark.read.parquet(str(copies))


def _measure(events: DataFrame, texts: list[str], options: argparse.Namespace) -> int:
    wants = Matcher()
    wants.add_many((f"{place}", Subscription(f"{place}", text, "xpath")) for place, text in enumerate(texts))

    def match_all() -> None:
        match(events, wants, per_event=True, columns=["number"]).write.format("noop").mode("overwrite").save()

    seconds = _best(match_all, options.rounds)
    palio = options.documents * len(texts) / seconds
    print(f"Palio: {options.documents / seconds:,.0f} documents/s with {len(texts):,} patterns, {palio:,.0f} pairs/s")
    few = events.where(f"number < {options.spark_documents}").repartition(4).cache()
    few.count()
    asked = texts[: options.spark_patterns]
    answers = few.selectExpr(
        "number", *(f"xpath_boolean(xml, '{text}') AS p{place}" for place, text in enumerate(asked))
    )
    seconds_of_spark = _best(lambda: answers.write.format("noop").mode("overwrite").save(), options.rounds)
    of_spark = options.spark_documents * len(asked) / seconds_of_spark
    expected = {(row["number"], place) for row in answers.collect() for place in range(len(asked)) if row[f"p{place}"]}
    found = {
        (row["number"], int(row["subscription_id"]))
        for row in match(few, wants, columns=["number"]).collect()
        if int(row["subscription_id"]) < len(asked)
    }
    print(f"xpath_boolean: {of_spark:,.0f} pairs/s; Palio {palio / of_spark:,.0f} times as many")
    print("answers equal" if found == expected else f"answers differ: {len(found ^ expected)} of {len(expected)}")
    return int(found != expected)


def _best(run: Callable[[], None], rounds: int) -> float:
    best = math.inf
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


if __name__ == "__main__":
    raise SystemExit(main())

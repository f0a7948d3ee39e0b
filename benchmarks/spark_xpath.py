"""XML on Spark: XPath subscriptions over a column of documents, beside Spark's own `xpath_boolean` for each pattern.

    python benchmarks/spark_xpath.py --documents 20000 --patterns 10000

Patterns and documents are those of `benchmarks/xml.py`. Spark is asked some patterns in one pass over some of the
documents, and its time is scaled to all pairs of a document and a pattern; both answers are compared on these. Seconds
are those of the clock, on local[2], best of two.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from itertools import islice

from harness.nitf import TAGS_BY_SIZE, read_schema

from palio import Matcher
from palio.matching.subscription import Subscription
from palio.spark import match, open_session
from palio.workloads.xml_documents import XmlDocuments
from palio.workloads.xpath_patterns import XPathPatterns

ROUNDS = 2


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--patterns", type=int, default=10_000)
    parser.add_argument(
        "--spark-documents", type=int, default=500, help="documents that Spark's function is asked about"
    )
    parser.add_argument("--spark-patterns", type=int, default=100, help="patterns for xpath_boolean")
    options = parser.parse_args(arguments)
    schema = read_schema()
    if schema is None:
        print("the NITF schema is not here; set PALIO_DATA to the folder that has it", file=sys.stderr)
        return 0
    texts = list(islice(XPathPatterns(schema).patterns(), options.patterns))
    maker = XmlDocuments(schema, tags=TAGS_BY_SIZE["3.8 KB"], attribute_share=0.1)
    spark = open_session("local[2]")
    rows = [(row, maker.document(row)) for row in range(options.documents)]
    events = spark.createDataFrame(rows, "n INT, xml STRING").repartition(4).cache()
    events.count()
    wants = Matcher()
    wants.add_many((f"{place}", Subscription(f"{place}", text, "xpath")) for place, text in enumerate(texts))
    seconds = _best(
        lambda: match(events, wants, per_event=True, columns=["n"]).write.format("noop").mode("overwrite").save()
    )
    palio = options.documents * len(texts) / seconds
    few = events.where(f"n < {options.spark_documents}").repartition(4).cache()
    few.count()
    asked = texts[: options.spark_patterns]
    literals = [text.replace("\\", "\\\\").replace("'", "\\'") for text in asked]
    answers = few.selectExpr("n", *(f"xpath_boolean(xml, '{text}') AS p{place}" for place, text in enumerate(literals)))
    seconds_of_spark = _best(lambda: answers.write.format("noop").mode("overwrite").save())
    of_spark = options.spark_documents * len(asked) / seconds_of_spark
    expected = {(row["n"], place) for row in answers.collect() for place in range(len(asked)) if row[f"p{place}"]}
    found = {
        (row["n"], int(row["subscription_id"]))
        for row in match(few, wants, columns=["n"]).collect()
        if int(row["subscription_id"]) < len(asked)
    }
    print(f"Palio: {options.documents / seconds:,.0f} documents/s with {len(texts):,} patterns, {palio:,.0f} pairs/s")
    print(f"xpath_boolean: {of_spark:,.0f} pairs/s; Palio {palio / of_spark:,.0f} times as many")
    print("answers equal" if found == expected else f"answers differ: {len(found ^ expected)} of {len(expected)}")
    return int(found != expected)


def _best(run: Callable[[], None]) -> float:
    best = math.inf
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


if __name__ == "__main__":
    raise SystemExit(main())

"""Task of `benchmarks/xml.py`: documents against many XPath patterns, beside lxml.

Patterns and documents are made from the NITF schema with the parameters of XNet's experiments. Documents have about 3.8
and 60 KB. Palio parses the text of a document and matches it against all patterns. `first` is its speed on documents
that it has not seen, while its automaton still grows; `again` is that on the same documents once more; `matcher` is
that of a `Matcher` with the patterns as subscriptions, from text to the ids of all that match. lxml parses each
document and asks one compiled `boolean(XPath)` after the other, or one XSLT stylesheet that tests all of them, for as
many documents as `--seconds` allow; no stylesheet of more than 10,000 is made. All run in this process on one core,
seconds are CPU seconds, and the answers are compared. The growth is the exponent of the time of a document by the
number of patterns, from the row of the size before: 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from rich.console import Console
from rich.table import Table

from harness.clock import Budget, pin_to_one_core, timed
from harness.nitf import TAGS_BY_SIZE, read_schema
from harness.report import figure, short
from palio import Matcher
from palio.matching.columnar.kernel_readiness import PLAIN, XML, readiness
from palio.matching.subscription import Subscription
from palio.matching.xml_kernels import PATTERN_KERNELS, SCANNER
from palio.workloads.xml_documents import XmlDocuments
from palio.workloads.xml_schema import Schema
from palio.workloads.xpath_patterns import XPathPatterns
from palio.xml.document import Document
from palio.xml.document_parser import parse_document
from palio.xml.pattern_index import PatternIndex
from palio.xml.xpath_parser import parse_xpath

ROUNDS = 3
MAX_STYLESHEET_PATTERNS = 10_000


@dataclass
class Line:
    """One row of the table; None is not measured."""

    documents: str
    patterns: int
    bytes: float
    matches: float
    """Patterns that a document matches."""
    first_per_second: float
    again_per_second: float
    parse_microseconds: float
    adds_per_second: float
    """XPaths that the matcher reads and takes in, all at once."""
    matcher_per_second: float
    growth: float | None = None
    lxml_per_second: float | None = None
    ratio: float | None = None
    """Palio's speed, in multiples of lxml's with one compiled XPath each."""
    stylesheet_per_second: float | None = None
    note: str = ""


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    schema = read_schema()
    if schema is None:
        print("the NITF schema is not here; set PALIO_DATA to the folder that has it", file=sys.stderr)
        return 0
    core = pin_to_one_core()
    lines = []
    with readiness[PLAIN].compiling_here(), readiness[XML].compiling_here():
        for line in measure(options, schema):
            _say(f"{line.documents}, {short(line.patterns)}: {figure(line.again_per_second)} documents/s")
            lines.append(line)
    if options.json:
        print(json.dumps([asdict(line) for line in lines], indent=2))
    else:
        _show(lines, f"one core ({core}), CPU time; again: best of {ROUNDS} rounds")
    return 1 if any(line.note.startswith("differ") for line in lines) else 0


def measure(options: argparse.Namespace, schema: Schema) -> Iterator[Line]:
    texts = list(islice(XPathPatterns(schema).patterns(), max(options.sizes)))
    workloads = {
        label: [XmlDocuments(schema, tags=tags, attribute_share=0.1).document(row).encode() for row in range(count)]
        for (label, tags), count in zip(TAGS_BY_SIZE.items(), options.documents, strict=True)
    }
    before: dict[str, Line] = {}
    for size in options.sizes:
        _say(f"{short(size)} patterns: parsing …")
        patterns = [parse_xpath(text) for text in texts[:size]]
        matcher = Matcher()
        with timed() as adding:
            matcher.add_many(
                (f"{place}", Subscription(f"{place}", text, "xpath")) for place, text in enumerate(texts[:size])
            )
        for label, documents in workloads.items():
            index = PatternIndex(PATTERN_KERNELS)
            index.add_many(patterns)
            index.match(_parse(b"<warm-up/>"))
            line, answers = _measure_palio(index, label, size, documents)
            line.adds_per_second = size / adding.seconds
            _measure_matcher(line, matcher, documents, answers)
            if label in before:
                slower = before[label].again_per_second / line.again_per_second
                line.growth = math.log(slower) / math.log(size / before[label].patterns)
            before[label] = line
            _measure_lxml(line, texts[:size], documents, answers, options.seconds)
            yield line


def _measure_palio(index: PatternIndex, label: str, size: int, documents: list[bytes]) -> tuple[Line, list[list[int]]]:
    with timed() as first:
        answers = [index.match(_parse(document)) for document in documents]
    again, parsing = math.inf, math.inf
    for _ in range(ROUNDS):
        with timed() as watch:
            for document in documents:
                index.match(_parse(document))
        again = min(again, watch.seconds)
        with timed() as watch:
            for document in documents:
                _parse(document)
        parsing = min(parsing, watch.seconds)
    count = len(documents)
    line = Line(
        documents=label,
        patterns=size,
        bytes=sum(map(len, documents)) / count,
        matches=sum(map(len, answers)) / count,
        first_per_second=count / first.seconds,
        again_per_second=count / again,
        parse_microseconds=parsing / count * 1e6,
        adds_per_second=math.nan,
        matcher_per_second=math.nan,
    )
    return line, answers


def _parse(document: bytes) -> Document:
    return parse_document(document, scanner=SCANNER)


def _measure_matcher(line: Line, matcher: Matcher, documents: list[bytes], answers: list[list[int]]) -> None:
    events = [{"xml": document.decode()} for document in documents]
    found = [sorted(map(int, matcher.match(event))) for event in events]
    if found != answers:
        line.note = "differ from those of the matcher"
    seconds = math.inf
    for _ in range(ROUNDS):
        with timed() as watch:
            for event in events:
                matcher.match(event)
        seconds = min(seconds, watch.seconds)
    line.matcher_per_second = len(events) / seconds


def _measure_lxml(
    line: Line, texts: list[str], documents: list[bytes], answers: list[list[int]], seconds: float
) -> None:
    try:
        from lxml import etree
    except ImportError:
        line.note = "lxml is not installed"
        return
    compiled: list[Any] = [etree.XPath(f"boolean({text})") for text in texts]
    budget = Budget(seconds)
    done = different = 0
    with timed() as watch:
        for document, expected in zip(documents, answers, strict=True):
            tree = etree.fromstring(document)
            found = [number for number, ask in enumerate(compiled) if ask(tree)]
            different += found != expected
            done += 1
            if budget.spent:
                break
    line.lxml_per_second = done / watch.seconds
    line.ratio = line.again_per_second / line.lxml_per_second
    if not line.note:
        line.note = f"differ on {different} of {done} documents" if different else f"equal on {done} documents"
    if len(texts) <= MAX_STYLESHEET_PATTERNS:
        _measure_stylesheet(line, texts, documents, answers, seconds)


def _measure_stylesheet(
    line: Line, texts: list[str], documents: list[bytes], answers: list[list[int]], seconds: float
) -> None:
    """One stylesheet that writes the numbers of all patterns that match."""
    from lxml import etree

    uri = "http://www.w3.org/1999/XSL/Transform"
    stylesheet = etree.Element(f"{{{uri}}}stylesheet", version="1.0", nsmap={"xsl": uri})
    etree.SubElement(stylesheet, f"{{{uri}}}output", method="text")
    template = etree.SubElement(stylesheet, f"{{{uri}}}template", match="/")
    for number, text in enumerate(texts):
        etree.SubElement(template, f"{{{uri}}}if", test=text).text = f"{number} "
    transform = etree.XSLT(stylesheet)
    budget = Budget(seconds)
    done = different = 0
    with timed() as watch:
        for document, expected in zip(documents, answers, strict=True):
            different += [int(number) for number in str(transform(etree.fromstring(document))).split()] != expected
            done += 1
            if budget.spent:
                break
    line.stylesheet_per_second = done / watch.seconds
    if different:
        line.note = f"differ on {different} of {done} documents by stylesheet"


def _show(lines: list[Line], caption: str) -> None:
    table = Table(title="XPath patterns over XML documents", caption=caption, title_justify="left")
    for header in (
        "documents",
        "patterns",
        "bytes",
        "matches",
        "first/s",
        "again/s",
        "parse µs",
        "adds/s",
        "matcher/s",
        "growth",
    ):
        table.add_column(header, justify="right", no_wrap=True)
    for header in ("lxml/s", "× lxml", "XSLT/s", "answers"):
        table.add_column(header, justify="right", no_wrap=True)
    for line in lines:
        values = (line.bytes, line.matches, line.first_per_second, line.again_per_second, line.parse_microseconds)
        rest = (
            line.adds_per_second,
            line.matcher_per_second,
            line.growth,
            line.lxml_per_second,
            line.ratio,
            line.stylesheet_per_second,
        )
        table.add_row(line.documents, short(line.patterns), *map(figure, values), *map(figure, rest), line.note)
    Console(width=None if sys.stdout.isatty() else 165).print(table)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=_size, default=[1_000, 10_000, 100_000], help="numbers of patterns")
    parser.add_argument("--documents", nargs=2, type=int, default=[200, 12], help="small and large ones")
    parser.add_argument("--seconds", type=float, default=4.0, help="CPU seconds of lxml for each row")
    parser.add_argument("--quick", action="store_true", help="few patterns and documents")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.quick:
        options.sizes, options.documents, options.seconds = [50, 200], [6, 2], 0.2
    options.sizes.sort()
    return options


def _size(text: str) -> int:
    return int(text[:-1]) * 1_000 if text.endswith("k") else int(text)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())

"""The scanner of usual documents, compared with Expat."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from dataclasses import fields
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palio.errors import DocumentError
from palio.matching.columnar.kernel_readiness import XML, readiness
from palio.matching.xml_kernels import COMPILED_SCAN
from palio.xml.document import Document
from palio.xml.document_parser import DocumentLimits, parse_document
from palio.xml.document_scanner import DocumentScanner
from palio.xml.pattern_index import interpreted
from palio.xml.scan_kernels import scan_document
from tests.xml.strategies import documents

INTERPRETED = DocumentScanner(interpreted(scan_document))
COMPILED = DocumentScanner(COMPILED_SCAN)
DATA = Path(os.environ.get("PALIO_DATA", "")) / "xml"

USUAL = [
    b"<a/>",
    (
        b"<?xml version='1.0' encoding='UTF-8' standalone=\"yes\"?>\n"
        b'<!DOCTYPE a SYSTEM "a.dtd">\n<a x=\'1\' y = "&lt;2\t\n">t</a>\n'
    ),
    b'<!DOCTYPE article PUBLIC "-//NLM//DTD JATS v1.2//EN" "JATS-1.dtd"><article/>',
    "\ufeff<a>ÿ€😀</a>".encode(),
    b"<a>\r\n1<!-- c -->2<?p i?><?q?>3<![CDATA[<4>]]>5&lt;&#54;&#x1F600;<![CDATA[]]></a><!-- end --><?end now ?>",
    b"<a xmlns='urn:x' xmlns:l='urn:l' l:href='h' id='i'><l:b xml:lang='en' id=''/><id>]</id></a >",
    b"<a><b><c/></b> <b><c></c></b></a>",
    b"<a>x]]y] ]></a>".replace(b"]>", b"] >"),
    b"<a.b-c_1 _x.-='>'/>",
]
LEFT_TO_EXPAT = [
    b"",
    b"<a>",
    b"<a/><b/>",
    b"x<a/>",
    b"<a/>x",
    b"<a/>&lt;",
    b"<a/><![CDATA[]]>",
    b"<a></b>",
    b"<a></ab>",
    b"<ab></a>",
    b"<a x='1' x='2'/>",
    b"<a x='1'y='2'/>",
    b"<a x=1/>",
    b"<a x='<'/>",
    b"<a b/>",
    b"< a/>",
    b"<a>]]></a>",
    b"<a>&b;</a>",
    b"<a>&#0;</a>",
    b"<a>&#xD800;</a>",
    b"<a>&#x110000;</a>",
    b"<a>& b</a>",
    b"<a>\x01</a>",
    b"<a>\0</a>",
    b"<a>\xff</a>",
    b"<a>\xef\xbf\xbe</a>",
    b"<a><!-- -- --></a>",
    b"<a><!-- --->--></a>",
    b"<a><?xml x?></a>",
    b"<a><?XmL?></a>",
    b"<a><?p:q?></a>",
    b"<a><![CDATA[x]]</a>",
    b"<a><![cdata[x]]></a>",
    b"<p:a/>",
    b"<a p:x='1'/>",
    b"<:a/>",
    b"<a:/>",
    b"<a:b:c xmlns:a='u'/>",
    b"<a:1 xmlns:a='u'/>",
    b"<a xmlns:p='u' xmlns:q='u' p:x='1' q:x='2'/>",
    b"<a xmlns:p=''/>",
    b"<a xmlns='u' xmlns='v'/>",
    b"<a xmlns:xml='u'/>",
    b"<a xmlns:xmlns='u'/>",
    b"<a xmlns:p='http://www.w3.org/XML/1998/namespace'/>",
    b"<a><b xmlns='u'/></a>",
    b" <?xml version='1.0'?><a/>",
    b"<?xml version='1.1'?><a/>",
    b"<?xml version='1.0' encoding=\"utf-8'?><a/>",
    b"<?xml version='1.0' encoding='latin-1'?><a>\xe9</a>",
    b"<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>",
    b"<!DOCTYPE a SYSTEM 'a.dtd'><a>&e;</a>",
    b"<a/><!DOCTYPE a>",
    b"<a>" * 100_000,
    b"<a>" + b"&#65;" * 5_000 + b"</a>",
    b"<a>" + b"&lt;" * 5_000 + b"&lol;</a>",
    "<é/>".encode(),
    "<a>ÿ</a>".encode("utf-16"),
]


def contents(document: Document) -> list[object]:
    return [list(getattr(document, field.name)) for field in fields(Document)]


def outcome(data: bytes, scanner: DocumentScanner | None, limits: DocumentLimits) -> object:
    """What is read, or the error."""
    try:
        return contents(parse_document(data, limits, scanner))
    except DocumentError as error:
        return str(error)


def agree(data: bytes, scanner: DocumentScanner = INTERPRETED, limits: DocumentLimits | None = None) -> None:
    limits = limits or DocumentLimits()
    assert outcome(data, scanner, limits) == outcome(data, None, limits), data


@pytest.mark.parametrize("data", USUAL)
def test_usual_documents_are_read_as_expat_reads_them(data: bytes) -> None:
    scanned = INTERPRETED.scan(data, None, DocumentLimits())
    assert scanned is not None
    assert contents(scanned) == contents(parse_document(data))


@pytest.mark.parametrize("data", LEFT_TO_EXPAT, ids=lambda data: repr(data[:20]))
def test_what_is_unusual_or_wrong_is_left_to_expat(data: bytes) -> None:
    assert INTERPRETED.scan(data, None, DocumentLimits()) is None


def test_text_is_unicode_whatever_it_declares() -> None:
    text = "\ufeff<?xml version='1.0' encoding='latin-1'?><a b='é'>€😀</a>"
    document = parse_document(text, scanner=INTERPRETED)
    assert contents(document) == contents(parse_document(text))
    assert list(document.texts) == ["€😀"]
    assert contents(parse_document(text.encode("utf-16"), scanner=INTERPRETED)) == contents(document)


def test_limits_are_those_of_the_parser() -> None:
    for limits in (
        DocumentLimits(depth=2), DocumentLimits(depth=3), DocumentLimits(elements=3), DocumentLimits(elements=4),
        DocumentLimits(attributes=1), DocumentLimits(attributes=2), DocumentLimits(namespaces=1),
        DocumentLimits(namespaces=2), DocumentLimits(bytes=10),
    ):  # fmt: skip
        agree(b"<a xmlns='u' xmlns:p='v' x='1' y='2'><b><c/></b><d/></a>", limits=limits)
    many = "".join(f"<e{number}/>" for number in range(3_000))  # more names than the scanner has room for
    agree(f"<a>{many}</a>".encode(), COMPILED)


MARKUP = b"< > / </ <a <a> </a> <b ' \" = <![CDATA[ ]]> ] <!-- --> -- <? ?> xml a:b : x".split(b" ")
REFERENCES = b"&lt; &#9; &#x & ; xmlns xmlns:a='u' xml: \xc3\xa9 \xef\xbf\xbf \xff \x01 \0".split(b" ")
SPACES = [b" ", b"\n", b"\r\n", b"\t", b" xmlns='v'", b"<b x='", b"<?p "]
PIECES = [*MARKUP, *REFERENCES, *SPACES]
pieces = st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)


@example(b"<a x='1' x='&#x'/>")
@given(pieces | pieces.map(lambda inner: b"<a>" + inner + b"</a>") | pieces.map(lambda inner: b"<a " + inner + b"/>"))
def test_random_bytes_are_read_as_expat_reads_them_or_refused_alike(data: bytes) -> None:
    agree(data)


@given(
    documents(),
    st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from([*PIECES, b""])), max_size=3),
)
def test_documents_with_faults_are_read_as_expat_reads_them_or_refused_alike(
    document: str, faults: list[tuple[int, bytes]]
) -> None:
    data = document.encode()
    agree(data)
    for place, piece in faults:
        place %= len(data) + 1
        data = data[:place] + piece + data[place + (1 if not piece else 0) :]
    agree(data)


def real_documents() -> Iterator[bytes]:
    for name in ("news_nitf36xsd_newsmlg2_examples", "elife_jats_600"):
        with tarfile.open(DATA / f"{name}.tar.xz") as archive:
            files = (archive.extractfile(member) for member in archive if member.name.endswith(".xml"))
            yield from (file.read() for file in islice(files, 60) if file is not None)


def test_feeds_and_articles_are_read_as_expat_reads_them() -> None:
    if not DATA.exists():
        pytest.skip("PALIO_DATA names no folder with documents")
    random = Random(19)
    with readiness[XML].compiling_here():
        scanned = 0
        for data in real_documents():
            agree(data, COMPILED)
            scanned += COMPILED.scan(data, None, DocumentLimits()) is not None
            place = random.randrange(len(data))
            agree(data[:place] + random.choice(PIECES) + data[place + random.randrange(3) :], COMPILED)
        assert scanned > 60

"""Real articles and XPaths: the index finds what lxml finds."""

from __future__ import annotations

import tarfile
from itertools import islice
from pathlib import Path

import pytest

from palio.errors import ParseError
from palio.xml.document_parser import parse_document
from palio.xml.pattern import Pattern
from palio.xml.pattern_index import PatternIndex
from palio.xml.xpath_parser import parse_xpath
from palio.xml.xtrie import XTrie

NAMESPACES = {
    "ali": "http://www.niso.org/schemas/ali/1.0/",
    "mml": "http://www.w3.org/1998/Math/MathML",
    "xlink": "http://www.w3.org/1999/xlink",
}
FEWEST_XPATHS = 300
MOST_BYTES = 100_000


def articles(folder: Path, count: int) -> list[bytes]:
    """The first articles that are not long."""
    with tarfile.open(folder / "xml" / "elife_jats_600.tar.xz") as archive:
        files = (archive.extractfile(member) for member in archive if member.isfile() and member.size < MOST_BYTES)
        return [file.read() for file in islice(files, count) if file is not None]


def patterns(folder: Path) -> dict[str, Pattern]:
    """The XPaths that are subscriptions, anywhere in a document."""
    found = {}
    for line in (folder / "xml" / "xpath_elife_632.txt").read_text().splitlines():
        text = line if line.startswith("/") else f"//{line}"
        if "|" not in text:
            try:
                found[text] = parse_xpath(text, NAMESPACES)
            except ParseError:
                continue  # functions of XPath 2
    assert len(found) > FEWEST_XPATHS
    return found


def compare(folder: Path, count: int) -> None:
    etree = pytest.importorskip("lxml.etree")
    wanted = patterns(folder)
    index, trie = PatternIndex(), XTrie()
    texts = list(wanted)
    index.add_many(wanted.values())
    for pattern in wanted.values():
        trie.add(pattern)
    asked = [etree.XPath(f"boolean({text})", namespaces=NAMESPACES) for text in texts]
    for data in articles(folder, count):
        document, tree = parse_document(data), etree.ElementTree(etree.fromstring(data))
        expected = [text for text, ask in zip(texts, asked, strict=True) if ask(tree)]
        assert [texts[number] for number in index.match(document)] == expected
        assert [texts[number] for number in trie.match(document)] == expected


def test_articles_match_the_xpaths_that_lxml_finds(data_folder: Path) -> None:
    compare(data_folder, 1)


@pytest.mark.deep
def test_many_articles_match_the_xpaths_that_lxml_finds(data_folder: Path) -> None:
    compare(data_folder, 200)

"""Compiled kernels of XML pattern matching, compared with the interpreted ones."""

from __future__ import annotations

from random import Random

from palio.matching.columnar.kernel_readiness import XML, readiness
from palio.matching.xml_kernels import COMPILED_KERNELS, PATTERN_KERNELS
from palio.xml.document_parser import parse_document
from palio.xml.pattern_index import INTERPRETED_KERNELS, PatternIndex
from palio.xml.xpath_parser import parse_xpath


def random_path(random: Random, depth: int = 2) -> str:
    text = random.choice("abc*")
    while depth and random.random() < 0.35:
        prefix = random.choice(("", "", ".//"))
        text += f"[{prefix}{random_path(random, depth - 1)}]" if random.random() < 0.7 else "[@x='1']"
    return text + (random.choice(("/", "/", "//")) + random_path(random, depth) if random.random() < 0.5 else "")


def random_document(random: Random, depth: int = 0) -> str:
    tag, attribute = random.choice("abc"), random.choice(("", "", " x='1'"))
    inner = "".join(random_document(random, depth + 1) for _ in range(random.choice((0, 1, 2, 3)) if depth < 6 else 0))
    return f"<{tag}{attribute}>{inner}</{tag}>"


def test_compiled_and_interpreted_kernels_find_the_same() -> None:
    random = Random(7)
    patterns = [parse_xpath(random.choice(("/", "//")) + random_path(random)) for _ in range(300)]
    with readiness[XML].compiling_here():
        indexes = [PatternIndex(kernels) for kernels in (INTERPRETED_KERNELS, COMPILED_KERNELS, PATTERN_KERNELS)]
        for index in indexes:
            index.add_many(patterns)
        for _ in range(20):
            document = parse_document(random_document(random))
            one, two, three = (index.match(document) for index in indexes)
            assert one == two == three

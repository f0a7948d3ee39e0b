"""Explanations of mismatches name the step and the place."""

from __future__ import annotations

import pytest
from hypothesis import given

from palio.xml.document_parser import parse_document
from palio.xml.failed_step import failed_step
from palio.xml.reference_matcher import ReferenceMatcher
from palio.xml.xpath_parser import parse_xpath
from tests.xml.strategies import documents, xpaths

ARTICLE = """<article><front><contrib role="author"><name><surname>Curie</surname></name></contrib>
<contrib role="editor"><year>1911</year></contrib></front></article>"""


@pytest.mark.parametrize(
    ("xpath", "reason"),
    [
        ("/article/back", "no element back in /article"),
        ("/book", "no element book in the document"),
        ("//title", "no element title below the document"),
        ("//contrib[@role='author']/year", "no element year in /article/front/contrib"),
        ("//contrib[@id]", "no attribute @id in /article/front/contrib (and 1 more)"),
        ("//contrib[@role='reader']", "/article/front/contrib/@role is 'author' (and 1 more), not =\"reader\""),
        ("//surname[.='Meitner']", "/article/front/contrib/name/surname is 'Curie', not =\"Meitner\""),
        ("//year[. > 2000]", "/article/front/contrib[2]/year is '1911', not >2000"),
        ("//surname[parent::person]", "no element person below the document"),
        ("//year[not(ancestor::front)]", "not(ancestor::front) fails at /article/front/contrib[2]/year"),
        ("//name[text()='x']", "no text in /article/front/contrib/name"),
        ("//front[contrib/name]/back", "no element back in /article/front"),
        ("/book | /paper", "/book or /paper fails"),
        ("//surname", None),
    ],
)
def test_the_reason_is_the_first_step_that_fails(xpath: str, reason: str | None) -> None:
    assert failed_step(ReferenceMatcher(parse_document(ARTICLE)), parse_xpath(xpath)) == reason


@given(documents(), xpaths())
def test_there_is_a_reason_exactly_where_nothing_matches(document: str, xpath: str) -> None:
    matcher, pattern = ReferenceMatcher(parse_document(document)), parse_xpath(xpath)
    assert (failed_step(matcher, pattern) is None) is matcher.matches(pattern)

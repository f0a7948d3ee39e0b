"""Subscription filter policies of Amazon SNS; `docs/languages/sns.md` is the specification.

A policy is an event pattern with fewer tests and tighter limits, so it is read by the same code. It looks at the
attributes of a message or at its body, as the scope says.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

from palio.errors import ParseError
from palio.filters.filter import Filter
from palio.languages.eventbridge.document import Document, Object, read_document
from palio.languages.eventbridge.lowering import lower_rule
from palio.languages.eventbridge.rules import read_rule
from palio.languages.sns.limits import SCOPES, check_policy
from palio.languages.sns.messages import event_of_attributes

__all__ = ["Scope", "event_of_attributes", "parse"]

Scope = Literal["attributes", "body"]


def parse(condition: Any, *, scope: Scope = "attributes", strict: bool = True, timezone: str = "UTC") -> Filter:
    """The filter of a filter policy, given as JSON text or as the dictionary it stands for.

    With the scope `attributes` a policy asks for a message's attributes by name; `event_of_attributes` makes an
    event of them. With the scope `body` it asks for the members of the body, which is the event. What SNS refuses
    is refused; without `strict`, its quotas are lifted, and a bare value may stand for a list of one. Policies know
    no times, so that `timezone` changes nothing.

    >>> wanted = parse({"store": ["example_corp"], "price": [{"numeric": [">=", 100]}]})
    >>> wanted.matches({"store": "example_corp", "price": 120})
    True
    """
    if scope not in SCOPES:
        known = " or ".join(map(repr, SCOPES))
        raise ParseError(str(scope), 0, f"the scope of a filter policy is {known}, not {scope!r}")
    if isinstance(condition, str):
        return _parse_text(condition, scope, strict)
    return _parse(read_document(condition), scope, strict)


@lru_cache(maxsize=4096)
def _parse_text(text: str, scope: Scope, strict: bool) -> Filter:
    return _parse(read_document(text), scope, strict)


def _parse(document: Document, scope: Scope, strict: bool) -> Filter:
    if document.root.content == Object(()):
        return Filter.everything  # to SNS, the empty policy is none
    dialect = SCOPES[scope] if strict else SCOPES[scope].unlimited()
    rule = read_rule(document, dialect)
    check_policy(rule, document, scope, strict)
    return lower_rule(rule, document, dialect)

"""What SNS takes of the language of patterns, and how much of it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Final

from palio.languages.eventbridge.dialect import EVENTBRIDGE, Dialect
from palio.languages.eventbridge.document import Document, Object
from palio.languages.eventbridge.refusal import Place
from palio.languages.eventbridge.rules import Rule, fields_of, value_combinations

_BODY: Final = replace(
    EVENTBRIDGE,
    service="SNS",
    tests=frozenset({"prefix", "suffix", "equals-ignore-case", "anything-but", "numeric", "cidr", "exists"}),
    excluded=frozenset({"prefix", "suffix"}),
    ignores_case_in_parts=False,
    excludes_lists=False,
    largest=Decimal("1e9"),
    largest_exact=Decimal("1e9"),
    digits=5,
    most_combinations=None,  # what combinations there are is counted with the values, below
)
SCOPES: Final[dict[str, Dialect]] = {
    "attributes": replace(_BODY, dots_join=False),  # a message attribute may have a dot in its name
    "body": _BODY,
}
MOST_KEYS: Final = 5
MOST_COMBINATIONS: Final = 150
MOST_BYTES: Final = 256 * 1024
_LIFTED: Final = "strict=False lifts the limits of the service"


def check_policy(rule: Rule, document: Document, scope: str, strict: bool) -> None:
    """Refuse a policy that is nested where it cannot be, or larger than SNS takes."""
    place = Place(document.text)
    if scope == "attributes" and any(len(field.path) > 1 for field in fields_of(rule)):
        raise place.refuse(
            document.root, "a policy on message attributes cannot be nested", 'scope="body" asks for the message body'
        )
    if not strict:
        return
    assert isinstance(document.root.content, Object)  # or it would be no rule
    if len(document.root.content.members) > MOST_KEYS:
        raise place.refuse(document.root, f"SNS takes policies of at most {MOST_KEYS} keys", _LIFTED)
    combinations = value_combinations(rule)
    if combinations > MOST_COMBINATIONS:
        raise place.refuse(
            document.root,
            f"SNS takes at most {MOST_COMBINATIONS} combinations of a policy's values, and here are {combinations:,}",
            _LIFTED,
        )
    if len(document.text.encode()) > MOST_BYTES:
        raise place.refuse(document.root, f"SNS takes policies of at most {MOST_BYTES // 1024} KB", _LIFTED)

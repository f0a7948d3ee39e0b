"""What patterns of EventBridge and policies of SNS differ in: which tests they know, and their limits.

The limits are those the services document. They are quotas of the services, not of Palio; `strict=False` lifts
them, and takes a bare value for a list of one, which is how people often write patterns in YAML.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

TEXT_TESTS: Final = ("prefix", "suffix", "equals-ignore-case", "wildcard")


@dataclass(frozen=True, slots=True)
class Dialect:
    """One of the languages."""

    service: str
    """Whose language it is, as messages name it."""
    tests: frozenset[str]
    """The names that a test of a value may have."""
    excluded: frozenset[str]
    """The names of the tests that `anything-but` may exclude."""
    ignores_case_in_parts: bool
    """Whether `prefix` and `suffix` may hold an `equals-ignore-case`."""
    excludes_lists: bool
    """Whether a test inside `anything-but` may have a list of texts."""
    dots_join: bool
    """Whether a dot in a name also stands for a step into an object."""
    largest: Decimal | None
    """The largest number, either side of zero, that `numeric` and `anything-but` take; None for no limit."""
    largest_exact: Decimal | None
    """The largest number that may stand for itself; None for no limit."""
    digits: int | None
    """How many digits behind the point count; None for all."""
    most_combinations: int | None
    """How many combinations the arrays of `$or` may have; None for no limit."""
    busiest_wildcards: int | None
    """In how many places the wildcards of a field may be at once (see `complexity`); None for no limit."""
    bare_values: bool
    """Whether a value may stand where a list of it belongs."""

    def unlimited(self) -> Dialect:
        """The same without the service's quotas, and with bare values."""
        return replace(
            self,
            largest=None,
            largest_exact=None,
            most_combinations=None,
            busiest_wildcards=None,
            bare_values=True,
        )


EVENTBRIDGE: Final = Dialect(
    service="EventBridge",
    tests=frozenset({"exactly", "anything-but", "numeric", "cidr", "exists", *TEXT_TESTS}),
    excluded=frozenset(TEXT_TESTS),
    ignores_case_in_parts=True,
    excludes_lists=True,
    dots_join=True,
    largest=Decimal("5e9"),
    largest_exact=None,
    digits=None,
    most_combinations=1_000,
    busiest_wildcards=10,
    bare_values=False,
)

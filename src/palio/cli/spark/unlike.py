"""Whose conditions compare a column of texts with what is no text? They never match, and that should not go unsaid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from palio.errors import InvalidSubscription
from palio.filters.tree import Leaf, leaves
from palio.filters.unlike_kinds import never_a_text
from palio.spark.attributes import is_case_sensitive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from palio.matching.subscription import Subscription

_LOOKED_AT: Final = 5_000  # subscriptions: to look at a million would take longer than to match them
_MOST_NAMED: Final = 3


class Unlike(NamedTuple):
    """A column of texts, what it is compared with, and by whom."""

    column: str
    type: str
    compared_with: str
    subscriptions: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return self._asdict()


def find_unlike(events: DataFrame, subscriptions: Iterable[Subscription]) -> tuple[Unlike, ...]:
    """The columns of texts that some of the first subscriptions compare with numbers, dates and the like."""
    exact = is_case_sensitive(events.sparkSession)
    texts = {
        field.name if exact else field.name.lower(): field
        for field in events.schema.fields
        if field.dataType.typeName() in ("string", "char", "varchar")
    }
    found: dict[tuple[str, str], dict[str, None]] = {}
    for each in islice(subscriptions, _LOOKED_AT):
        try:
            conditions = list(leaves(each.filter.tree))
        except InvalidSubscription:  # it is left out, and that is said elsewhere
            continue
        for leaf in conditions:
            name = leaf.attribute if isinstance(leaf, Leaf) else ""
            field = texts.get(name if exact else name.lower())
            if field is not None and isinstance(leaf, Leaf) and (kinds := never_a_text(leaf.values)):
                found.setdefault((field.name, kinds), {})[each.id] = None
    types = {field.name: field.dataType.simpleString() for field in texts.values()}
    return tuple(Unlike(name, types[name], kinds, tuple(ids)) for (name, kinds), ids in sorted(found.items()))


def unlike_facts(unlike: Sequence[Unlike]) -> Iterator[tuple[str, str]]:
    """The same for the summary."""
    for each in unlike:
        more = len(each.subscriptions) - _MOST_NAMED
        named = ", ".join(each.subscriptions[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
        said = f"{each.column} is {each.type}, and compared with {each.compared_with} by {named}"
        yield "never equal", f"{said}; write CAST({each.column} AS …), or say what it is: --schema"

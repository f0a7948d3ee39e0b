"""How are a million conditions written down quickly?

By column, not by row: Arrow joins the pieces of all first conditions, then of all second ones, and a last
join makes the lines. It knows nothing of the language: a notation is a handful of templates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from palio.workloads.conditions import AT_LEAST, AT_MOST, BETWEEN, EQUALS

if TYPE_CHECKING:
    from palio.workloads.conditions import Conditions


@dataclass(frozen=True)
class Notation:
    """Templates with `{name}`, `{low}`, `{high}`, one per kind of condition, and what stands between two."""

    equals: str
    between: str
    at_least: str
    at_most: str
    conjunction: str

    def render(self, conditions: Conditions, names: Sequence[str]) -> pa.StringArray:
        """One text per subscription."""
        sides = {AT_LEAST: self.at_least, AT_MOST: self.at_most}
        templates = {EQUALS: self.equals, BETWEEN: self.between, **sides}
        attributes = pa.array(names, pa.string())
        texts = []
        for position in range(conditions.kind.shape[1]):
            kind = conditions.kind[:, position]
            name = attributes.take(pa.array(conditions.attribute[:, position]))
            low = pa.array(conditions.low[:, position]).cast(pa.string())
            high = pa.array(conditions.high[:, position]).cast(pa.string())
            text = pa.nulls(len(kind), pa.string())
            for wanted, template in templates.items():
                chosen = pa.array(kind == wanted)
                parts = {"name": name.filter(chosen), "low": low.filter(chosen), "high": high.filter(chosen)}
                if len(parts["name"]):
                    text = pc.replace_with_mask(text, chosen, _fill(template, parts))
            texts.append(text)
        return pc.binary_join_element_wise(*texts, self.conjunction, null_handling="skip")


def _fill(template: str, parts: dict[str, Any]) -> pa.StringArray:
    """The template with every placeholder replaced by its column; other braces stand for themselves."""
    pieces = re.split(r"\{(name|low|high)\}", template)
    return pc.binary_join_element_wise(*(parts[p] if i % 2 else p for i, p in enumerate(pieces)), "")


SQL = Notation(
    equals="{name} = 'v{low}'",
    between="{name} BETWEEN {low} AND {high}",
    at_least="{name} >= {low}",
    at_most="{name} <= {high}",
    conjunction=" AND ",
)

"""Why an event matched, or did not: the conditions that were written, with the verdict and the value beside each.

The tree that is judged is the one from before it was made canonical, so that every condition is there once and in its
place. Only what nobody wrote is taken out of it: that the attributes of a computed condition must be present.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from palio.events.json import write_json
from palio.filters.kinds import MISSING
from palio.filters.normal_form import conjoin, disjoin, simplify
from palio.filters.printing import to_sql
from palio.filters.tree import And, Attributes, Leaf, Node, Or, Residual, holds, names_of, value_of
from palio.filters.unlike_kinds import advice
from palio.filters.values import PRESENT


@dataclass(frozen=True)
class Explanation:
    """One node of the answer: its condition, whether it held, the values it saw, and its parts.

    A condition under OR may fail though the whole matched. Where attributes have several values, each condition
    is judged for itself, and the whole asks one choice of values to satisfy all. `hint` says what to write where a
    condition fails because a value is of another kind than it asks about.
    """

    condition: str
    matched: bool
    values: dict[str, Any]
    operator: str | None = None
    parts: tuple[Explanation, ...] = ()
    hint: str | None = None

    def failed(self) -> list[Explanation]:
        """The conditions to blame: those that failed and whose failure made the whole fail."""
        if self.matched:
            return []
        if not self.parts:
            return [self]
        return [leaf for part in self.parts if not part.matched for leaf in part.failed()]

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON has it, for programs; attributes that the event lacks are listed as missing."""
        answer: dict[str, Any] = {"condition": self.condition, "matched": self.matched}
        if self.operator:
            answer["operator"] = self.operator
            answer["parts"] = [part.as_dict() for part in self.parts]
            return answer
        present = {name: value for name, value in self.values.items() if value is not MISSING}
        answer["values"] = json.loads(write_json(_as_lists(present)))
        answer["missing"] = [name for name in self.values if name not in present]
        if self.hint:
            answer["hint"] = self.hint
        return answer

    def seen(self) -> dict[str, str]:
        """The values as a person reads them."""
        return {name: _shown(value) for name, value in self.values.items()}

    def __bool__(self) -> bool:
        return self.matched

    def __str__(self) -> str:
        return "\n".join(self._lines(0))

    def _lines(self, depth: int) -> list[str]:
        mark = "✓" if self.matched else "✗"
        indent = "  " * depth
        if self.operator is None:
            seen = ", ".join(f"{name} is {value}" for name, value in self.seen().items())
            seen = f"{seen}; {self.hint}" if self.hint else seen
            return [f"{indent}{mark} {self.condition}{f'   ({seen})' if seen else ''}"]
        word = "all of" if self.operator == "AND" else "some of"
        return [f"{indent}{mark} {word}", *(line for part in self.parts for line in part._lines(depth + 1))]


def explain(node: Node, event: Attributes, timezone: str = "UTC") -> Explanation:
    """Judge every condition of a tree, as it was written, against an event."""
    return _judge(as_written(node), event, timezone)


def _judge(node: Node, event: Attributes, timezone: str) -> Explanation:
    matched = holds(node, event)
    if isinstance(node, And | Or) and node.children:
        parts = tuple(_judge(child, event, timezone) for child in node.children)
        operator = "AND" if isinstance(node, And) else "OR"
        return Explanation(to_sql(node, timezone), matched, {}, operator, parts)
    if isinstance(node, And | Or):
        return Explanation(to_sql(node, timezone), matched, {})
    values = {name: value_of(event, name) for name in sorted(names_of(node))}
    hint = None if matched else advice(node, values, timezone)
    return Explanation(to_sql(node, timezone), matched, values, hint=hint)


def as_written(node: Node) -> Node:
    """A tree in which each condition that was written is one node."""
    if not isinstance(node, And | Or):
        return node
    kind = type(node)
    children = list(_without_presence(node))
    if len(children) == 1:
        return as_written(children[0])
    whole = _on_one_attribute(kind, children)
    if whole is not None:
        return whole
    flat: list[Node] = []
    for child in map(as_written, children):
        flat += child.children if isinstance(child, kind) and child.children else (child,)
    return kind(tuple(dict.fromkeys(flat)))


def _without_presence(node: And | Or) -> Iterator[Node]:
    """The children of a node but for the presence of attributes that a computed condition beside it needs anyway."""
    residuals = [child for child in node.children if isinstance(child, Residual)]
    needed = residuals[0].attributes if isinstance(node, And) and len(residuals) == 1 else frozenset()
    is_made = all(
        isinstance(child, Residual) or (isinstance(child, Leaf) and child.values == PRESENT) for child in node.children
    )
    for child in node.children:
        if not (is_made and isinstance(child, Leaf) and child.attribute in needed):
            yield child


def _on_one_attribute(kind: type[And | Or], children: list[Node]) -> Node | None:
    """Conditions that are one: BETWEEN, which is two comparisons, and alternatives of one attribute."""
    leaves = [child for child in children if isinstance(child, Leaf)]
    if len(leaves) != len(children) or len({leaf.attribute for leaf in leaves}) != 1:
        return None
    if kind is Or:
        return disjoin(simplify(leaf) for leaf in leaves)
    whole = conjoin(leaves)
    return whole if len(leaves) == 2 and " BETWEEN " in to_sql(whole) else None


def _as_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_lists(inner) for name, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, tuple):
        return f"[{', '.join(_shown(each) for each in value)}]"
    if isinstance(value, str):
        return repr(value)
    return "missing" if value is MISSING else str(value).lower() if isinstance(value, bool) else str(value)

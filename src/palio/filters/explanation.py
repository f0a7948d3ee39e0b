"""Why an event matched, or did not: the filter's tree with the verdict and the value beside every condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from palio.filters.printing import to_sql
from palio.filters.tree import And, Attributes, Node, Or, holds, names_of, value_of


@dataclass(frozen=True)
class Explanation:
    """One node of the answer: its condition, whether it held, the values it saw, and its parts.

    A condition under OR may fail though the whole matched. Where attributes have several values, each condition
    is judged for itself, and the whole asks one choice of values to satisfy all.
    """

    condition: str
    matched: bool
    values: dict[str, Any]
    operator: str | None = None
    parts: tuple[Explanation, ...] = ()

    def failed(self) -> list[Explanation]:
        """The conditions to blame: those that failed and whose failure made the whole fail."""
        if self.matched:
            return []
        if not self.parts:
            return [self]
        return [leaf for part in self.parts if not part.matched for leaf in part.failed()]

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, for programs."""
        answer: dict[str, Any] = {"condition": self.condition, "matched": self.matched}
        if self.operator:
            answer["operator"] = self.operator
            answer["parts"] = [part.as_dict() for part in self.parts]
        else:
            answer["values"] = {name: _shown(value) for name, value in self.values.items()}
        return answer

    def __bool__(self) -> bool:
        return self.matched

    def __str__(self) -> str:
        return "\n".join(self._lines(0))

    def _lines(self, depth: int) -> list[str]:
        mark = "✓" if self.matched else "✗"
        indent = "  " * depth
        if self.operator is None:
            seen = ", ".join(f"{name} is {_shown(value)}" for name, value in self.values.items())
            return [f"{indent}{mark} {self.condition}{f'   ({seen})' if seen else ''}"]
        word = "all of" if self.operator == "AND" else "some of"
        return [f"{indent}{mark} {word}", *(line for part in self.parts for line in part._lines(depth + 1))]


def explain(node: Node, event: Attributes) -> Explanation:
    """Judge every condition of a tree against an event."""
    if isinstance(node, And | Or) and node.children:
        parts = tuple(explain(child, event) for child in node.children)
        operator = "AND" if isinstance(node, And) else "OR"
        return Explanation(to_sql(node), holds(node, event), {}, operator, parts)
    names = [] if isinstance(node, And | Or) else sorted(names_of(node))
    return Explanation(to_sql(node), holds(node, event), {name: value_of(event, name) for name in names})


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, tuple):
        return f"[{', '.join(_shown(each) for each in value)}]"
    if isinstance(value, str):
        return repr(value)
    return "missing" if repr(value) == "MISSING" else str(value).lower() if isinstance(value, bool) else str(value)

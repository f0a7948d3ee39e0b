"""Explanations: why an event matched or did not, with the outcome and the values of each condition.

The explained tree is the one before normalisation, so that every condition appears once and in its place. Only the
presence tests that were added to a computed condition, and are not in its text, are left out.

**Type mismatch hints.** Values of different kinds do not compare, where Spark would cast one of them: events have no
schema from which the intended type could be known. A condition that fails for this reason (`x > 5` where x is '10')
gets a hint with the CAST that would help.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from palio.errors import ParseError
from palio.events.json import write_json
from palio.filters.expressions import text_cast
from palio.filters.kinds import KIND_OF_TYPE, MISSING, NUMBERS, Kind, kind_of
from palio.filters.normal_form import conjoin, disjoin, simplify
from palio.filters.registry import parser_for
from palio.filters.sql_writer import join_sql, name_to_sql, node_to_sql, to_sql, values_to_sql
from palio.filters.tree import And, Attributes, Leaf, Node, Or, Residual, holds, names_of
from palio.filters.value_predicates import Computed, XPath
from palio.filters.value_sets import PRESENT, ValueSet
from palio.filters.xml_text import why_not


@dataclass(frozen=True, slots=True)
class AccessPath:
    """By which part of an index a condition is decided."""

    kind: Literal[
        "attribute",
        "computed attribute",
        "pattern",
        "document pattern",
        "array elements",
        "event search",
        "residual",
        "every event",
    ]
    key: str
    """The attribute, or the expression, whose values are looked up; empty where there is none."""
    text: str = ""
    """Of a pattern, the text that a value needs and that it is looked for by; empty where it has none."""
    times_equality: int = 0
    """How many times the cost of an equality the condition costs an event; 0 where it is ten at most, and not slow."""

    def __str__(self) -> str:
        slow = f" (slow: about {self.times_equality:,} × an equality)" if self.times_equality else ""
        return self._meaning() + slow

    def _meaning(self) -> str:
        match self.kind:
            case "attribute":
                return f"looked up by {self.key}"
            case "computed attribute":
                return f"looked up by the computed value {self.key}"
            case "pattern" if self.text:
                return f"pattern on {self.key}, found by the text {self.text!r}"
            case "pattern":
                return f"pattern on {self.key} without a fixed text: tried on each value"
            case "document pattern":
                return f"XPath on {self.key}: asked with all others about each document"
            case "array elements":
                return f"looked up by the elements of {self.key}"
            case "event search":
                return "searched for in all values of the event"
            case "residual":
                return "residual: evaluated where the other conditions hold"
            case "every event":
                return "no index: evaluated on every event"

    def as_dict(self) -> dict[str, str | int]:
        """The path as JSON content."""
        named: dict[str, str | int] = {
            "kind": self.kind,
            "key": self.key,
            "text": self.text,
            "times_equality": self.times_equality,
        }
        return {name: value for name, value in named.items() if value}


@dataclass(frozen=True)
class Explanation:
    """One node of an explanation: its condition, its outcome, the values it read, and its parts.

    A condition under OR may fail though the whole matched. Where attributes have several values, each condition
    is evaluated by itself, while the whole requires one choice of values to satisfy all. `hint` suggests a rewrite
    where a condition fails because a value is of another kind.
    """

    condition: str
    matched: bool
    values: dict[str, Any]
    operator: str | None = None
    parts: tuple[Explanation, ...] = ()
    hint: str | None = None
    access_path: AccessPath | None = None
    """By which part of an index the condition is decided, where an index was asked."""

    def failed(self) -> list[Explanation]:
        """The conditions that caused the failure of the whole."""
        if self.matched:
            return []
        if not self.parts:
            return [self]
        return [leaf for part in self.parts if not part.matched for leaf in part.failed()]

    def as_dict(self) -> dict[str, Any]:
        """The explanation as JSON content; attributes that the event lacks are listed as missing."""
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
        if self.access_path:
            answer["index"] = {**self.access_path.as_dict(), "meaning": str(self.access_path)}
        return answer

    def seen(self) -> dict[str, str]:
        """The values as text for people."""
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
            seen = "; ".join(filter(None, (seen, self.hint, str(self.access_path or ""))))
            return [f"{indent}{mark} {self.condition}{f'   ({seen})' if seen else ''}"]
        word = "all of" if self.operator == "AND" else "some of"
        return [f"{indent}{mark} {word}", *(line for part in self.parts for line in part._lines(depth + 1))]


PathFinder: TypeAlias = Callable[[Leaf | Residual], AccessPath]


def explain(node: Node, event: Attributes, timezone: str = "UTC", paths: PathFinder | None = None) -> Explanation:
    """Evaluate every condition of a tree, as it was written, on an event; `paths` says how an index decides each."""
    return _explain(as_written(node), event, timezone, paths)[0]


def _explain(
    node: Node, event: Attributes, timezone: str, paths: PathFinder | None
) -> tuple[Explanation, tuple[str, int]]:
    """The explanation of a node, and its text with its binding, of which the text around it is made."""
    matched = holds(node, event)
    if isinstance(node, And | Or) and node.children:
        explained = [_explain(child, event, timezone, paths) for child in node.children]
        written = join_sql(node, [text for _, text in explained])
        operator = "AND" if isinstance(node, And) else "OR"
        return Explanation(written[0], matched, {}, operator, tuple(part for part, _ in explained)), written
    written = node_to_sql(node, timezone)
    if isinstance(node, And | Or):
        return Explanation(written[0], matched, {}), written
    values = {name: event.get(name, MISSING) for name in sorted(names_of(node))}
    hint = None if matched else mismatch_hint(node, values, timezone)
    path = None if paths is None else paths(node)
    return Explanation(written[0], matched, values, hint=hint, access_path=path), written


def as_written(node: Node) -> Node:
    """A tree with one node for each condition that was written."""
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
    """The children of a node without the presence tests that a computed condition implies."""
    residuals = [child for child in node.children if isinstance(child, Residual)]
    needed = residuals[0].attributes if isinstance(node, And) and len(residuals) == 1 else frozenset()
    # `computed_condition` makes an AND of one residual and presence tests, and nothing else. In any other AND a
    # presence test was written by the user.
    is_generated = all(
        isinstance(child, Residual) or (isinstance(child, Leaf) and child.values == PRESENT) for child in node.children
    )
    for child in node.children:
        if not (is_generated and isinstance(child, Leaf) and child.attribute in needed):
            yield child


def _on_one_attribute(kind: type[And | Or], children: list[Node]) -> Node | None:
    """The one condition that several leaves express: BETWEEN, or alternatives on one attribute."""
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


_KIND_NAMES: Final = {
    Kind.BOOLEAN: "a boolean",
    Kind.INTEGER: "an integer",
    Kind.DECIMAL: "a decimal",
    Kind.FLOAT: "a float",
    Kind.STRING: "a string",
    Kind.DATE: "a date",
    Kind.TIMESTAMP: "a timestamp",
    Kind.BYTES: "binary",
}
_CASTS: Final = {Kind.STRING: "STRING", Kind.DATE: "DATE", Kind.TIMESTAMP: "TIMESTAMP", Kind.BOOLEAN: "BOOLEAN"}
_MAX_HINT_LENGTH: Final = 80


def mismatch_hint(condition: Leaf | Residual, values: Mapping[str, Any], timezone: str) -> str | None:
    """Why values of these kinds cannot satisfy a condition, and a rewrite; None if the kind is not the reason."""
    if isinstance(condition, Residual):
        return _pair_hint(condition, values)
    value = _single(values[condition.attribute])
    if isinstance(value, str) and any(isinstance(test.pattern, XPath) for test in condition.values.tests):
        return _document_hint(condition, value)
    if value is None or any(isinstance(test.pattern, Computed) for test in condition.values.tests):
        return None
    kind, wanted = kind_of(value), _kinds_in(condition.values)
    if kind in wanted or not wanted:
        return None
    reason = f"{condition.attribute} is {_KIND_NAMES[kind]}, and the condition asks about {_listed(wanted)}"
    target = _cast(value, wanted)
    if target is None:
        return reason
    written = values_to_sql(f"CAST({name_to_sql(condition.attribute)} AS {target})", condition.values, timezone)[0]
    # A rewrite with typeof() would test the kind of the cast, not that of the value.
    if "typeof(" in written or len(written) > _MAX_HINT_LENGTH or not _is_valid_sql(written, timezone):
        return reason
    return f"{reason}; write {written}"


def _document_hint(condition: Leaf, text: str) -> str | None:
    """The step of the first XPath that fails, and where in the document; or why the text is none."""
    reasons = (
        why_not(text, test.pattern.pattern)
        for test in sorted(condition.values.tests, key=lambda test: test.key)
        if isinstance(test.pattern, XPath) and test.wanted
    )
    return next(filter(None, reasons), None)


def excludes_text(values: ValueSet) -> str | None:
    """The kinds that a set names, such as `numbers`, where no string is in it; None where a string may be."""
    wanted = [] if values.tests else _kinds_in(values)
    return None if not wanted or Kind.STRING in wanted else _listed(wanted)


def _is_valid_sql(condition: str, timezone: str) -> bool:
    """Whether a rewrite parses: it does not where it compares one cast value with literals of several kinds."""
    try:
        parser_for("sql")(condition, timezone=timezone)
    except ParseError:
        return False
    return True


def _pair_hint(condition: Residual, values: Mapping[str, Any]) -> str | None:
    """The hint for a comparison of two attributes."""
    if condition.compared is None:
        return None
    _, left, right = condition.compared
    first, second = _single(values[left]), _single(values[right])
    if first is None or second is None:
        return None
    kinds = {kind_of(first), kind_of(second)}
    if len(kinds) == 1 or kinds <= set(NUMBERS) or kinds == {Kind.DATE, Kind.TIMESTAMP}:
        return None
    left_kind, right_kind = _KIND_NAMES[kind_of(first)], _KIND_NAMES[kind_of(second)]
    return f"{left} is {left_kind} and {right} is {right_kind}; CAST brings one to the other"


def _single(value: Any) -> Any:
    """The value, or one of several values of one kind; None otherwise."""
    several = value if isinstance(value, tuple) else (value,)
    kinds = {type(each) for each in several}
    if len(kinds) != 1 or several[0] is MISSING or type(several[0]) not in KIND_OF_TYPE:
        return None
    return several[0]


def _kinds_in(values: ValueSet) -> list[Kind]:
    """The kinds of a set's values; none where null or missing is in it."""
    if not (values.parts[Kind.NULL].is_empty and values.parts[Kind.MISSING].is_empty):
        return []
    return [kind for kind in _KIND_NAMES if not values.parts[kind].is_empty]


def _listed(kinds: list[Kind]) -> str:
    names = ["numbers"] if set(NUMBERS) & set(kinds) else []
    names += [
        f"{_KIND_NAMES[kind].removeprefix('a ')}s" for kind in kinds if kind not in NUMBERS and kind is not Kind.BYTES
    ]
    names += ["binary values"] if Kind.BYTES in kinds else []
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _cast(value: Any, wanted: list[Kind]) -> str | None:
    """The SQL type that converts a value to one of the wanted kinds."""
    if set(NUMBERS) & set(wanted):
        if isinstance(value, bool):
            return "INT"
        if not isinstance(value, str):
            return None
        whole = text_cast.to_integer(value)
        if whole is not None and text_cast.to_double(value) == whole:
            return "INT" if -(2**31) <= whole < 2**31 else "BIGINT"
        return "DOUBLE" if text_cast.to_double(value) is not None else None
    if isinstance(value, str):
        readings = {
            Kind.DATE: text_cast.to_date(value),
            Kind.TIMESTAMP: text_cast.to_timestamp(value, "UTC"),
            Kind.BOOLEAN: text_cast.to_boolean(value),
        }
        return next((_CASTS[kind] for kind in wanted if readings.get(kind) is not None), None)
    return "STRING" if Kind.STRING in wanted and not isinstance(value, bytes) else None

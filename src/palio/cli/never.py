"""Why can no event satisfy a condition? In words, where it is one of the slips that people make."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from palio.cli import terminal

if TYPE_CHECKING:
    from palio.filters.expressions.tree import Call, Expression
    from palio.filters.filter import Filter
    from palio.filters.tree import Leaf, Node

_LONGEST: Final = 60
_MOST_COMPARED: Final = 100  # conditions of one AND
_COMPARISONS: Final = frozenset(["=", "<>", "<", "<=", ">", ">=", "like", "ilike", "rlike"])


def why_never(wanted: Filter, where: Any, language: str) -> str | None:
    """The reason why a filter matches nothing, and what to write instead; None where it cannot be said shortly."""
    if language == "sql":
        reason = next(_nulls(str(where)), None)
        if reason is not None:
            return reason
    from palio.filters.explanation import as_written

    return _excluded(as_written(wanted.written))


def _nulls(text: str) -> Iterator[str]:
    """Comparisons with NULL, which are NULL themselves."""
    from palio.filters.expressions.tree import Call, walk
    from palio.languages.sql.parser import parse_condition

    for node in walk(parse_condition(text)):
        match node:
            case Call("not", (Call("in", (_, *items)) as inside,)) if any(map(_is_null, items)):
                written = _piece(inside, text)
                yield f"with a NULL in its list, {written} is never TRUE; leave the NULL out"
            case Call(function, arguments) if function in _COMPARISONS and any(map(_is_null, arguments)):
                yield _advice(node, text)
            case Call("in", (value, *items)) if all(map(_is_null, items)):
                yield f"{_piece(node, text)} is never TRUE; write {_piece(value, text)} IS NULL"


def _is_null(expression: Expression) -> bool:
    from palio.filters.expressions.tree import Literal

    return isinstance(expression, Literal) and expression.value is None


def _advice(call: Call, text: str) -> str:
    """What to write for a comparison with NULL."""
    value = next((each for each in call.arguments if not _is_null(each)), None)
    if call.function in ("=", "<>") and value is not None:
        test = "IS NULL" if call.function == "=" else "IS NOT NULL"
        return f"{_piece(call, text)} is never TRUE; write {_piece(value, text)} {test}"
    return f"{_piece(call, text)} is never TRUE: nothing compares with NULL"


def _piece(expression: Expression, text: str) -> str:
    return terminal.shorten(" ".join(text[slice(*expression.span)].split()), _LONGEST)


def _excluded(node: Node) -> str | None:
    """Two conditions on one attribute that no value satisfies both."""
    from palio.filters.normal_form import normal
    from palio.filters.tree import NOTHING, And, Leaf, Or

    if isinstance(node, Or):
        return next((reason for child in node.children if (reason := _excluded(child))), None)
    if not isinstance(node, And):
        return None
    leaves = [child for child in node.children if isinstance(child, Leaf)]
    for first, second in combinations(leaves[:_MOST_COMPARED], 2):
        if first.attribute == second.attribute and first.values.intersect(second.values).is_empty:
            return f"{_written(first)} and {_written(second)} exclude each other"
    for child in node.children:
        if normal(child) == NOTHING:
            return _excluded(child)
    return None


def _written(leaf: Leaf) -> str:
    from palio.filters.printing import to_sql

    return terminal.shorten(terminal.bare(to_sql(leaf)), _LONGEST)

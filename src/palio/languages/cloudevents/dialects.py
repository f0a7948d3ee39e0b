"""From checked filter expressions to conditions: what each dialect asks of an event.

`exact`, `prefix` and `suffix` compare texts, case for case, as CESQL's `=` and LIKE do; an attribute that is missing
has none, and the expression is false. `sql` is true where CESQL is true without an error, and false everywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable

from palio.errors import ParseError
from palio.filters.like import LikePattern
from palio.filters.negation import complement
from palio.filters.tree import And, Leaf, Node, Or
from palio.languages import cesql
from palio.languages.cesql.sets import like, values_equal
from palio.languages.cloudevents.reading import Expression, Group, Sql, Texts


def lower_all(expressions: Iterable[Expression]) -> Node:
    """Where all filter expressions hold; with none, everywhere."""
    return And(tuple(_lower(each) for each in expressions))


def _lower(expression: Expression) -> Node:
    match expression:
        case Texts(dialect, texts):
            return And(tuple(_text(dialect, name, text) for name, text in texts.items()))
        case Group("all", members):
            return And(tuple(map(_lower, members)))
        case Group("any", members):
            return Or(tuple(map(_lower, members)))
        case Group("not", (member,)):
            return complement(_lower(member))
        case Sql(text, path):
            return _sql(text, path)
    raise TypeError(expression)


def _text(dialect: str, name: str, text: str) -> Node:
    if dialect == "exact":
        return Leaf(name, values_equal(text))
    return like(name, LikePattern.starting(text) if dialect == "prefix" else LikePattern.ending(text)).true


def _sql(text: str, path: str) -> Node:
    try:
        return cesql.parse(text).tree
    except ParseError as error:
        raise ParseError(error.text, error.position, f"{path}: {error.reason}", error.hint) from None

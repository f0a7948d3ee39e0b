"""Which operators does a selector have, and how tightly do they bind?

The table the specification gives, loosest first: OR, AND, NOT, the comparisons and predicates, + -, * / %, the
signs. The powers are SQL's, so that both languages share the stack on which operators wait for their operands.
`%` is not in the specification; ActiveMQ, Artemis, Qpid and RabbitMQ have it.
"""

from __future__ import annotations

from typing import Final

from palio.languages.sql.precedence import INFIX as SQL_INFIX
from palio.languages.sql.precedence import NOT, UNARY, Operator

ORDERS: Final = frozenset({"<", "<=", ">", ">="})
COMPARISONS: Final = frozenset({"=", "<>", *ORDERS})
ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%"})
SIGNS: Final = frozenset({"neg", "pos"})
VALUES: Final = ARITHMETIC | SIGNS
"""The calls that make a value; all others make a condition."""

INFIX: Final[dict[str, Operator]] = {key: SQL_INFIX[key] for key in ("or", "and", *COMPARISONS, *ARITHMETIC)}
PREFIX: Final[dict[str, Operator]] = {
    "not": Operator(NOT, "not"),
    "-": Operator(UNARY, "neg"),
    "+": Operator(UNARY, "pos"),
}
PREDICATES: Final = frozenset({"is", "in", "between", "like", "not"})
"""What begins a predicate behind a value."""

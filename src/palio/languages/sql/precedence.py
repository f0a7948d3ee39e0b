"""Which operator takes which operands?

The powers are those of Spark's grammar. Operators wait on a stack until one comes that binds less tightly, so
a condition with a hundred thousand ORs needs no deeper Python stack than one with two.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from palio.filters.expressions.tree import Call, Expression


class Operator(NamedTuple):
    """How tightly an operator binds, the function it is, and whether a chain of it is one call."""

    power: int
    function: str
    chains: bool = False


AND: Final = 2
NOT: Final = 3
PREDICATE: Final = 4
VALUE: Final = 5
"""From here on an operator makes a value; what binds less tightly makes a condition."""
UNARY: Final = 12

INFIX: Final[dict[str, Operator]] = {
    "or": Operator(1, "or", chains=True),
    "and": Operator(AND, "and", chains=True),
    "=": Operator(VALUE, "="),
    "==": Operator(VALUE, "="),
    "<=>": Operator(VALUE, "<=>"),
    "<>": Operator(VALUE, "<>"),
    "!=": Operator(VALUE, "<>"),
    "<": Operator(VALUE, "<"),
    "<=": Operator(VALUE, "<="),
    "!>": Operator(VALUE, "<="),
    ">": Operator(VALUE, ">"),
    ">=": Operator(VALUE, ">="),
    "!<": Operator(VALUE, ">="),
    "|": Operator(6, "|"),
    "^": Operator(7, "^"),
    "&": Operator(8, "&"),
    "<<": Operator(9, "shiftleft"),
    ">>": Operator(9, "shiftright"),
    "+": Operator(10, "+"),
    "-": Operator(10, "-"),
    "||": Operator(10, "concat", chains=True),
    "*": Operator(11, "*"),
    "/": Operator(11, "/"),
    "%": Operator(11, "%"),
    "div": Operator(11, "div"),
}
PREFIX: Final[dict[str, Operator]] = {
    "not": Operator(NOT, "not"),
    "!": Operator(NOT, "not"),
    "-": Operator(UNARY, "neg"),
    "+": Operator(UNARY, "positive"),
    "~": Operator(UNARY, "~"),
}


class Operands:
    """The operands and operators of one pair of brackets, as far as they have been read."""

    __slots__ = ("nodes", "pending", "prefixed", "starts")

    def __init__(self) -> None:
        self.nodes: list[Expression] = []
        self.starts: list[int] = []
        self.pending: list[Operator] = []
        self.prefixed: list[int] = []  # where the pending prefix operators stand

    def prefix(self, operator: Operator, start: int) -> None:
        self.pending.append(operator)
        self.prefixed.append(start)

    def infix(self, operator: Operator, end: int) -> None:
        pending = self.pending
        if pending and pending[-1][0] >= operator[0] and pending[-1] is not operator:
            self.settle(operator[0], end, operator)
        elif pending and pending[-1] is operator and not operator[2]:
            self.settle(operator[0], end)
        pending.append(operator)

    def settle(self, power: int, end: int, chain: Operator | None = None) -> None:
        """Make calls of all pending operators that bind at least so tightly; `end` is where they end.

        A chain that the next operator continues is left pending: it will be one call.
        """
        nodes, starts, pending = self.nodes, self.starts, self.pending
        while pending and (operator := pending[-1])[0] >= power:
            if operator is chain and operator[2]:
                return
            pending.pop()
            if operator[0] == NOT or operator[0] == UNARY:
                starts[-1] = self.prefixed.pop()
                nodes[-1] = Call(operator[1], (nodes[-1],), (starts[-1], end))
                continue
            first = len(nodes) - 2
            while operator[2] and pending and pending[-1] is operator:
                pending.pop()
                first -= 1
            arguments = tuple(nodes[first:])
            del nodes[first + 1 :], starts[first + 1 :]
            nodes[first] = Call(operator[1], arguments, (starts[first], end))

"""Cover of an expression: a tree pattern condition that holds wherever the expression is true.

An index looks for the cover, and the expression itself is evaluated only where that is found: `count(a/b) = 2` needs an
`a/b`, `//p[2]/i` a `//p/i`, `normalize-space(x) = 'y'` an `x`. Positions are left out, and a sibling is looked for
anywhere in the document. Where nothing is known, the cover is the condition that every node fulfils.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from palio.xml.canonical_form import ALWAYS, conjunction, disjunction
from palio.xml.expression import (
    Call,
    Chain,
    Expression,
    Literal,
    Location,
    LocationStep,
    asks_for_position,
    result_type,
)
from palio.xml.path_conditions import Path, Step, path_exists
from palio.xml.pattern import NEVER, Condition

_ANYWHERE: Final = Step("descendant-or-self", "node")
_SIDEWAYS: Final = frozenset(("following", "following-sibling", "preceding", "preceding-sibling"))
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
_OF_TEXT: Final = frozenset(
    ("normalize-space", "substring", "substring-before", "substring-after", "translate", "string")
)
"""Functions that make the empty text of the empty text."""


def condition_covering(expression: Expression) -> Condition:
    """A condition that every node fulfils at which an expression is true."""
    match expression:
        case Location():
            return _some_node(expression)
        case Call("boolean", (argument,)):
            return condition_covering(argument)
        case Call("contains" | "starts-with", (text, Literal(str(sought)))) if sought:
            return _some_text(text)
        case Call("count" | "sum" | "string-length", (argument,)):
            return _more_than_zero(expression)
        case Call("string" | "normalize-space", (argument,)):
            return _some_text(argument)
        case Chain(_, ((sign, _), *_)):
            return _covering_chain(sign, expression)
    return ALWAYS


def _covering_chain(sign: str, chain: Chain) -> Condition:
    match sign:
        case "or" | "|":
            return disjunction([condition_covering(each) for each in chain.operands])
        case "and":
            return conjunction([condition_covering(each) for each in chain.operands])
    if sign in _MIRRORED and len(chain.rest) == 1:
        left, right = chain.operands
        return conjunction(
            [_covering_comparison(left, sign, right), _covering_comparison(right, _MIRRORED[sign], left)]
        )
    return ALWAYS


def _covering_comparison(left: Expression, sign: str, right: Expression) -> Condition:
    """What a comparison asks of its left side."""
    if result_type(right) is bool:
        return ALWAYS  # then nodes are compared as a truth value, and no node is false
    if result_type(left) is list:
        return condition_covering(left)  # some node passes
    match right:
        case Literal(str(text)) if text and sign == "=":
            return _some_text(left)
        case Literal(float(number)) if (
            (sign in (">", "=") and number > 0)
            or (sign == ">=" and number > 0)
            or (sign == ">" and number == 0)
            or (sign == "!=" and number == 0)
        ):
            return _more_than_zero(left)
    return ALWAYS


def _more_than_zero(expression: Expression) -> Condition:
    """What makes a number other than zero."""
    match expression:
        case Call("count" | "sum", (nodes,)):
            return condition_covering(nodes)
        case Call("string-length", (text,)):
            return _some_text(text)
    return ALWAYS


def _some_text(expression: Expression) -> Condition:
    """What makes a text other than the empty one."""
    match expression:
        case Call(function, (text, *_)) if function in _OF_TEXT:
            return _some_text(text)
        case Call("local-name" | "namespace-uri", (nodes,)):
            return condition_covering(nodes)
    return condition_covering(expression) if result_type(expression) is list else ALWAYS


def _some_node(path: Location) -> Condition:
    steps = path.steps
    if path.start is not None:
        # What follows a bracket is below nodes that another path selects: that one alone is looked for.
        return condition_covering(path.start)
    try:
        return path_exists(_path(steps, path.is_absolute))
    except ValueError:
        pass
    # A path that is no pattern even without its positions: as many of its first steps as are one.
    for end in range(len(steps) - 1, 0, -1):
        try:
            return path_exists(_path(steps[:end], path.is_absolute))
        except ValueError:
            continue
    return ALWAYS


def _path(steps: Sequence[LocationStep], is_absolute: bool) -> Path:
    """The steps as those of a pattern; what stands beside a node begins anew from the document node."""
    made: list[Step] = []
    for number, step in enumerate(steps):
        if step.axis in _SIDEWAYS:
            before = conjunction([path_exists(Path(tuple(made), is_absolute))])
            beside = path_exists(_path((replace(step, axis="descendant"), *steps[number + 1 :]), True))
            if beside == NEVER:
                return Path((Step("self", "node", conditions=(NEVER,)),), False)
            return Path((Step("self", "node", conditions=(before, beside)),), False)
        made.append(_step(step))
    while made and made[-1].is_anywhere:
        made.pop()  # what is below a node, or it itself, is there where the node is
    return Path(tuple(made), is_absolute)


def _step(step: LocationStep) -> Step:
    is_below = step.axis in ("child", "descendant")
    # `node()` below may be a text or a comment, and `self::text()` is no element.
    if step.kind in ("comment", "processing-instruction") or step.kind == ("node" if is_below else "text"):
        raise ValueError("no node of tree patterns")
    conditions = [condition_covering(each) for each in step.predicates if not asks_for_position(each)]
    return Step(step.axis, step.kind, step.name, tuple(conditions))

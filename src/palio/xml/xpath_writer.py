"""Writing of tree patterns as XPath 1.0.

The text is canonical: equal patterns have equal texts, and a text is read back as the same pattern. Names in a
namespace are written without prefixes, `*[local-name()='math' and namespace-uri()='…']`, so that the text means the
same in every engine, whatever prefixes are bound there.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from palio.xml.pattern import (
    SEARCHES,
    And,
    Axis,
    Condition,
    Exists,
    FirstValue,
    Name,
    Named,
    NodeKind,
    Not,
    Or,
    Pattern,
    PatternNode,
    Residual,
    ValueTest,
    cover_of,
)

_OUTERMOST, _OR, _AND = range(3)
"""Positions of a condition: alone, in a disjunction, in a conjunction."""


def write_pattern(pattern: Pattern) -> str:
    """A pattern in XPath 1.0."""
    root = _without_covers(pattern.root)
    parts = [
        *(_write_path_of(branch, at_document=True) for branch in root.branches),
        *(_write_test(".", test) for test in root.tests),
    ]
    outermost = len(parts) + len(root.others) == 1
    parts += [_write(each, _OUTERMOST if outermost else _AND, at_document=True) for each in root.others]
    return " and ".join(parts) or "true()"


def _without_covers(node: PatternNode) -> PatternNode:
    """A node without what its residuals imply: whoever reads them finds that again."""
    residuals = [each for each in node.others if isinstance(each, Residual)]
    if not residuals:
        return node
    implied = set(cover_of(residuals)).difference(residuals)
    return replace(
        node,
        branches=tuple(each for each in node.branches if Exists(each) not in implied),
        tests=tuple(each for each in node.tests if each not in implied),
        others=tuple(each for each in node.others if each not in implied),
    )


def write_branch(node: PatternNode) -> str:
    """A branch as it stands in a predicate, which is also the key that branches are sorted by."""
    if _is_comparison(node):
        bare = replace(node, tests=())
        return _write_test(_write_path_of(bare, at_document=False), node.tests[0])
    return _write_path_of(node, at_document=False)


def condition_key(condition: Condition) -> str:
    """The text of a condition, by which conditions are sorted."""
    return _write(condition, _OUTERMOST)


def _write_path_of(node: PatternNode, at_document: bool) -> str:
    """A branch as a path, with all but one of the branches of each node as predicates."""
    if node.kind is NodeKind.DOCUMENT:
        return _write_absolute(node)
    steps: list[str] = []
    axis = _axis_before(node, at_document)
    while True:
        node = _without_covers(node)
        continued = _continuation(node)
        steps += (axis, _node_test(node), *_predicates(node, continued))
        if continued is None:
            return "".join(steps)
        node = continued
        axis = "//" if node.axis is Axis.DESCENDANT else "/"


def _is_comparison(node: PatternNode) -> bool:
    """Whether a node asks for one value alone, so that the path to it can be compared.

    `contains(a, 'x')` asks for the first of several nodes; only of an attribute there are never several.
    """
    if node.kind is NodeKind.DOCUMENT or len(node.tests) != 1 or node.branches or node.others:
        return False
    is_search = node.tests[0].operator in SEARCHES
    return not is_search or (node.kind is NodeKind.ATTRIBUTE and node.axis is Axis.CHILD and node.name.is_single)


def _axis_before(node: PatternNode, at_document: bool) -> str:
    match node.axis:
        case Axis.CHILD:
            return "/" if at_document else ""
        case Axis.DESCENDANT:
            return "//" if at_document else ".//"
        case Axis.PARENT:
            return "parent::"
        case Axis.ANCESTOR:
            return "ancestor::"


def _continuation(node: PatternNode) -> PatternNode | None:
    """The branch that is written as the next step of the path: the last element, or all there is below."""
    below = [each for each in node.branches if each.axis <= Axis.DESCENDANT]
    elements = [each for each in below if each.kind is NodeKind.ELEMENT]
    if elements:
        return elements[-1]
    return below[0] if len(below) == 1 and below[0].is_bare else None


def _write_absolute(node: PatternNode) -> str:
    """What is asked of the document node, from a node below it."""
    if node.axis is Axis.PARENT:
        return f"parent::node(){''.join(_predicates(node, None))}[not(self::*)]"
    if node.is_bare:
        return "/"
    inner = write_pattern(Pattern(node))
    return inner if len(node.branches) == 1 and not node.tests and not node.others else f"({inner})"


def _node_test(node: PatternNode) -> str:
    if node.kind is NodeKind.TEXT:
        return "text()"
    sign = "@" if node.kind is NodeKind.ATTRIBUTE else ""
    if node.name.is_any or (node.name.namespace == "" and node.name.local is not None):
        return f"{sign}{node.name.local or '*'}"
    return f"{sign}*[{write_name(node.name)}]"


def write_name(name: Name) -> str:
    parts: list[str] = []
    if name.local is not None:
        parts.append(f"local-name()={write_constant(name.local)}")
    if name.namespace is not None:
        parts.append(f"namespace-uri()={write_constant(name.namespace)}")
    return " and ".join(parts) or "true()"


def _predicates(node: PatternNode, continued: PatternNode | None) -> list[str]:
    node = _without_covers(node)
    conditions = [
        *(write_branch(branch) for branch in node.branches if branch is not continued),
        *(_write_test(".", test) for test in node.tests),
        *(_write(each, _OUTERMOST) for each in node.others),
    ]
    return [f"[{each}]" for each in conditions]


def _write(condition: Condition, position: int, at_document: bool = False) -> str:
    match condition:
        case Exists(branch):
            return _write_path_of(branch, at_document) if at_document else write_branch(branch)
        case ValueTest():
            return _write_test(".", condition)
        case Named(name):
            if name.namespace == "" and name.local is not None:
                return f"self::{name.local}"
            text = write_name(name)
            return f"({text})" if position and " and " in text else text
        case Residual(text):
            return text
        case FirstValue(path, test):
            return _write_test(f"string({_write_path(path, at_document)})", test)
        case Not(negated):
            return f"not({_write(negated, _OUTERMOST, at_document)})"
        case And(conditions):
            return " and ".join(_write(each, _AND, at_document) for each in conditions) or "true()"
        case Or(conditions):
            text = " or ".join(_write(each, _OR, at_document) for each in conditions) or "false()"
            return f"({text})" if position == _AND and len(conditions) > 1 else text


def _write_path(path: tuple[PatternNode, ...], at_document: bool) -> str:
    """A path whose last node is selected."""
    if path[0].kind is NodeKind.DOCUMENT:
        path, at_document = path[1:], True
    steps: list[str] = []
    for node in path:
        if not steps or node.axis >= Axis.PARENT:
            axis = _axis_before(node, at_document and not steps)
            steps.append(f"/{axis}" if steps else axis)
        else:
            steps.append("//" if node.axis is Axis.DESCENDANT else "/")
        steps += (_node_test(node), *_predicates(node, None))
    return "".join(steps)


def _write_test(subject: str, test: ValueTest) -> str:
    written = write_constant(test.constant)
    if test.operator in SEARCHES:
        return f"{test.operator}({subject}, {written})"
    return f"{subject}{test.operator}{written}"


def _write_number(number: float) -> str:
    """A number without exponent, which XPath does not have."""
    if number.is_integer():
        return str(int(number))
    return format(Decimal(repr(number)), "f")


def write_constant(constant: str | float) -> str:
    """A number, or a string literal in double quotes so that it can stand in one of SQL.

    XPath has no escapes: a text with both quotation marks is put together.
    """
    if isinstance(constant, float):
        return _write_number(constant)
    text = constant
    if '"' not in text:
        return f'"{text}"'
    if "'" not in text:
        return f"'{text}'"
    return "concat({})".format(", '\"', ".join(f'"{piece}"' for piece in text.split('"')))

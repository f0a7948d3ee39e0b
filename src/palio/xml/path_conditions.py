"""Conditions that location paths stand for.

A location path asks whether the steps lead anywhere from a context node. It is made from the last step to the first:
each step is a node that has its predicates and the rest of the path as conditions. `//` is the step
`descendant-or-self::node()`, which joins with the step after it to one node at any depth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from palio.xml.canonical_form import conjunction, disjunction, make_node, negation
from palio.xml.pattern import (
    ANY_NAME,
    NEVER,
    And,
    Axis,
    Condition,
    Exists,
    FirstValue,
    Name,
    Named,
    NodeKind,
    PatternNode,
    ValueTest,
)
from palio.xml.value_tests import passes


@dataclass(frozen=True)
class Step:
    """One step as it is written; `kind` is "element" (or, on the axis attribute, an attribute), "text" or "node"."""

    axis: str
    kind: str
    name: Name = ANY_NAME
    conditions: tuple[Condition, ...] = ()
    is_first_only: bool = False
    """Whether [1] follows: of whether there is a node, and of the first of all, it changes nothing."""

    @property
    def is_anywhere(self) -> bool:
        """Whether it is `descendant-or-self::node()`, the meaning of `//`."""
        return self.axis == "descendant-or-self" and self.kind == "node" and not self.conditions

    @property
    def is_dot(self) -> bool:
        return self.axis == "self" and self.kind == "node" and not self.conditions


@dataclass(frozen=True)
class Path:
    """The steps of a location path; an absolute one starts at the document node."""

    steps: tuple[Step, ...]
    is_absolute: bool


def path_exists(path: Path) -> Condition:
    """The condition that a path selects a node; a ValueError says why it is no tree pattern."""
    steps = tuple(step for step in path.steps if not step.is_dot)
    condition = _leads_on(steps)
    return _at_document(condition) if path.is_absolute else condition


def end_with(path: Path, condition: Condition) -> Path:
    """The path whose last node also fulfils a condition."""
    if not path.steps:
        return replace(path, steps=(Step("self", "node", conditions=(condition,)),))
    *steps, last = path.steps
    return replace(path, steps=(*steps, replace(last, conditions=(*last.conditions, condition))))


def first_value(path: Path, test: Condition) -> Condition:
    """The condition that the text of the first node of a path passes a test; that of no node is empty."""
    steps = tuple(step for step in path.steps if not step.is_dot)
    if not isinstance(test, ValueTest) or not (steps or path.is_absolute):
        return test
    if not steps:
        return _at_document(test)
    nodes = _nodes(steps)
    if not path.is_absolute and len(nodes) == 1 and _is_single(nodes[0]):
        (node,) = nodes
        passing = path_exists(end_with(path, test))
        return disjunction([negation(Exists(node)), passing]) if passes(test, "") else passing
    if path.is_absolute:
        nodes = (make_node(Axis.ANCESTOR, NodeKind.DOCUMENT, ANY_NAME, ()), *nodes)
    return FirstValue(nodes, test)


def _is_single(node: PatternNode) -> bool:
    """Whether an element has at most one such node: an attribute of one name."""
    return node.axis is Axis.CHILD and node.kind is NodeKind.ATTRIBUTE and node.name.is_single


def _at_document(condition: Condition) -> Condition:
    if condition == NEVER:
        return NEVER
    return Exists(make_node(Axis.ANCESTOR, NodeKind.DOCUMENT, ANY_NAME, (condition,)))


def _leads_on(steps: tuple[Step, ...]) -> Condition:
    """The condition that steps lead to a node from the context node."""
    if not steps:
        return And(())
    step, *_ = steps
    if step.is_anywhere:
        return _leads_on_below(steps[1:])
    if step.axis in ("child", "attribute", "descendant"):
        axis = Axis.DESCENDANT if step.axis == "descendant" else Axis.CHILD
        return _exists(axis, _kind(step), step.name, *step.conditions, _leads_on(steps[1:]))
    inside = conjunction([*step.conditions, _leads_on(steps[1:])])
    match step.axis, step.kind:
        case "self", "node":
            return inside
        case "self", _:
            return conjunction([Named(step.name, NodeKind.ELEMENT), inside])
        case "descendant-or-self", "element":
            itself = conjunction([Named(step.name, NodeKind.ELEMENT), inside])
            return disjunction([itself, _exists(Axis.DESCENDANT, NodeKind.ELEMENT, step.name, inside)])
        case "parent", "node":
            # The node above is an element, or the document node above the document element.
            above = _exists(Axis.PARENT, NodeKind.ELEMENT, ANY_NAME, inside)
            return disjunction([above, _exists(Axis.PARENT, NodeKind.DOCUMENT, ANY_NAME, inside)])
        case "parent", _:
            return _exists(Axis.PARENT, NodeKind.ELEMENT, step.name, inside)
        case (("ancestor" | "ancestor-or-self"), "element"):
            above = _exists(Axis.ANCESTOR, NodeKind.ELEMENT, step.name, inside)
            if step.axis == "ancestor":
                return above
            return disjunction([conjunction([Named(step.name, NodeKind.ELEMENT), inside]), above])
    raise ValueError(f"{step.axis}::{step.kind}() is beyond tree patterns")


def _leads_on_below(steps: tuple[Step, ...]) -> Condition:
    """The condition that steps lead to a node from the context node or from one below it."""
    if not steps:
        return And(())
    step, *_ = steps
    if step.is_anywhere:
        return _leads_on_below(steps[1:])
    if step.axis in ("child", "attribute", "descendant"):
        return _exists(Axis.DESCENDANT, _kind(step), step.name, *step.conditions, _leads_on(steps[1:]))
    if step.axis in ("self", "descendant-or-self") and step.kind == "element":
        return _leads_on((replace(step, axis="descendant-or-self"), *steps[1:]))
    raise ValueError(f"{step.axis}:: after // is beyond tree patterns")


def _nodes(steps: tuple[Step, ...]) -> tuple[PatternNode, ...]:
    """The nodes of a path, each relative to the one before it."""
    nodes: list[PatternNode] = []
    is_below = False
    for step in steps:
        if step.is_anywhere:
            is_below = True
            continue
        match step.axis:
            case "child" | "attribute" | "descendant":
                axis = Axis.DESCENDANT if is_below or step.axis == "descendant" else Axis.CHILD
            case "parent" | "ancestor" if step.kind == "element" and not is_below:
                axis = Axis.PARENT if step.axis == "parent" else Axis.ANCESTOR
            case _:
                raise ValueError("the text of this path is beyond tree patterns")
        nodes.append(make_node(axis, _kind(step), step.name, step.conditions))
        is_below = False
    if is_below:
        raise ValueError("the text of this path is beyond tree patterns")
    return tuple(nodes)


def _exists(axis: Axis, kind: NodeKind, name: Name, *conditions: Condition) -> Condition:
    node = make_node(axis, kind, name, conditions)
    return NEVER if NEVER in node.others else Exists(node)


def _kind(step: Step) -> NodeKind:
    if step.axis == "attribute":
        return NodeKind.ATTRIBUTE
    return NodeKind.TEXT if step.kind == "text" else NodeKind.ELEMENT

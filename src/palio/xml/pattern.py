"""Tree patterns: the normal form of XPath subscriptions.

A pattern is a tree. Its root stands for the document node; every other node asks for an element, an attribute or a text
node of the document that stands in the relation of its axis to the node above (Chand). A document matches if the
nodes of the pattern can be placed on nodes of the document, several on one if they fit: then XPath's `boolean()` of the
path is true. `/article/front//contrib[@role='author']/name` is

    document ─ article ─ front ═ contrib ┬ @role, value = 'author'
                                         └ name

What a conjunction of branches cannot say, `or`, `not()`, the value of the first node of several, and what is no tree
pattern at all (`Residual`), stands beside the branches of a node as a `Condition` (`PatternNode.others`). An index that
handles branches and value tests alone checks patterns that have others (`Pattern.is_conjunctive`) once more with the
reference matcher.

`palio.xml.xpath_parser` makes patterns of text, always in canonical form (`palio.xml.canonical_form`), by which `==`
compares them. `str()` of a pattern is XPath 1.0 that any engine runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from palio.xml.expression import Expression


class Axis(IntEnum):
    """The relation of a node of the document to the node that the parent in the pattern is placed on."""

    CHILD = 0
    """A child. Attributes and text nodes are children of their element, one level below it."""
    DESCENDANT = 1
    """At any depth below: a child, a child of a child, and so on."""
    PARENT = 2
    ANCESTOR = 3
    """At any depth above; the document node is the last ancestor of every node."""


class NodeKind(IntEnum):
    """The kinds of nodes of a document."""

    DOCUMENT = 0
    ELEMENT = 1
    ATTRIBUTE = 2
    TEXT = 3


@dataclass(frozen=True, slots=True, order=True)
class Name:
    """A name test: the local name and the namespace, each None if any will do; the namespace "" is none at all."""

    local: str | None = None
    namespace: str | None = None

    def accepts(self, local: str, namespace: str) -> bool:
        return (self.local is None or self.local == local) and (self.namespace is None or self.namespace == namespace)

    @property
    def is_any(self) -> bool:
        return self.local is None and self.namespace is None

    @property
    def is_single(self) -> bool:
        """Whether it accepts one name only; an element has at most one attribute of it."""
        return self.local is not None and self.namespace is not None


ANY_NAME = Name()

ORDER_OPERATORS = ("<", "<=", ">", ">=")
SEARCHES = ("contains", "starts-with")
VALUE_OPERATORS = ("=", "!=", *ORDER_OPERATORS, *SEARCHES)


@dataclass(frozen=True, slots=True)
class ValueTest:
    """A comparison of the string value of one node with a constant.

    The string value of an element is all text in it, at any depth, in document order. With a number (a float) the value
    is converted as XPath's `number()` does, and one that is no number is NaN: unequal to all, in no order.
    """

    operator: str
    """One of `VALUE_OPERATORS`. The order operators have a number; `contains` and `starts-with` a string."""
    constant: str | float


@dataclass(frozen=True, slots=True)
class Named:
    """The node itself has a name: `[self::a]` or `[local-name()='a']` beside other alternatives.

    A node that has to have it has the name itself; `kind` is None in the canonical form.
    """

    name: Name
    kind: NodeKind | None = None


@dataclass(frozen=True, slots=True)
class Exists:
    """A branch below the node; alone, it stands among the branches of the node instead."""

    branch: PatternNode


@dataclass(frozen=True, slots=True)
class FirstValue:
    """The string value of the first node in document order that a path selects passes a test; no node is the text "".

    This is what `contains(a/b, 'x')` means in XPath 1.0. Each node of `path` is relative to the one before it, and the
    last one is the node selected.
    """

    path: tuple[PatternNode, ...]
    test: ValueTest


@dataclass(frozen=True, slots=True)
class Residual:
    """An expression that is no tree pattern is true at the node; equal to others by its text.

    It is evaluated on documents that an index cannot rule out by `cover`.
    """

    text: str
    expression: Expression = field(compare=False, repr=False)
    cover: Condition = field(compare=False, repr=False)
    """What every node fulfils at which the expression is true, as far as it is a pattern."""
    size: int = field(default=1, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class And:
    """All conditions hold, of two or more."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one condition holds; of none, never."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """A condition does not hold; negation stands directly above a branch, a value test or a name."""

    condition: Condition


Condition: TypeAlias = Exists | ValueTest | Named | FirstValue | Residual | And | Or | Not

NEVER = Or(())
"""The condition that nothing fulfils."""


@dataclass(frozen=True)
class PatternNode:
    """One node of a pattern: axis, kind and name, and the conjunction of what it asks of the node it is placed on."""

    axis: Axis
    kind: NodeKind
    name: Name = ANY_NAME
    branches: tuple[PatternNode, ...] = ()
    """The nodes below it that must exist, sorted."""
    tests: tuple[ValueTest, ...] = ()
    """The tests its string value must pass, sorted."""
    others: tuple[Condition, ...] = ()
    """Further conditions: `Or`, `Not`, `FirstValue`, `Named`, `Residual`, sorted."""

    @property
    def is_bare(self) -> bool:
        """Whether it asks for nothing but a node of its kind and name."""
        return not (self.branches or self.tests or self.others)

    def walk(self) -> Iterator[PatternNode]:
        """This node and all below it, also those in conditions, parents first."""
        yield self
        for branch in self.branches:
            yield from branch.walk()
        for condition in self.others:
            for branch in branches_of(condition):
                yield from branch.walk()

    @cached_property
    def key(self) -> str:
        """A sort key: the node as text."""
        from palio.xml.xpath_writer import write_branch

        return write_branch(self)

    def __hash__(self) -> int:
        # Of a tree, so it is computed once; not a cached_property, which takes a lock for that.
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            known = self.__dict__["_hash"] = hash(
                (self.axis, self.kind, self.name, self.branches, self.tests, self.others)
            )
        return known

    def __getstate__(self) -> dict[str, object]:
        # Without cached values: the hash of a string differs from process to process.
        return {field: self.__dict__[field] for field in self.__dataclass_fields__}


def residuals_of(condition: Condition) -> Iterator[Residual]:
    """The residuals in a condition, but not those of branches in it."""
    match condition:
        case Residual():
            yield condition
        case And(conditions) | Or(conditions):
            for each in conditions:
                yield from residuals_of(each)
        case Not(negated):
            yield from residuals_of(negated)


def cover_of(conditions: Iterable[Condition]) -> Iterator[Condition]:
    """Conditions, and what the residuals among them imply."""
    for condition in conditions:
        yield condition
        if isinstance(condition, Residual):
            cover = condition.cover
            yield from cover.conditions if isinstance(cover, And) else (cover,)


def branches_of(condition: Condition) -> Iterator[PatternNode]:
    """The branches in a condition."""
    match condition:
        case Exists(branch):
            yield branch
        case FirstValue(path):
            yield from path
        case And(conditions) | Or(conditions):
            for each in conditions:
                yield from branches_of(each)
        case Not(negated):
            yield from branches_of(negated)


@dataclass(frozen=True)
class Pattern:
    """A pattern in canonical form; `root` stands for the document node."""

    root: PatternNode

    @cached_property
    def is_conjunctive(self) -> bool:
        """Whether it consists of branches downwards and of value tests alone."""
        return all(not node.others and node.axis <= Axis.DESCENDANT for node in self.root.walk())

    @cached_property
    def has_residuals(self) -> bool:
        """Whether any part of it is no tree pattern."""
        return any(True for node in self.root.walk() for other in node.others for _ in residuals_of(other))

    @cached_property
    def size(self) -> int:
        """The number of nodes, without the root, and of the parts of residuals."""
        nodes = list(self.root.walk())
        residuals = (each.size for node in nodes for other in node.others for each in residuals_of(other))
        return len(nodes) - 1 + sum(residuals)

    @property
    def alternatives(self) -> tuple[Pattern, ...]:
        """Patterns of which one matches where this one does: more than one for a union of paths.

        Residuals beside the union are conditions of each.
        """
        root = self.root
        unions = [each for each in root.others if isinstance(each, Or)]
        residuals = [each for each in root.others if isinstance(each, Residual)]
        if root.branches or root.tests or len(unions) != 1 or len(residuals) + 1 != len(root.others):
            return (self,)
        return tuple(Pattern(_root_of(each, residuals)) for each in unions[0].conditions)

    @property
    def is_never(self) -> bool:
        """Whether it is known that no document matches."""
        return NEVER in self.root.others

    @cached_property
    def text(self) -> str:
        """The pattern in XPath 1.0."""
        from palio.xml.xpath_writer import write_pattern

        return write_pattern(self)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

    def __getstate__(self) -> dict[str, object]:
        return {"root": self.root}


def _root_of(condition: Condition, residuals: Sequence[Residual]) -> PatternNode:
    """The root of the pattern that asks for one condition, beside residuals."""
    alone = condition.conditions if isinstance(condition, And) else (condition,)
    conditions = [*cover_of(alone), *residuals]
    return PatternNode(
        Axis.CHILD,
        NodeKind.DOCUMENT,
        branches=tuple(dict.fromkeys(each.branch for each in conditions if isinstance(each, Exists))),
        tests=tuple(dict.fromkeys(each for each in conditions if isinstance(each, ValueTest))),
        others=tuple(dict.fromkeys(each for each in conditions if not isinstance(each, Exists | ValueTest))),
    )

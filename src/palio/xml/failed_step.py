"""Explanation of a mismatch: the step of a pattern that fails first, and the place in the document.

The nodes that a path reaches are followed from the document node, step by step. Where a step finds no node, or where no
node that it finds fulfils the next condition, the explanation stops: `no element surname below /article/contrib`.
"""

from __future__ import annotations

from typing import Final

from palio.xml.document import Document
from palio.xml.pattern import Axis, Condition, Exists, NodeKind, Pattern, PatternNode, ValueTest
from palio.xml.reference_matcher import DOCUMENT_NODE, DocumentNode, ReferenceMatcher
from palio.xml.xpath_writer import condition_key, write_branch

_MAX_SHOWN_CHARACTERS: Final = 60
_MAX_FOLLOWED_NODES: Final = 10_000
_AXIS_WORDS: Final = {Axis.CHILD: "in", Axis.DESCENDANT: "below", Axis.PARENT: "as parent of", Axis.ANCESTOR: "above"}


def failed_step(matcher: ReferenceMatcher, pattern: Pattern) -> str | None:
    """Why a document does not match a pattern, in a line; None where it does."""
    if matcher.matches(pattern):
        return None
    return _Search(matcher).failed_condition([DOCUMENT_NODE], pattern.root)


class _Search:
    """The way along one document."""

    def __init__(self, matcher: ReferenceMatcher) -> None:
        self._matcher = matcher

    def failed_condition(self, nodes: list[DocumentNode], asked: PatternNode) -> str:
        """The first condition of a node of a pattern that none of some nodes fulfils together with those before it."""
        conditions: list[Condition] = [*asked.tests, *map(Exists, asked.branches), *asked.others]
        for condition in conditions:
            kept = [node for node in nodes if self._matcher.holds(node, condition)]
            if not kept:
                return self._reason(nodes, condition)
            nodes = kept
        raise AssertionError("some node fulfils all conditions")

    def _reason(self, nodes: list[DocumentNode], condition: Condition) -> str:
        place = place_of(self._matcher.document, nodes[0])
        others = f" (and {len(nodes) - 1:,} more)" if len(nodes) > 1 else ""
        match condition:
            case ValueTest():
                return f"{place} is {_shorten(self._matcher.string_value(nodes[0]))}{others}, not {_meaning(condition)}"
            case Exists(branch):
                found = self._follow(nodes, branch)
                if found:
                    return self.failed_condition(found, branch)
                return f"no {_described(branch)} {_AXIS_WORDS[branch.axis]} {place}{others}"
        if nodes[0].kind is NodeKind.DOCUMENT:
            return f"{Pattern(PatternNode(Axis.CHILD, NodeKind.DOCUMENT, others=(condition,)))} fails"
        return f"{condition_key(condition)} fails at {place}{others}"

    def _follow(self, nodes: list[DocumentNode], branch: PatternNode) -> list[DocumentNode]:
        """The nodes that a step leads to, whatever their conditions, each once and in document order."""
        found: dict[DocumentNode, None] = {}
        for node in nodes:
            for each in self._matcher.below(node, branch):
                found[each] = None
                if len(found) >= _MAX_FOLLOWED_NODES:
                    return list(found)
        return sorted(found)


def place_of(document: Document, node: DocumentNode) -> str:
    """The path to a node, for people."""
    match node.kind:
        case NodeKind.DOCUMENT:
            return "the document"
        case NodeKind.ELEMENT:
            return document.path(node.number)
        case NodeKind.ATTRIBUTE:
            owner, name = document.attribute_owners[node.number], document.names[document.attribute_tags[node.number]]
            return f"{document.path(owner)}/@{name}"
    return f"{document.path(document.text_owners[node.number])}/text()"


def _described(branch: PatternNode) -> str:
    if branch.kind is NodeKind.TEXT:
        return "text"
    bare = write_branch(PatternNode(Axis.CHILD, branch.kind, branch.name))
    if branch.kind is NodeKind.ATTRIBUTE:
        return f"attribute {bare}"
    return "element" if branch.name.is_any else f"element {bare}"


def _meaning(test: ValueTest) -> str:
    return condition_key(test).removeprefix(".")


def _shorten(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…")

"""Synopsis of a collection of documents: how many of them have each path.

The tree has a node for every distinct path of names from the document node, with the number of documents in which the
path occurs, once for each document however often it occurs in it (Chand §7.4). Its estimates take branches for
independent of one another, given the element that they begin at.

A synopsis of many documents has as many nodes as there are paths, some thousands for the articles of a journal, and
synopses of parts of a collection are added up (`merge`), so that Spark builds them in parallel. Beyond `max_nodes`,
paths that would be new are counted as one unnamed path of their parent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from palio.errors import InvalidArgument
from palio.xml.document import Document
from palio.xml.pattern import Axis, Name, NodeKind, Pattern, PatternNode

MAX_NODES: Final = 100_000
VALUE_SHARE: Final = 0.1
"""The share of the values of a node that pass a test: values are not counted."""
TEXT_LABEL: Final = "text()"
OTHER_LABEL: Final = "…"
"""Of paths beyond the limit."""


class SynopsisNode:
    """One path, and the number of documents that have it."""

    __slots__ = ("children", "frequency")

    def __init__(self) -> None:
        self.frequency = 0
        self.children: dict[str, SynopsisNode] = {}

    def walk(self) -> Iterator[SynopsisNode]:
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children.values()


class DocumentSynopsis:
    """Frequencies of the paths of a collection; labels are names of elements, `@` and attributes, and `text()`."""

    def __init__(self, max_nodes: int = MAX_NODES) -> None:
        if type(max_nodes) is not int or max_nodes < 1:
            raise InvalidArgument(f"max_nodes must be a positive integer, not {max_nodes!r}")
        self.root = SynopsisNode()
        self.max_nodes = max_nodes
        self._nodes = 1

    def __len__(self) -> int:
        """The number of paths."""
        return self._nodes - 1

    @property
    def documents(self) -> int:
        return self.root.frequency

    def add(self, document: Document) -> None:
        """Count a document; costs a microsecond for each of its nodes."""
        seen: set[SynopsisNode] = {self.root}
        names = [str(name) for name in document.names]
        placed: list[SynopsisNode] = []
        for tag, parent in zip(document.tags, document.parents, strict=True):
            placed.append(self._below(self.root if parent < 0 else placed[parent], names[tag], seen))
        for owner, tag in zip(document.attribute_owners, document.attribute_tags, strict=True):
            self._below(placed[owner], f"@{names[tag]}", seen)
        for owner in document.text_owners:
            self._below(placed[owner], TEXT_LABEL, seen)
        for node in seen:
            node.frequency += 1

    def _below(self, node: SynopsisNode, label: str, seen: set[SynopsisNode]) -> SynopsisNode:
        found = node.children.get(label)
        if found is None:
            if self._nodes >= self.max_nodes:
                label = OTHER_LABEL
                found = node.children.get(label)
            if found is None:
                found = node.children[label] = SynopsisNode()
                self._nodes += 1
        seen.add(found)
        return found

    def merge(self, other: DocumentSynopsis) -> None:
        """Add the documents of another synopsis."""
        waiting = [(self.root, other.root)]
        while waiting:
            mine, theirs = waiting.pop()
            mine.frequency += theirs.frequency
            for label, node in theirs.children.items():
                if label not in mine.children:
                    mine.children[label] = SynopsisNode()
                    self._nodes += 1
                waiting.append((mine.children[label], node))

    def frequency(self, path: str) -> int:
        """The number of documents that have a path such as `/article/front/@id`; in a namespace, `{uri}name`."""
        node = self.root
        for label in _labels(path):
            found = node.children.get(label)
            if found is None:
                return 0
            node = found
        return node.frequency

    def selectivity(self, pattern: Pattern) -> float:
        """The estimated share of documents that match a pattern.

        Branches are taken for independent; what is no conjunction of branches is left out.
        """
        shares = [self._alternative_share(each) for each in pattern.alternatives]
        missing = 1.0
        for share in shares:
            missing *= 1 - share
        return 1 - missing

    def _alternative_share(self, pattern: Pattern) -> float:
        if pattern.is_never or not self.documents:
            return 0.0
        share = 1.0
        for branch in pattern.root.branches:
            share *= branch_share(branch, self.root)
        return share

    def to_json(self) -> str:
        """The synopsis as JSON text, from which `from_json` makes it again."""
        return json.dumps({"documents": self.documents, "paths": _as_dict(self.root)}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> DocumentSynopsis:
        try:
            found = json.loads(text)
            synopsis = cls()
            synopsis.root.frequency = int(found["documents"])
            _fill(synopsis.root, found["paths"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InvalidArgument(f"this text is no synopsis of documents: {error}") from None
        synopsis._nodes = sum(1 for _ in synopsis.root.walk())
        return synopsis


def _labels(path: str) -> list[str]:
    """The labels of a path; a slash within the braces of a namespace belongs to it."""
    labels: list[str] = []
    inside = False
    for part in path.strip("/").split("/"):
        if inside:
            labels[-1] += f"/{part}"
        elif part:
            labels.append(part)
        inside = bool(labels) and labels[-1].count("{") > labels[-1].count("}")
    return labels


def _as_dict(node: SynopsisNode) -> dict[str, Any]:
    return {label: [child.frequency, _as_dict(child)] for label, child in node.children.items()}


def _fill(node: SynopsisNode, children: Mapping[str, Any]) -> None:
    for label, (frequency, below) in children.items():
        child = node.children[label] = SynopsisNode()
        child.frequency = int(frequency)
        _fill(child, below)


def accepts_label(kind: NodeKind, name: Name, label: str) -> bool:
    """Whether a kind of node and a name test accept a label."""
    if label == OTHER_LABEL or (label == TEXT_LABEL) is not (kind is NodeKind.TEXT):
        return False
    if kind is NodeKind.TEXT:
        return True
    if label.startswith("@") is not (kind is NodeKind.ATTRIBUTE):
        return False
    namespace, _, local = label.removeprefix("@").rpartition("}")
    return name.accepts(local, namespace.removeprefix("{"))


def branch_share(branch: PatternNode, node: SynopsisNode) -> float:
    """The estimated share of documents with a path that also have a branch below it."""
    if branch.axis >= Axis.PARENT or not node.frequency:
        return 1.0 if node.frequency else 0.0  # what stands above is not looked for
    share = 0.0
    for label, child in node.children.items():
        if accepts_label(branch.kind, branch.name, label):
            here = child.frequency / node.frequency * VALUE_SHARE ** len(branch.tests)
            for below in branch.branches:
                here *= branch_share(below, child)
            share = max(share, here)
        if branch.axis is Axis.DESCENDANT and child.children:
            share = max(share, child.frequency / node.frequency * branch_share(branch, child))
    return min(share, 1.0)

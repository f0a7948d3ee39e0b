"""What is known of the structure of documents: which labels may stand below a path, and which never together.

It comes from a schema (`SchemaStructure`, made by `palio.workloads.xml_schema.Schema.structure`) or from a synopsis of
documents (`SynopsisStructure`). Two labels are *opposed* below an element if no valid content of it has both; a label
is opposed to itself if it occurs once at most (Chand §7.4). The relation is not transitive: pairs are kept, not groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from palio.xml.synopsis import OTHER_LABEL, TEXT_LABEL, DocumentSynopsis, SynopsisNode

PathLabels: TypeAlias = tuple[str, ...]
"""The labels from the document element down."""

_DOCUMENT: Final = ""


class Structure(Protocol):
    """What may stand below a path."""

    def weights(self, path: PathLabels) -> Mapping[str, float]:
        """The labels that may stand directly below a path, and how likely they are in proportion."""
        ...

    def share(self, path: PathLabels, label: str) -> float | None:
        """The share of the documents with a path that have a label below it; None if that is not known."""
        ...

    def are_opposed(self, path: PathLabels, one: str, other: str) -> bool:
        """Whether two different nodes below a path never have these labels."""
        ...

    def has_text(self, path: PathLabels) -> bool:
        """Whether the element has text of its own."""
        ...


@dataclass(frozen=True)
class SchemaStructure:
    """The structure that a schema allows; labels that it does not declare have text alone."""

    root: str
    children: Mapping[str, Set[str]]
    opposed: Mapping[str, Set[tuple[str, str]]]
    with_text: Set[str] = frozenset()
    """Declared elements that may have text."""

    def weights(self, path: PathLabels) -> Mapping[str, float]:
        if not path:
            return {self.root: 1.0}
        return dict.fromkeys(sorted(self.children.get(path[-1], ())), 1.0)

    def share(self, path: PathLabels, label: str) -> float | None:
        return None

    def are_opposed(self, path: PathLabels, one: str, other: str) -> bool:
        if not path or one.startswith("@") or other.startswith("@"):
            return one == other  # one document element, and one attribute of a name
        return (one, other) in self.opposed.get(path[-1], ())

    def has_text(self, path: PathLabels) -> bool:
        return path[-1].startswith("@") or path[-1] not in self.children or path[-1] in self.with_text


class SynopsisStructure:
    """The structure that documents of a synopsis have."""

    def __init__(self, synopsis: DocumentSynopsis) -> None:
        self._root = synopsis.root

    def _node(self, path: PathLabels) -> SynopsisNode | None:
        node: SynopsisNode | None = self._root
        for label in path:
            node = None if node is None else node.children.get(label)
        return node

    def weights(self, path: PathLabels) -> Mapping[str, float]:
        node = self._node(path)
        if node is None:
            return {}
        return {label: float(child.frequency) for label, child in node.children.items() if label != OTHER_LABEL}

    def share(self, path: PathLabels, label: str) -> float | None:
        node = self._node(path)
        if node is None or not node.frequency or label not in node.children:
            return 0.0
        return node.children[label].frequency / node.frequency

    def are_opposed(self, path: PathLabels, one: str, other: str) -> bool:
        return one == other and (not path or one.startswith("@"))

    def has_text(self, path: PathLabels) -> bool:
        node = self._node(path)
        return path[-1].startswith("@") or (node is not None and (TEXT_LABEL in node.children or not node.children))

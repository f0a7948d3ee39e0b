"""Link states: the links between all brokers, and from them a tree for each broker that accepts events.

Every broker floods the numbers of its neighbours over the links in use, and again when they change; all brokers so know
the same graph, and compute the same shortest-path tree for the broker at its root (as OSPF and its multicast extension
do). An event goes along the tree of the broker that accepted it: a broker sends it over links to its children in that
tree alone (reverse-path trees, Jerzak §2.4.4; `Neighbors − NST(e)`, Shen §3.2). So events take shortest paths, and the
load is on all links instead of those of one tree.

Trees could also be made by flooding advertisements and remembering by which link each came first. Then a broker would
have to send its filters once for each tree: path and reverse path differ, so that tables hold for one tree only. With
the whole graph a filter is sent once, with its home broker (`home_tables`), and serves all trees; and trees need no
publisher to advertise.

A link counts where both of its ends name it: the statement of a broker that crashed needs not be withdrawn. While
statements are under way brokers have different trees, and events may get lost or come twice, which the duplicate filter
sees; that ends when they have arrived.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from palio.routing.effects import Effect, Send
from palio.routing.messages import LinkState
from palio.routing.upkeep.redundant_trees import RedundantTrees, redundant_trees

_MAX_BROKERS: Final = 65_536  # whose links are remembered
_MAX_TREES: Final = 1_024  # that are remembered; others are computed anew


class LinkStates:
    """The links of all brokers, as one of them knows them."""

    __slots__ = ("_effects", "_known", "_neighbours", "_node", "_redundant", "_trees", "_version", "incarnation")

    def __init__(self, node: int, incarnation: int, effects: list[Effect]) -> None:
        self._node = node
        self.incarnation = incarnation
        self._effects = effects
        self._neighbours: dict[int, int] = {}  # by link, of those that are up
        self._version = 0
        self._known: dict[int, LinkState] = {}
        self._redundant: RedundantTrees | None = None
        self._trees: OrderedDict[int, Mapping[int, int]] = OrderedDict()  # by root: what `branches` gives

    def open_link(self, link: int) -> None:
        """Send a new neighbour in the shared tree all that is known."""
        self._effects += [Send((link,), each) for each in self._known.values()]

    def on_link_up(self, link: int, neighbour: int, in_use: Iterable[int]) -> None:
        self._neighbours[link] = neighbour
        self._state_own(in_use)

    def on_link_down(self, link: int, in_use: Iterable[int]) -> None:
        if self._neighbours.pop(link, None) is not None:
            self._state_own(in_use)

    def receive(self, message: LinkState, others: Iterable[int]) -> None:
        """Take a statement, and pass it on over all other links in use where it is new."""
        known = self._known.get(message.node)
        if known is not None and (known.incarnation, known.version) >= (message.incarnation, message.version):
            return
        if message.node == self._node:
            return  # of an earlier life: no other broker takes it any more once it has heard of this one
        if known is None and len(self._known) >= _MAX_BROKERS:
            del self._known[next(each for each in self._known if each != self._node)]
        self._take(message, others)

    def branches(self, root: int) -> Mapping[int, int]:
        """The brokers below this one in the tree of a root, each with the link that leads there."""
        found = self._trees.get(root)
        if found is None:
            found = self._trees[root] = self._compute_branches(root)
            if len(self._trees) > _MAX_TREES:
                self._trees.popitem(last=False)
        return found

    def link_to(self, node: int) -> int | None:
        """The link to a neighbour; None where none is up."""
        return next((link for link, neighbour in sorted(self._neighbours.items()) if neighbour == node), None)

    def redundant_trees(self) -> RedundantTrees:
        """Two ways from this broker to each other one, as disjoint as the links allow."""
        if self._redundant is None:
            self._redundant = redundant_trees(self._node, self._linked)
        return self._redundant

    def __contains__(self, node: int) -> bool:
        return node in self._known

    def _state_own(self, in_use: Iterable[int]) -> None:
        self._version += 1
        neighbours = tuple(sorted(set(self._neighbours.values())))
        self._take(LinkState(self._node, self.incarnation, self._version, neighbours), in_use)

    def _take(self, message: LinkState, links: Iterable[int]) -> None:
        self._known[message.node] = message
        self._trees.clear()
        self._redundant = None
        to = tuple(sorted(links))
        if to:
            self._effects.append(Send(to, message))

    def _compute_branches(self, root: int) -> Mapping[int, int]:
        """Breadth-first search from the root. Of parents at one distance the one found first is taken, and brokers are
        visited in the order of their numbers: all brokers compute the same tree."""
        link_to = {neighbour: link for link, neighbour in sorted(self._neighbours.items(), reverse=True)}
        branch: dict[int, int | None] = {root: None}  # None for brokers that are not below this one
        level = [root]
        while level:
            following: list[int] = []
            for node in level:
                for neighbour in self._linked(node):
                    if neighbour not in branch:
                        branch[neighbour] = link_to[neighbour] if node == self._node else branch[node]
                        following.append(neighbour)
            level = following
        return {node: link for node, link in branch.items() if link is not None}

    def _linked(self, node: int) -> list[int]:
        known = self._known.get(node)
        if known is None:
            return []
        return [each for each in known.neighbours if each in self._known and node in self._known[each].neighbours]

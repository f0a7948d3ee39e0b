"""Search of a newcomer for its place in the containment tree: the answers so far, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from palio.peers.communities.messages import Address, Found, Order
from palio.peers.communities.relation import Relation

MAX_MOVED: Final = 4_096  # members that one newcomer moves below it

Purpose = Literal["join", "orphan", "reevaluate"]


class Candidate(NamedTuple):
    """A member that answered: of the same interest, a wider or a narrower one."""

    member: Address
    depth: int
    children: int
    order: Order | None


@dataclass(slots=True)
class JoinSearch:
    """A search is over when every probe has been answered: an answer says how many others the probe went on to."""

    number: int
    purpose: Purpose
    tried: set[Address] = field(default_factory=set)  # by which the overlay could not be entered
    starts_here: bool = False  # at an ancestor instead of the top
    top: Address | None = None  # who began it
    open: int | None = None  # probes without an answer; None before it has begun
    early: int = 0  # the same, while the beginning is not known
    equivalent: Candidate | None = None
    wider: Candidate | None = None
    narrower: list[Candidate] = field(default_factory=list)
    is_over: bool = False

    def begin(self, by: Address, probes: int) -> None:
        self.top = by
        self.open = probes + self.early

    def add(self, answer: Found) -> None:
        """Take an answer, of which only the best of each kind are kept."""
        change = answer.forwarded - 1
        if self.open is None:
            self.early += change
        else:
            self.open += change
        found = Candidate(answer.sender, answer.depth, answer.children, answer.order)
        match answer.relation:
            case Relation.EQUIVALENT:
                if self.equivalent is None or _age_key(found) < _age_key(self.equivalent):
                    self.equivalent = found
            case Relation.CONTAINS:
                if self.wider is None or _place_key(found) < _place_key(self.wider):
                    self.wider = found
            case Relation.WITHIN if len(self.narrower) < MAX_MOVED:
                self.narrower.append(found)

    @property
    def is_answered(self) -> bool:
        return self.open == 0

    def parent(self) -> Candidate | None:
        """The best parent that was found; None is the virtual root."""
        return self.equivalent or self.wider

    def moved(self, depth: int, children: int) -> list[Address]:
        """The members to move below the newcomer at a depth, with the children that it has (Chand §7.3, phases 2, 3).

        First all that are no deeper than it; then of those just below its depth the ones whose parents have most
        children, as long as it has fewer. The printed order, increasing, contradicts the text.
        """
        moved = [each.member for each in self.narrower if each.depth <= depth]
        balanced = [each for each in self.narrower if each.depth == depth + 1]
        for each in sorted(balanced, key=lambda each: (-each.children, each.member)):
            if children + len(moved) < each.children:
                moved.append(each.member)
        return moved


def _place_key(candidate: Candidate) -> tuple[int, int, Address]:
    """Deepest first, then fewest children; the address makes it one order for everybody."""
    return -candidate.depth, candidate.children, candidate.member


def _age_key(candidate: Candidate) -> tuple[int, Address]:
    return candidate.depth, candidate.member

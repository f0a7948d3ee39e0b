"""Settings that all peers of a semantic overlay share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from palio.errors import InvalidArgument

JoinMode: TypeAlias = Literal["full", "basic", "adaptive"]
LeaveMode: TypeAlias = Literal["basic", "full"]
JOIN_MODES: Final = get_args(JoinMode)
LEAVE_MODES: Final = get_args(LeaveMode)


@dataclass(frozen=True, slots=True)
class CommunitySettings:
    """The letters are those of the source (Chand §9)."""

    join: JoinMode = "adaptive"
    leave: LeaveMode = "basic"
    equivalents: int = 100
    """The most equivalent children of a member (L); the root of an equivalence tree takes half as many."""
    adaptive_children: int = 100
    """An adaptive join reorganises wherever a member or its parent has more children (L_APJ)."""
    adaptive_share: float = 0.1
    """The share of other members at which it does so as well (γ_APJ)."""
    semantic: int = 10
    """Neighbours that a member of a similarity graph chooses for their interests (n)."""
    random: int = 1
    """Neighbours that it chooses at random (r)."""
    random_share: float = 1.0
    """The probability with which an event goes to a neighbour that was chosen at random (ρ)."""
    indulgence: int = 0
    """How many members may pass an event on that they do not want (γ)."""
    period: float = 1.0
    """Seconds between two rounds of maintenance."""
    patience: float = 5.0
    """Seconds after which a search ends with what it has found."""
    remembered_events: int = 1_024
    """Events by which a member recognises repeated ones."""
    ancestors: int = 6
    """Members above its parent that a member knows."""

    def __post_init__(self) -> None:
        if self.join not in JOIN_MODES:
            raise InvalidArgument(f"there is no join {self.join!r:.80}; known are {', '.join(JOIN_MODES)}")
        if self.leave not in LEAVE_MODES:
            raise InvalidArgument(f"there is no leave {self.leave!r:.80}; known are {', '.join(LEAVE_MODES)}")
        for name, least in (
            ("equivalents", 2),
            ("adaptive_children", 1),
            ("semantic", 1),
            ("random", 0),
            ("indulgence", 0),
            ("remembered_events", 2),
            ("ancestors", 1),
        ):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise InvalidArgument(f"{name} is a whole number from {least} on, not {value!r:.80}")
        for name in ("adaptive_share", "random_share"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 <= value <= 1:
                raise InvalidArgument(f"{name} is a share from 0 to 1, not {value!r:.80}")

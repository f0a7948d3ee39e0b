"""How much may be owed to publishers, and when does a broker count as reached?"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from palio.routing.combinations import Combination

SPILL: Final = 10_000
UNDER_WAY: Final = 1_000


class Limits(NamedTuple):
    """What holds for one broker, as the options of its network say."""

    spill: int = SPILL  # confirmed events of one broker that are not finished
    under_way: int = UNDER_WAY  # those of them that are being sent
    needs_echo: bool = False  # see `echo`

    @classmethod
    def of(cls, combination: Combination) -> Self:
        options = combination.options
        needs_echo = combination.advertisements and combination.propagation != "flooding"
        return cls(int(options.get("spill", SPILL)), int(options.get("window", UNDER_WAY)), needs_echo)

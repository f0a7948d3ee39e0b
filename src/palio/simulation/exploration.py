"""Exhaustive exploration of a small model: every state that any order of its moves can reach.

Random schedules find what is likely; a model of two brokers and three messages is small enough to leave nothing to
chance. The states are searched breadth first, so that a counterexample is a shortest one. States are equal where their
keys are, which must hold all that decides what can follow. Time and memory are those of the number of states, which is
bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from palio.errors import InvalidArgument, PalioError

DEFAULT_MAX_STATES: Final = 1_000_000

_State = TypeVar("_State")


@dataclass(frozen=True, slots=True)
class Exploration(Generic[_State]):
    """The states that were found, and the first complaint with the moves that lead to it."""

    states: int
    transitions: int
    complaint: str = ""
    moves: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.complaint:
            return f"{self.states:,} states and {self.transitions:,} transitions without a complaint"
        return "\n".join([f"{self.complaint}, after:", *(f"  {each}" for each in self.moves)])


def explore(
    initial: _State,
    moves: Callable[[_State], Iterable[tuple[str, _State]]],
    complain: Callable[[_State], str],
    key: Callable[[_State], Hashable],
    max_states: int = DEFAULT_MAX_STATES,
) -> Exploration[_State]:
    """Visit all states that moves reach from an initial one, until one of them is complained of.

    `moves` gives each following state with a word for the move, and `complain` what is wrong with a state, or nothing.
    `PalioError` where there are more than `max_states`.
    """
    if type(max_states) is not int or max_states < 1:
        raise InvalidArgument(f"max_states is a whole number from 1 on, not {max_states!r:.80}")
    first = key(initial)
    came_by: dict[Hashable, tuple[Hashable, str] | None] = {first: None}
    waiting = deque([(first, initial)])
    transitions = 0
    while waiting:
        here, state = waiting.popleft()
        complaint = complain(state)
        if complaint:
            return Exploration(len(came_by), transitions, complaint, _way(came_by, here))
        for move, following in moves(state):
            transitions += 1
            there = key(following)
            if there in came_by:
                continue
            if len(came_by) >= max_states:
                raise PalioError(f"the model has more than {max_states:,} states; make it smaller")
            came_by[there] = here, move
            waiting.append((there, following))
    return Exploration(len(came_by), transitions)


def _way(came_by: dict[Hashable, tuple[Hashable, str] | None], place: Hashable) -> tuple[str, ...]:
    moves: list[str] = []
    while (step := came_by[place]) is not None:
        place, move = step
        moves.append(move)
    return tuple(reversed(moves))

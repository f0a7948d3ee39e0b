"""What may be to come in a simulated world?"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from palio.routing.effects import Persist
from palio.routing.node import NodeInput
from palio.simulation.links import Direction


class Frame(NamedTuple):
    """Bytes on their way to an end of a link."""

    way: Direction
    generation: int
    data: bytes


class Timer(NamedTuple):
    host: int
    name: str
    setting: int


class Input(NamedTuple):
    host: int
    incarnation: int
    input: NodeInput


class Written(NamedTuple):
    """A disk is done, unless a crash came first, which loses what was to be written."""

    host: int
    incarnation: int
    persist: Persist


class Free(NamedTuple):
    """A link with bounded bandwidth can take the next frame."""

    way: Direction
    generation: int


Planned: TypeAlias = Frame | Timer | Input | Written | Free

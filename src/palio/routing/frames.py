"""What do the two ends of a link say to each other beneath the brokers? Greetings, credit, and numbered packets."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class Hello(Struct, frozen=True, array_like=True, tag=64):
    """Who is here, in which life, with which constants, and how many events may be sent before more is granted.

    `connection` numbers this end's attempts to connect; `seen` is the other end's, where that was heard of, otherwise
    0. `answers` is set on a greeting that asks for none.
    """

    node: int
    incarnation: int
    constants: dict[str, bool | int | float | str]
    credit: int
    connection: int = 0
    seen: int = 0
    answers: bool = False


class Grant(Struct, frozen=True, array_like=True, tag=65):
    """So many more events may be sent."""

    events: int


class Packet(Struct, frozen=True, array_like=True, tag=66):
    """A message of one lane with its number in that lane, and how far both lanes have come in the other direction.

    Without a message it is a bare acknowledgement. `to` and `by` are the connections of the two ends: a packet of
    another connection than the present one is of the past. `granted` counts all events that may ever be sent.
    """

    to: int
    by: int
    control: int
    events: int
    granted: int
    lane: int = 0
    number: int = 0
    message: bytes = b""


Frame: TypeAlias = Hello | Grant | Packet

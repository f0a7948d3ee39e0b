"""What a rule says, before it is known of which attributes: questions about fields, joined by all, any and not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from sigma.types import SigmaType


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """Whether a field has one of some values, or, where no field is named, whether any value of the event is one."""

    field: str | None
    values: tuple[SigmaType, ...]
    path: tuple[str | int, ...]  # where in the rule it is written
    cased: bool = False  # whether case matters where values are other fields; of others they say so themselves


@dataclass(frozen=True, slots=True, eq=False)
class All:
    """Every part holds."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Any:
    """Some part holds."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Not:
    """The part does not hold."""

    part: Formula


Formula: TypeAlias = Ask | All | Any | Not

"""Who talks to a broker, and what are they allowed?

A grant is a filter: what a principal may hear, and what it may say. For a client those bound its subscriptions and its
publications. For a neighbouring broker they are what may leave over the link to it, and what may come in by it. So one
rule serves both, and whoever writes a grant writes a condition, as subscribers do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from palio.errors import InvalidArgument
from palio.filters.filter import Filter

Role: TypeAlias = Literal["client", "broker", "admin"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
ANY_SOURCE: Final = "*"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody a broker knows.

    >>> desk = Principal("desk", may_subscribe=Filter.parse("symbol = 'ACME'"))
    >>> desk.may_publish == Filter.nothing, desk.claims("desk/7"), desk.claims("bank")
    (True, True, False)
    """

    name: str
    role: Role = "client"
    may_subscribe: Filter = field(default=Filter.nothing)
    may_publish: Filter = field(default=Filter.nothing)
    may_annotate: bool = False
    """Whether it may say where its events go, in place of the broker's own look at their content."""
    may_see_status: bool = False
    """Whether it may read status, metrics, dead letters and what others subscribe to."""
    sources: tuple[str, ...] = ()
    """What its events may name as their source beside its own name: each with all below it, or `*` for any."""

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.role not in ROLES:
            raise InvalidArgument(f"a role is {', '.join(ROLES)}, not {self.role!r}")
        for each in (self.may_subscribe, self.may_publish):
            if not isinstance(each, Filter):
                raise InvalidArgument(f"a grant is a filter, not {type(each).__name__}")

    def claims(self, source: str) -> bool:
        """Whether an event of this principal may say that it is from `source`."""
        return any(own == ANY_SOURCE or source == own or _is_below(source, own) for own in (self.name, *self.sources))


def check_name(name: str) -> str:
    """A name that can stand in a log, a file and a source; InvalidArgument for others."""
    if not _NAME.fullmatch(name):
        raise InvalidArgument(f"a name is up to 64 letters, digits and any of . _ @ -, not {name!r:.80}")
    return name


def _is_below(source: str, own: str) -> bool:
    # A slash ends what is owned: whoever owns `bank` does not own `banknotes`, nor `bank/../mint`.
    below = source.removeprefix(own.removesuffix("/") + "/")
    return below != source and ".." not in below.split("/")


def unrestricted(name: str) -> Principal:
    """One that may do everything."""
    return Principal(
        name,
        "admin",
        Filter.everything,
        Filter.everything,
        may_annotate=True,
        may_see_status=True,
        sources=(ANY_SOURCE,),
    )


ANYONE: Final = unrestricted("anyone")
"""Whoever connects to a broker that has no tokens, which only its own machine can reach."""

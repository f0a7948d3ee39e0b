"""Who was matched most, least and never."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from palio.cli import terminal

if TYPE_CHECKING:
    from rich.console import Console

_FEW: Final = 3


class Ranking:
    """Subscriptions by their matches."""

    def __init__(self, counts: Mapping[str, int], ids: Collection[str]) -> None:
        self._counts = counts
        self._ids = ids

    @cached_property
    def ranked(self) -> list[tuple[str, int]]:
        """Those that were matched, the most matched first."""
        return sorted(self._counts.items(), key=lambda each: (-each[1], each[0]))

    def most(self, top: int) -> list[tuple[str, int]]:
        return self.ranked[:top]

    def least(self, top: int) -> list[tuple[str, int]]:
        """The least matched first; those that never were are not among them."""
        return self.ranked[::-1][:top]

    @cached_property
    def never(self) -> list[str]:
        return sorted(id for id in self._ids if id not in self._counts)

    def as_dict(self, top: int) -> dict[str, Any]:
        return {
            "never_matched": len(self.never),
            "most_matched": dict(self.most(top)),
            "least_matched": dict(self.least(top)),
        }

    def facts(self, top: int, since: str = "") -> list[tuple[str, str]]:
        """What a summary says of it."""
        told = [("subscriptions", f"{len(self._ids):,}{since}, of which {len(self.never):,} never matched")]
        if self.ranked and top:
            few = self.least(min(top, _FEW))
            told.append(("least matched", ", ".join(f"{id} ({count:,})" for id, count in few)))
        return told


def print_most_matched(console: Console, ranking: Ranking, top: int) -> None:
    """A table with a bar for each."""
    from rich.table import Column
    from rich.text import Text

    most = ranking.most(top)
    if not most:
        return
    room = 24 if console.width >= terminal.WIDE else 12
    table = terminal.table("most matched", terminal.numbers("matches"), Column("", width=room))
    for id, count in most:
        table.add_row(Text(id, style="name"), f"{count:,}", terminal.bar(count / most[0][1], room))
    console.print(table)
    console.print()

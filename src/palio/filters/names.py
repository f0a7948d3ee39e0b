"""An attribute's name as SQL writes it; `palio.events.names` says how names are made."""

from __future__ import annotations

import re
from typing import Final

from palio.events.names import split_path

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

# Words that SQL would not read as a name everywhere; quoting one too many does no harm.
KEYWORDS: Final = frozenset(
    "all and any anti array as between both by case cast collate constraint create cross cube current_date "
    "current_time current_timestamp current_user date day days distinct div else end escape except exists extract "
    "false filter first following for from full group having hour hours ilike in inner intersect interval into is "
    "join last lateral leading left like limit map minus minute minutes month months natural not null nulls on only "
    "or order outer overlaps overlay position preceding primary range regexp right rlike row rows second seconds "
    "select semi session_user set similar some struct substr substring table then time timestamp timestamp_ltz "
    "timestamp_ntz to trailing trim true try_cast type typeof unbounded union unique unknown using values void week "
    "weeks when where window with within year years".split()
)


def to_sql(attribute: str) -> str:
    """An attribute's name in SQL, each segment back-quoted where it must be."""
    return ".".join(_quoted(each) for each in split_path(attribute))


def _quoted(segment: str) -> str:
    if _PLAIN.match(segment) and segment.lower() not in KEYWORDS:
        return segment
    return f"`{segment.replace('`', '``')}`"

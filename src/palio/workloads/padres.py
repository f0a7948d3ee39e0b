"""Workload of the PADRES project: stock quotes and subscriptions, read from the caller's files.

PADRES, of the Middleware Systems Research Group in Toronto, publishes quotes and subscriptions in a syntax of bracketed
triples. Nothing of theirs is shipped with Palio. A subscription becomes a `WHERE` clause, a quote an event.

    [class,eq,'STOCK'],[symbol,eq,'YHOO'],[high,>,11.25]          a subscription
    [class,'STOCK'],[symbol,'YHOO'],[open,11.20],[volume,458500]  a publication

`eq`, `neq` and the `str-` operators compare strings, quoted or not; the others compare numbers.
"""

from __future__ import annotations

import lzma
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from palio.errors import InputError, ParseError

if TYPE_CHECKING:
    import pyarrow as pa

Value: TypeAlias = str | int | float

COVERING_TEST = "ScoutTestAddDupChild2.txt"
"""The largest of their subscription files: 10,000 lines, about half of them distinct."""

_PRICES = ("open", "high", "low", "close")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE = re.compile(rf"\[date,'(\d+)-({'|'.join(_MONTHS)})-(\d\d)'\]")
_SYMBOL = re.compile(r"\[symbol,'?([^'\]]*)'?\]")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")
_VALUE = r"(?:'(?P<quoted>[^']*)'|(?P<bare>[^\]']*))"
_TRIPLE = re.compile(rf"\[\s*(?P<name>\w+)\s*,\s*(?P<operator>[^,\]\s]+)\s*,\s*{_VALUE}\s*\]\s*,?\s*")
_PAIR = re.compile(rf"\[\s*(?P<name>\w+)\s*,\s*{_VALUE}\s*\]\s*,?\s*")
_KIND_OF_LINE = re.compile(r"[aspu]\s+(?=\[)")

_NUMERIC = {"=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_STRING = {"eq": "=", "neq": "<>", "str-lt": "<", "str-le": "<=", "str-gt": ">", "str-ge": ">="}
_LIKE = {"str-prefix": "{}%", "str-postfix": "%{}", "str-contains": "%{}%"}
_OPERATORS = (*_NUMERIC, *_STRING, *_LIKE, "isPresent")


@dataclass(frozen=True, slots=True)
class Triple:
    """One condition as PADRES writes it."""

    name: str
    operator: str
    value: Value

    def to_sql(self) -> str:
        if self.operator == "isPresent":
            return f"{self.name} IS NOT NULL"
        if self.operator in _LIKE:
            escaped = re.sub(r"([\\%_])", r"\\\1", str(self.value))
            return f"{self.name} LIKE {_quote(_LIKE[self.operator].format(escaped))}"
        if self.operator in _STRING:
            return f"{self.name} {_STRING[self.operator]} {_quote(str(self.value))}"
        return f"{self.name} {_NUMERIC[self.operator]} {self.value}"


def parse_subscription(text: str) -> list[Triple]:
    """The triples of one subscription (or advertisement), in their order."""
    triples = []
    for position, match in _brackets(_TRIPLE, text):
        name, operator = match["name"], match["operator"]
        if operator not in _OPERATORS:
            known = f"Known: {', '.join(_OPERATORS)}."
            raise ParseError(text, match.start("operator"), f"no PADRES operator {operator!r}", known)
        value = _text_of(match)
        if operator not in _NUMERIC:
            triples.append(Triple(name, operator, value))
            continue
        if not _NUMBER.fullmatch(value):
            raise ParseError(text, position, f"{operator!r} compares numbers, and {value!r} is none")
        triples.append(Triple(name, operator, float(value) if "." in value else int(value)))
    return triples


def to_sql(text: str) -> str:
    """A subscription in PADRES's syntax as a SQL condition.

    >>> to_sql("[class,eq,'STOCK'],[high,>,11.25]")
    "class = 'STOCK' AND high > 11.25"
    """
    return " AND ".join(triple.to_sql() for triple in parse_subscription(text))


def parse_publication(text: str) -> dict[str, Value]:
    """A publication as an event; what is not quoted and looks like a number is one.

    >>> parse_publication("[class,'STOCK'],[open,2.60],[volume,458500]")
    {'class': 'STOCK', 'open': 2.6, 'volume': 458500}
    """
    event: dict[str, Value] = {}
    for _, match in _brackets(_PAIR, text):
        value = _text_of(match)
        if match["bare"] is None or not _NUMBER.fullmatch(value):
            event[match["name"]] = value
        else:
            event[match["name"]] = float(value) if "." in value else int(value)
    return event


def read_subscriptions(path: str | Path, member: str = COVERING_TEST) -> list[str]:
    """The subscriptions of a text file, or of the file `member` in a tar archive, as PADRES wrote them.

    Each line stands for one subscription, repeated lines too; `to_sql` makes it a condition.
    """
    return [line.strip() for line in _lines(Path(path), member) if line.strip()]


def read_quotes(path: str | Path) -> Iterator[dict[str, Value]]:
    """The stock quotes of a file, one event each; prices are floats even where they are written as `3`."""
    for number, text in _quotes(Path(path)):
        yield _quote_of(path, number, text)


def quotes_in_time_order(path: str | Path, last: int | None = None) -> list[tuple[datetime, dict[str, Value]]]:
    """The last quotes of a file, or all, with their days: from the first day on, and within a day by symbol.

    The file is ordered by symbol. Only the quotes that are returned are parsed in full.
    """
    dated = []
    for number, text in _quotes(Path(path)):
        day, symbol = _DATE.search(text), _SYMBOL.search(text)
        if day is None or symbol is None:
            raise InputError(str(path), "a quote without a date or a symbol", number)
        dated.append((_day(*day.groups()), symbol[1], number, text))
    dated.sort()
    chosen = dated if last is None else dated[max(0, len(dated) - last) :]
    return [(day, _quote_of(path, number, text)) for day, _, number, text in chosen]


def _quotes(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of quotes with their numbers."""
    for number, line in enumerate(_lines(path, None), 1):  # a quote of a joined line has the number of the line
        # The published file was pasted together from one file per symbol without the line ends between them.
        for text in line.strip().replace("][class,", "]\n[class,").split("\n"):
            if text:
                yield number, text


def _quote_of(path: str | Path, number: int, text: str) -> dict[str, Value]:
    try:
        quote = parse_publication(text)
        quote.update({name: float(quote[name]) for name in _PRICES if name in quote})
    except ParseError as error:
        raise InputError(str(path), error.reason, number) from error
    except ValueError as error:
        raise InputError(str(path), f"a price that is no number: {error}", number) from error
    return quote


@lru_cache
def _day(day: str, month: str, year: str) -> datetime:
    """A day with a two-digit year; no quote is later than 2029."""
    century = 2000 if int(year) < 30 else 1900
    return datetime(century + int(year), _MONTHS.index(month) + 1, int(day), tzinfo=UTC)


def advertisement_of(symbol: str) -> str:
    """The advertisement of a symbol's publisher, as in PADRES's examples: class, symbol and present attributes."""
    present = ",".join(f"[{name},isPresent,0]" for name in (*_PRICES, "volume", "date"))
    return f"[class,eq,'STOCK'],[symbol,eq,'{symbol}'],{present}"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a demonstration: `a` advertises, `s` subscribes, `p` publishes."""

    kind: str
    text: str


def read_demonstration(path: str | Path, member: str) -> list[Line]:
    """The advertisements, subscriptions and publications of a demonstration, in their order."""
    lines = [line.strip() for line in _lines(Path(path), member)]
    return [Line(line[0], line[2:].strip()) for line in lines if _KIND_OF_LINE.match(line)]


def quotes_batch(quotes: Sequence[dict[str, Value]]) -> pa.RecordBatch:
    """Quotes as Arrow columns."""
    import pyarrow as pa

    schema = pa.schema(
        [("class", pa.string()), ("symbol", pa.string())]
        + [(name, pa.float64()) for name in _PRICES]
        + [("volume", pa.int64()), ("date", pa.string())]
    )
    return pa.RecordBatch.from_pylist(list(quotes), schema=schema)


def _brackets(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, re.Match[str]]]:
    """The brackets of a text; anything else is an error."""
    start = _KIND_OF_LINE.match(text)
    position = start.end() if start else 0
    while position < len(text.rstrip()):
        match = pattern.match(text, position)
        if match is None:
            raise ParseError(text, position, "expected a bracket such as [price,>,10] or [price,10]")
        yield position, match
        position = match.end()


def _text_of(match: re.Match[str]) -> str:
    return str(match["quoted"]) if match["bare"] is None else str(match["bare"]).strip()


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _lines(path: Path, member: str | None) -> Iterator[str]:
    if member is not None and ".tar" in path.suffixes:
        yield from _lines_of_member(path, member)
        return
    with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as file:
        yield from file


def _lines_of_member(path: Path, member: str) -> Iterator[str]:
    with tarfile.open(path) as archive:
        for entry in archive:
            if Path(entry.name).name == member and (file := archive.extractfile(entry)) is not None:
                for line in file:
                    yield line.decode()
                return
    raise InputError(str(path), f"the archive has no file {member!r}")

"""What did a published content-based system test itself with?

PADRES, of the Middleware Systems Research Group in Toronto, publishes stock quotes and subscriptions to them
in a syntax of bracketed triples. This module reads both from the caller's files (nothing of theirs is shipped
with Palio) and turns a subscription into a `WHERE` clause and a quote into an event.

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
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from palio.errors import InputError, ParseError

if TYPE_CHECKING:
    import pyarrow as pa

Value: TypeAlias = str | int | float

COVERING_TEST = "ScoutTestAddDupChild2.txt"
"""The largest of their subscription files: 10,000 lines, about half of them distinct."""

_PRICES = ("open", "high", "low", "close")
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
        """The same condition in SQL."""
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
    for position, found in _each(_TRIPLE, text):
        name, operator = found["name"], found["operator"]
        if operator not in _OPERATORS:
            known = f"Known: {', '.join(_OPERATORS)}."
            raise ParseError(text, found.start("operator"), f"no PADRES operator {operator!r}", known)
        value = _text_of(found)
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
    for _, found in _each(_PAIR, text):
        value = _text_of(found)
        if found["bare"] is None or not _NUMBER.fullmatch(value):
            event[found["name"]] = value
        else:
            event[found["name"]] = float(value) if "." in value else int(value)
    return event


def read_subscriptions(path: str | Path, member: str = COVERING_TEST) -> list[str]:
    """The subscriptions of a text file, or of the file `member` in a tar archive, as PADRES wrote them.

    Each line stands for one subscription, repeated lines too; `to_sql` makes it a condition.
    """
    return [line.strip() for line in _lines(Path(path), member) if line.strip()]


def read_quotes(path: str | Path) -> Iterator[dict[str, Value]]:
    """The stock quotes of a file, one event each; prices are floats even where they are written as `3`."""
    for number, line in enumerate(_lines(Path(path), None), 1):
        # The published file was pasted together from one file per symbol without the line ends between them.
        for text in re.split(r"(?<=\])(?=\[class,)", line.strip()):
            if not text:
                continue
            try:
                quote = parse_publication(text)
                quote.update({name: float(quote[name]) for name in _PRICES if name in quote})
            except ValueError as error:
                raise InputError(str(path), f"a price that is no number: {error}", number) from error
            except ParseError as error:
                raise InputError(str(path), error.reason, number) from error
            yield quote


def quotes_batch(quotes: Sequence[dict[str, Value]]) -> pa.RecordBatch:
    """Quotes as Arrow columns."""
    import pyarrow as pa

    schema = pa.schema(
        [("class", pa.string()), ("symbol", pa.string())]
        + [(name, pa.float64()) for name in _PRICES]
        + [("volume", pa.int64()), ("date", pa.string())]
    )
    return pa.RecordBatch.from_pylist(list(quotes), schema=schema)


def _each(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, re.Match[str]]]:
    """Every bracket of the text in turn; whatever is not one is an error."""
    start = _KIND_OF_LINE.match(text)
    position = start.end() if start else 0
    while position < len(text.rstrip()):
        found = pattern.match(text, position)
        if found is None:
            raise ParseError(text, position, "expected a bracket such as [price,>,10] or [price,10]")
        yield position, found
        position = found.end()


def _text_of(found: re.Match[str]) -> str:
    return str(found["quoted"]) if found["bare"] is None else str(found["bare"]).strip()


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

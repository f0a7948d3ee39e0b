"""Generator of values: types, productions and arguments."""

from __future__ import annotations

from collections.abc import Callable

from tests.oracles import tables
from tests.oracles.signatures import SIGNATURES, Signature
from tests.oracles.sql_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MONEY,
    MONTHS,
    STRING,
    TIMESTAMP,
    TINYINT,
    WIDE,
    Type,
    is_decimal,
    is_integer,
)
from tests.oracles.tables import VALUES
from tests.oracles.writing import PRIMARY, Expr, Writer

# fmt: off
_WORDS = ("a", "A", "ab", "abc", "b", "é", "😀", "10", " ", "%", "_", "\\", "", "World")
_WEEKDAYS = "MO tue Wednesday TH sunday x Sa".split()
_UNITS = "year YY yyyy quarter MONTH mon mm week day x".split()
_CLOCK_UNITS = "YEAR month DD day HOUR minute second week quarter MILLISECOND microsecond x".split()
_COUNTED = "MICROSECOND millisecond SECOND minute HOUR day WEEK month QUARTER year".split()
_GROUPED = ("(a)(b)?", "([a-z]+)( *)", "(.)(.)$", "(a|ab)(c|b)?", "(\\d)+", "^(\\w*?)(b|\\W)", "(?i)(A)|(b)", "(😀|é)")
_REPLACEMENTS = ("", "-", "[$1]", "$0$0", "\\$", "$10")
_WRITING = ("yyyy-MM-dd HH:mm:ss.SSS", "d.M.yy", "EEE MMM d", "h:mm a", "D", "yyyyMMdd'T'HHmmssX", "QQQ yyyy", "xxx")
_READING = ("yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd[ HH:mm[:ss]]", "yyyy-M-d H:m:s", "yyyy")
_NEVER_NULL = frozenset("nums names string counted distance index".split())
# fmt: on

_MASK_CHARACTERS = ("*", "q", "0", "-")
_CHARSETS = ("UTF-8", "utf-8", "US-ASCII", "ISO-8859-1", "UTF-16BE", "UTF-16LE", "UTF-16")
_URLS = (
    "http://a.b/c?d=1#e",
    "https://u:p@host:8080/x/y;z?q=&r=%20",
    "ftp://h",
    "mailto:a@b",
    "/only/path",
    "http://h?d",
)
_URL_PARTS = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO")
_JSON = (
    '{"a": 1, "b": {"c": [1, "x", null]}}',
    '[{"a": 1.50}, {"a": "ä"}]',
    '{"a": true}',
    '{"a": ',
    "7",
    '{"a.b": 2}',
)
_DOCUMENTS = (
    "<a><b>1</b><b x='2'>two</b></a>",
    "<a>10</a>",
    "<c><a><b/></a></c>",
    "<a",
    "",
)
_XPATHS = (
    "/a/b", "//b", "a/b", "//b[@x = 2]", "/a[b = 'two']", "/a[b > 0]", "//a[not(b)]", "/a | /c", "//b[. = 1 or @x]",
    "//b[contains(., 'w')]", "/a[starts-with(b, '1')]", "//*[count(b) = 0]", "//b[parent::a][not(ancestor::c)]",
)  # fmt: skip
_JSON_PATHS = ("$", "$.a", "$.b.c", "$.b.c[1]", "$[0].a", "$['a.b']", "$.missing", "a")


class Values(Writer):
    """A value of any type, and the arguments of functions."""

    def value(self, kind: Type, depth: int) -> Expr:
        """An expression of a type (of one of its family, where that is computed)."""
        if depth <= 0 or self.chance(0.35):
            column = self.column(kind)
            return column if column is not None and self.chance(0.85) else self.literal(kind)
        if kind == BOOLEAN:
            return self.condition(depth - 1)
        makers: list[tuple[float, Callable[[int], Expr | None]]] = []
        if is_integer(kind):
            makers = [
                (5, self._integer_arithmetic),
                (3, self._integer_function),
                (2, self._integer_cast),
                (1, self._bits),
                (1, self._extracted),
                (2, self._chosen_integer),
            ]
        elif kind == DOUBLE:
            makers = [
                (5, self._double_arithmetic),
                (3, self._double_function),
                (2, self._double_cast),
                (2, self._chosen_double),
                (1, self._divided),
            ]
        elif kind == FLOAT:
            makers = [(1, self._float_cast), (1, self._float_sign), (1, self._chosen_float)]
        elif is_decimal(kind):
            makers = [
                (4, self._decimal_arithmetic),
                (1.5, self._decimal_quotient),
                (2, self._decimal_cast),
                (2, self._decimal_function),
                (1, self._chosen_money),
            ]
        elif kind == STRING:
            makers = [
                (6, self._string_function),
                (2, self._string_cast),
                (2, self._joined),
                (1.5, self._chosen_string),
                (1.5, self._string_construct),
            ]
        elif kind == DATE:
            makers = [
                (3, self._date_function),
                (2, self._date_arithmetic),
                (2, self._date_cast),
                (1, self._chosen_date),
            ]
        elif kind == TIMESTAMP:
            makers = [
                (3, self._timestamp_function),
                (3, self._timestamp_arithmetic),
                (2, self._timestamp_cast),
                (1, self._chosen_timestamp),
            ]
        elif kind == BINARY:
            makers = [(2, self._binary_function), (1, self._binary_cast), (1, self._chosen_binary)]
        elif kind == MONTHS:
            makers = [(1, self._interval_arithmetic_months)]
        else:
            makers = [(2, self._time_difference), (1, self._interval_arithmetic_micros)]
        return self.pick(*makers, depth=depth)

    def function(self, result: Type, depth: int) -> Expr:
        """The call of a function that gives this type, sooner of one that was called less often."""
        known = [each for each in SIGNATURES if each.result == result]
        some = self.random.sample(known, min(3, len(known)))
        return self.calling(min(some, key=lambda each: self.used[each.name]), depth)

    def calling(self, signature: Signature, depth: int) -> Expr:
        arguments = [self.argument(sort, depth - 1) for sort in signature.arguments]
        return self.call(signature.name, signature.result, *arguments)

    def argument(self, sort: str, depth: int) -> Expr:
        """An argument of a sort that `signatures.py` names."""
        random = self.random
        if sort not in _NEVER_NULL and self.chance(0.02):
            return self.null()
        makers: dict[str, Callable[[], Expr]] = {
            "text": lambda: self.value(STRING, depth) if self.chance(0.93) else self.unlike_text(depth),
            "part": lambda: self.text(random.choice(_WORDS)) if self.chance(0.8) else self.value(STRING, 0),
            "string": lambda: self.value(STRING, depth),
            "ascii": lambda: Expr("clock", STRING),
            "bytes": lambda: self.value(BINARY, depth),
            "place": lambda: (
                self.small(-4, 7)
                if self.chance(0.95)
                else self.constant(random.choice(["2147483647", "-2147483648"]), INT)
            ),
            "count": lambda: self.small(-1, 9),
            "short": lambda: self.small(-3, 6),
            "digits": lambda: self.constant(str(random.randint(-3, 4)), INT),
            "code": lambda: self.small(-2, 300) if self.chance(0.6) else self.value(BIGINT, 0),
            "integer": lambda: self.value(random.choice((TINYINT, INT, BIGINT)), depth),
            "int": lambda: self.column(random.choice((TINYINT, INT))) or self.small(-9, 9),
            "bigint": lambda: (
                self.column(BIGINT) if self.chance(0.7) else self.constant(f"{VALUES['bigint'](random)}L", BIGINT)
            ),
            "real": lambda: self.value(DOUBLE, depth),
            "money": lambda: self.column(MONEY) if self.chance(0.8) else self.constant("1.50", MONEY),
            "number": lambda: self.value(random.choice((TINYINT, INT, BIGINT, DOUBLE, MONEY)), depth),
            "date": lambda: self.value(DATE, depth),
            "timestamp": lambda: self.value(TIMESTAMP, depth),
            "day": lambda: (
                self.value(random.choice((DATE, DATE, TIMESTAMP)), depth) if self.chance(0.85) else self.time_text()
            ),
            "moment": lambda: (
                self.value(random.choice((DATE, TIMESTAMP, TIMESTAMP)), depth)
                if self.chance(0.85)
                else self.time_text()
            ),
            "safe_day": lambda: (
                self.column(DATE, "moderate date") if self.chance(0.8) else self.constant("DATE'2024-01-31'", DATE)
            ),
            "safe_moment": lambda: (
                self.column(TIMESTAMP, "moderate timestamp") if self.chance(0.8) else self.column(DATE, "moderate date")
            ),
            "weekday": lambda: self.text(random.choice(_WEEKDAYS)),
            "unit": lambda: self.text(random.choice(_UNITS)),
            "clock_unit": lambda: self.text(random.choice(_CLOCK_UNITS)),
            "year_number": lambda: (
                self.constant(random.choice(["2024", "1999", "1", "9999", "2023"]), INT)
                if self.chance(0.7)
                else Expr("year(day2)", INT)
            ),
            "month_number": lambda: self.small(0, 13),
            "day_number": lambda: self.small(0, 32),
            "truth": lambda: self.literal(BOOLEAN),
            "nums": lambda: Expr("nums", Type("array")),
            "names": lambda: Expr("names", Type("array")),
            "pattern": self.pattern,
            "regex": lambda: self.text(self.regex()),
            # Up to Java 18, \b knows letters outside ASCII, which \w does not.
            "word_regex": lambda: self.text(random.choice([r"\b", r"\B", r"2\b", r"\b0\w+\b", r"\B1"])),
            "grouped": lambda: self.text(random.choice(_GROUPED)),
            "group": lambda: self.constant(random.choice("01"), INT),
            "replacement": lambda: self.text(random.choice(_REPLACEMENTS)),
            "distance": lambda: self.constant(str(random.randint(-1, 4)), INT),
            "bits": lambda: self.constant(random.choice(("0", "224", "256", "384", "512", "5")), INT),
            "base": lambda: self.constant(random.choice(("2", "10", "16", "-10", "36", "1")), INT),
            "counted": lambda: Expr(self.word(random.choice(_COUNTED)), Type("unit")),
            "writing": lambda: self.text(random.choice(_WRITING)),
            "reading": lambda: self.text(random.choice(_READING)),
            "mask_character": lambda: self.text(random.choice(_MASK_CHARACTERS)) if self.chance(0.8) else self.null(),
            "charset": lambda: self.text(random.choice(_CHARSETS)),
            "notation": lambda: self.text(random.choice(("hex", "utf-8", "base64", "HEX"))),
            "digits_text": lambda: self.text(random.choice(("", "61", "616", "6G", "c3A4", "FF00"))),
            "url": lambda: self.text(random.choice(_URLS)) if self.chance(0.8) else self.value(STRING, depth),
            "url_part": lambda: self.text(random.choice(_URL_PARTS)),
            "json": lambda: self.text(random.choice(_JSON)) if self.chance(0.8) else self.value(STRING, depth),
            "json_path": lambda: self.text(random.choice(_JSON_PATHS)),
            "document": lambda: self.text(random.choice(_DOCUMENTS)),
            "xpath": lambda: self.text(random.choice(_XPATHS)),
            "text_format": lambda: self.text(random.choice(("%s", "<%5s>", "%-6s|", "%S", "%.2s", "100%% %s"))),
            "integer_format": lambda: self.text(
                random.choice(("%d", "%5d", "%-5d|", "%05d", "%+d", "%,d", "%x", "%s"))
            ),
            "bit": lambda: self.constant(random.choice(("0", "1", "31", "62", "63")), INT),
            "hour": lambda: self.small(-1, 24),
            "minute": lambda: self.small(-1, 60),
            "seconds": lambda: self.constant(random.choice(("0", "59.5", "60", "7.123456", "61")), MONEY),
            "index": lambda: self.constant(random.choice(("1", "2", "-1", "-2", "3")), INT),
            "printable": lambda: self.printable(depth),
            "flagish": lambda: self.value(random.choice((BOOLEAN, TINYINT, INT, BIGINT, DOUBLE, MONEY, STRING)), depth),
        }
        return makers[sort]()

    def small(self, low: int, high: int) -> Expr:
        """A small integer, mostly a constant."""
        if self.chance(0.75):
            return self.constant(str(self.random.randint(low, high)), INT)
        return Expr(f"(num % {high + 1})", INT) if self.chance(0.5) else Expr("(tiny % 5)", INT)

    def time_text(self) -> Expr:
        return Expr("clock", STRING) if self.chance(0.6) else self.text(self.random.choice(tables.TIME_TEXTS))

    def unlike_text(self, depth: int) -> Expr:
        """What a function takes for a text, and is none: not bytes, of which many functions make bytes."""
        while (found := self.printable(depth)).type == BINARY:
            pass
        return found

    def printable(self, depth: int) -> Expr:
        """A value that Palio and every Java write alike: not bytes, unless they are a text's."""
        kind = self.random.choice((TINYINT, INT, BIGINT, MONEY, WIDE, BOOLEAN, DATE, TIMESTAMP, DOUBLE, BINARY))
        if kind == DOUBLE:
            return Expr("tame", DOUBLE)
        if kind == BINARY:
            return self.cast(self.value(STRING, depth - 1), BINARY)
        if is_decimal(kind) or kind == BOOLEAN:
            return self.column(kind) or self.literal(kind)
        return self.value(kind, depth)

    def cast(self, value: Expr, kind: Type, name: str | None = None) -> Expr:
        target = self.word((name or kind.sql).upper())
        if self.chance(0.2):
            return self.made(f"{self.within(value, PRIMARY)}::{target}", kind, PRIMARY, value)
        function = self.word(self.random.choice(["CAST", "CAST", "CAST", "TRY_CAST"]))
        return self.made(f"{function}({value.text} {self.word('AS')} {target})", kind, PRIMARY, value)
